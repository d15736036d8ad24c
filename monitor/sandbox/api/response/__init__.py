"""Answers: what they show."""
