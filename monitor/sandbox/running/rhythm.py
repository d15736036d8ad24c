"""The rhythm of regular work: hours, weekdays and a slow drift. Pure, decided by the seed."""

from __future__ import annotations

import math
import random
from datetime import datetime

_WORKING_HOURS = range(8, 18)
_AT_WORK, _EVENING, _NIGHT, _AT_WEEKENDS = 1.0, 0.15, 0.02, 0.1
_EVENING_HOURS = range(6, 23)
_SATURDAY = 5
# Of a usual Wednesday's work, Monday first: much has gathered over a weekend.
_WEEKDAYS = (1.25, 1.05, 1.0, 1.0, 1.1, 0.7, 0.65)
_DRIFT, _DRIFT_DAYS = 0.15, 56.0  # how far and how slowly the usual time moves, up and down
_SPREAD = 0.06  # of two runs on one day
_LEAST_SHARE = 0.5  # of the usual time
_DAY_SECONDS = 86_400.0


def busyness(at: datetime) -> float:
    """Return how much people start at that time, of what they start at their busiest."""
    if at.weekday() >= _SATURDAY:
        return _AT_WEEKENDS
    if at.hour in _WORKING_HOURS:
        return _AT_WORK
    return _EVENING if at.hour in _EVENING_HOURS else _NIGHT


def work_factor(at: datetime, *, phase: float, of_run: random.Random) -> float:
    """Return by what to multiply the usual time of a recipe that begins at that time.

    ``phase`` is of the recipe's drift, from 0 to 1.
    """
    days = at.timestamp() / _DAY_SECONDS
    drift = _DRIFT * math.sin(math.tau * (days / _DRIFT_DAYS + phase))
    share = max(_LEAST_SHARE, of_run.gauss(1.0, _SPREAD))
    return _WEEKDAYS[at.weekday()] * (1.0 + drift) * share
