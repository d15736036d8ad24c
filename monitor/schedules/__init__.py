"""When a schedule should have fired. Pure: a trigger and an instant go in, instants come out."""

from monitor.schedules.errors import BadTriggerError
from monitor.schedules.times import check, next_after, second_pass, times_between

__all__ = ["BadTriggerError", "check", "next_after", "second_pass", "times_between"]
