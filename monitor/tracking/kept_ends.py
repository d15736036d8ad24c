"""The newest ends of one pipeline or recipe, and what follows from them. Pure.

Ends are kept and ordered by `monitor.model.ends`, so a better time of an end sorts it again and an
older end that is seen later never becomes the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from monitor.model.ends import RunEnd, with_end, without_run
from monitor.model.live_state import PipelineHealth
from monitor.model.overall_health import ends_of
from monitor.model.runs import Status

_ENDS_KEPT = 20


def with_end_of_run(
    health: PipelineHealth, end: RunEnd, *, before: Status | None
) -> PipelineHealth:
    """Return the health with this end instead of what was known of the same run.

    ``before``: how the run was known to have ended, whether that is still kept or not.
    """
    ends, older_failures = ends_of(health), _older_failures(health)
    is_kept = any(known.run_id == end.run_id for known in ends)
    if before is Status.FAILED and not is_kept:
        older_failures = max(0, older_failures - 1)
    return _summarised(health, with_end(ends, end), older_failures)


def without_end_of_run(health: PipelineHealth, run_id: str) -> PipelineHealth:
    """Return the health as if the run had never ended."""
    return _summarised(health, without_run(ends_of(health), run_id), _older_failures(health))


def _summarised(
    health: PipelineHealth, ends: Sequence[RunEnd], older_failures: int
) -> PipelineHealth:
    kept, older_failures = _bounded(ends, older_failures)
    last = kept[-1] if kept else None
    success = _newest_success(kept)
    later = kept if success is None else kept[kept.index(success) + 1 :]
    failures = [end for end in later if end.status is Status.FAILED]
    return msgspec.structs.replace(
        health,
        ends=kept,
        older_failures=older_failures,
        last_status=last.status if last is not None else None,
        last_run_id=last.run_id if last is not None else None,
        last_run_started_at=last.began_at if last is not None else None,
        last_finished_at=last.at if last is not None else None,
        last_duration_seconds=last.duration_seconds if last is not None else None,
        last_success_at=success.at if success is not None else None,
        consecutive_failures=older_failures + len(failures),
        failed_at=tuple(failure.at for failure in failures),
    )


def _bounded(ends: Sequence[RunEnd], older_failures: int) -> tuple[tuple[RunEnd, ...], int]:
    """Return the newest ends, always with the newest success, and how many failures are older."""
    kept = list(ends)
    success = _newest_success(kept)
    while len(kept) > _ENDS_KEPT:
        dropped = kept.pop(1 if kept[0] is success else 0)
        if dropped.status is Status.FAILED and (success is None or dropped.order > success.order):
            older_failures += 1
    if success is not None and kept[0] is not success:
        older_failures = 0  # what is not kept lies before a kept end, and so before the success
    return tuple(kept), older_failures


def _newest_success(ends: Sequence[RunEnd]) -> RunEnd | None:
    # They are in order, and there may be as many as are kept for each end of a busy pipeline.
    return next((end for end in reversed(ends) if end.status is Status.SUCCEEDED), None)


def _older_failures(health: PipelineHealth) -> int:
    if health.ends:
        return health.older_failures
    return max(0, health.consecutive_failures - len(health.failed_at))
