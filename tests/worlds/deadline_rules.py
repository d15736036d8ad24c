"""The rules by which the daemon of a batch knows of the deadlines of its worlds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from monitor.alerting.rules.deadline_settings import Counts
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from tests.worlds.deadline_times import written
from tests.worlds.script import Deadline, World


def deadline_rules(worlds: Iterable[World], begins_at: datetime) -> list[RuleSettings]:
    """Return the rules for each deadline of worlds that are planned to begin then."""
    rules = []
    for world in worlds:
        for deadline in world.deadlines:
            missed = _rule(RuleKind.DEADLINE_MISSED, deadline, world.name, begins_at)
            rules.append(msgspec.structs.replace(missed, name=deadline.rule))
            if deadline.usual_seconds is not None:
                at_risk = _rule(RuleKind.DEADLINE_AT_RISK, deadline, world.name, begins_at)
                rules.append(
                    msgspec.structs.replace(
                        at_risk, name=deadline.risk_rule, threshold=deadline.usual_seconds
                    )
                )
    return rules


def _rule(kind: RuleKind, deadline: Deadline, workspace: str, begins_at: datetime) -> RuleSettings:
    terms = written(deadline, begins_at)
    return msgspec.structs.replace(
        default_rule(kind),
        match=Match(workspace=(workspace,), pipeline=(str(deadline.pipeline),)),
        deadline=terms.time,
        counts_from=terms.counts_from,
        counts=Counts(deadline.counts),
        deadline_timezone=terms.zone,
        deadline_days=",".join(terms.weekdays),
        holidays=terms.region,
        holiday_dates=terms.dates_off,
    )
