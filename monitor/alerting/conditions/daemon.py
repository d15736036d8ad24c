"""Rules about this daemon."""

from __future__ import annotations

from monitor.alerting.verdicts import AnyCondition

CONDITIONS: tuple[AnyCondition, ...] = ()
