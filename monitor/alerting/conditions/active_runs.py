"""Rules about runs that have not ended."""

from __future__ import annotations

from monitor.alerting.verdicts import AnyCondition

CONDITIONS: tuple[AnyCondition, ...] = ()
