"""Rules about how long ago a pipeline last succeeded."""

from __future__ import annotations

from monitor.alerting.verdicts import AnyCondition

CONDITIONS: tuple[AnyCondition, ...] = ()
