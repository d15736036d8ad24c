"""Reasons and times of the ends of flow runs and plan runs, from their parts."""
