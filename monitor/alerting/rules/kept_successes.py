"""What rules keep of a subject of which they know nothing but successes. Pure.

It comes to the same as handling the success by each of these rules, in a fraction of the time.
"""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput
from monitor.alerting.rules.part_ends import (
    BEHIND_KEPT,
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
    if success is not None and len(ends.parts) == 1:
        part = part_of(event_input)
        known = ends.parts.get(part, ())
        for end in known:
            if end.run_id == success.run_id:
                known = ()
                if end == success:
                    return ends
            elif end.may_improve:
                known = ()
        # As nearly always: it is the last one, and its time is as sure as theirs.
        if known and not success.may_improve and success.order > known[-1].order:
            newest = (*known, success)[-max(kept, BEHIND_KEPT + 1) :]
            return SubjectEnds(parts={part: newest}, error=ends.error)
    return pruned(with_end_of(event_input, ends), kept=kept) or _NO_ENDS
