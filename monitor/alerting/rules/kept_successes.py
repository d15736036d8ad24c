"""What rules keep of a subject of which they know nothing but successes. Pure.

It comes to the same as handling the success by each of these rules, in a fraction of the time.
"""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput
from monitor.alerting.rules.part_ends import (
    BEHIND_KEPT,
    FEW_PARTS,
    RootRunEnd,
    SubjectEnds,
    all_ends,
    end_of,
    part_of,
    pruned,
    with_end_of,
)
from monitor.model.runs import Status

_NO_ENDS = SubjectEnds()


def only_successes(ends: SubjectEnds) -> bool:
    return all(end.status is Status.SUCCEEDED for end in all_ends(ends))


def success_of(event_input: EventInput) -> RootRunEnd | None:
    """Return the success that the event of a root run shows; None where it shows none."""
    return end_of(event_input, None)


def with_success(
    event_input: EventInput, success: RootRunEnd | None, ends: SubjectEnds, *, kept: int
) -> SubjectEnds:
    """Return what is kept of ends that are all successes, with what the event of one shows."""
    part = part_of(event_input)
    known = ends.parts.get(part, ())
    others = list(all_ends(ends))
    if success in others:
        return ends
    if success is not None and known and len(ends.parts) <= FEW_PARTS:
        is_last = success.order > known[-1].order
        is_settled = not success.may_improve and not any(end.may_improve for end in others)
        if is_last and is_settled and all(end.run_id != success.run_id for end in others):
            # As nearly always.
            newest = (*known, success)[-max(kept, BEHIND_KEPT + 1) :]
            return SubjectEnds(parts={**ends.parts, part: newest}, error=ends.error)
    return pruned(with_end_of(event_input, ends), kept=kept) or _NO_ENDS
