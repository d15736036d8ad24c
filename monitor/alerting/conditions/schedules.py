"""Rules about schedules."""

from __future__ import annotations

from monitor.alerting.verdicts import AnyCondition

CONDITIONS: tuple[AnyCondition, ...] = ()
