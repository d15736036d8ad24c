"""Computes when schedules should have fired. Pure: a trigger and an instant in, instants out."""

from monitor.schedules.quartz import BadTriggerError
from monitor.schedules.times import check, instant_of, next_after, second_pass, times_between

__all__ = [
    "BadTriggerError",
    "check",
    "instant_of",
    "next_after",
    "second_pass",
    "times_between",
]
