"""callbacks_missed: callbacks that should have come keep staying away. Evaluated by our clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    DAY,
    OUTAGES,
    Firing,
    Ok,
    Quantity,
    Requirement,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    WorkspaceFacts,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.words import iso

# A minute holds what its callbacks add, so an hour's window is at most sixty steps.
_STEPS_PER_WINDOW = 60
# A run that ended in an outage is seen, and its callback counted as missed, only after it.
_AFTERMATH = 1 / 6  # of the window
_SILENCE_STORED_EVERY = timedelta(minutes=1)


class MissedCallbacks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the count of missed callbacks grew: when, and by how many, oldest first."""

    total: int
    steps: tuple[tuple[datetime, int], ...] = ()
    silent_at: datetime | None = None  # when the workspace was last seen not to answer


def evaluate(
    state: StateInput[WorkspaceFacts], memory: MissedCallbacks | None, rule: RuleSettings
) -> RuleAnswer[MissedCallbacks]:
    now = state.as_of
    if now is None:
        return RuleAnswer(Unknown("the workspace has not been asked yet"), memory)
    window = timedelta(seconds=rule.window_seconds)
    memory = _counted(memory, state.facts.status, now, window)
    missed = sum(count for _, count in memory.steps)
    if missed >= rule.threshold:
        result = Firing(
            since=memory.steps[0][0],
            as_of=now,
            facts={"missed": float(missed), "first_missed_at": iso(memory.steps[0][0])},
        )
        return RuleAnswer(result, memory)
    if missed > rule.threshold / 2:
        return RuleAnswer(Unknown(f"{missed} were missed of late"), memory)
    return RuleAnswer(Ok(at=now), memory)


def _counted(
    memory: MissedCallbacks | None, status: WorkspaceStatus, now: datetime, window: timedelta
) -> MissedCallbacks:
    total = status.callbacks_missed
    if memory is None:
        memory = MissedCallbacks(total=total)  # what was missed before the rule does not count
    # The count starts at zero with each start of the daemon.
    more = total - memory.total if total >= memory.total else total
    silent_at = _silent_at(memory, status, now, window)
    if silent_at is not None:
        more = 0  # what stayed away in an outage, ours or theirs, is explained
    steps = tuple(step for step in memory.steps if step[0] > now - window)
    if more:
        if steps and steps[-1][0] > now - window / _STEPS_PER_WINDOW:
            steps = (*steps[:-1], (steps[-1][0], steps[-1][1] + more))
        else:
            steps = (*steps, (now, more))
    return MissedCallbacks(total=total, steps=steps, silent_at=silent_at)


def _silent_at(
    memory: MissedCallbacks, status: WorkspaceStatus, now: datetime, window: timedelta
) -> datetime | None:
    """Return since when callbacks may stay away because of an outage; None once that is over."""
    before = memory.silent_at
    is_asked = status.reachability is not Reachability.UNKNOWN and not status.is_remembered
    if not is_asked or status.reachability is Reachability.UNREACHABLE:
        # Each change is a write.
        is_stored = before is not None and now - before < _SILENCE_STORED_EVERY
        return before if is_stored else now
    return None if before is None or now - before >= window * _AFTERMATH else before


DEFINITION = RuleDefinition(
    rule=RuleKind.CALLBACKS_MISSED,
    subject_kind=SubjectKind.WORKSPACE,
    memory=MissedCallbacks,
    evaluate=evaluate,
    about="Callbacks that should have come keep staying away.",
    summary="Callbacks of {workspace} {stay|stayed} away",
    description="{missed} callbacks did not come from {first_missed_at:time} on; polls found those "
    "runs later.",
    template_fields=("missed", "first_missed_at"),
    threshold=Quantity(
        about="callbacks within the window", default=3, least=1, most=100_000, is_count=True
    ),
    window=Quantity(about="that callbacks are counted in", default=3_600, least=60, most=7 * DAY),
    requires=Requirement(table="callbacks", hint="add [workspaces.callbacks]"),
    inhibited_by=OUTAGES,
    not_recorded="the event log does not hold how many callbacks were missed",
)
