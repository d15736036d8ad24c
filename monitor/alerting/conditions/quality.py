"""Rules about what the data is like."""

from __future__ import annotations

from monitor.alerting.verdicts import AnyCondition

CONDITIONS: tuple[AnyCondition, ...] = ()
