"""Runs flows, plans, jobs and schedules, step by step on the clock."""
