"""The newest ends of one pipeline or recipe, and what follows from them. Pure.

Ends are kept and ordered by `monitor.model.ends`, so a better time of an end sorts it again and an
older end that is seen later never becomes the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from monitor.model.ends import RunEnd, with_end, without_run
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Status

_ENDS_KEPT = 20


def with_end_of_run(health: PipelineHealth, end: RunEnd, *, is_counted: bool) -> PipelineHealth:
    """Return the health with this end instead of what was known of the same run.

    ``is_counted``: an end of the run was known before, whether it is still kept or not.
    """
    ends, older_failures = _kept(health), _older_failures(health)
    is_kept = any(known.run_id == end.run_id for known in ends)
    if is_counted and not is_kept and end.status is Status.FAILED:
        older_failures = max(0, older_failures - 1)
    return _summarised(health, with_end(ends, end), older_failures)


def without_end_of_run(health: PipelineHealth, run_id: str) -> PipelineHealth:
    """Return the health as if the run had never ended."""
    return _summarised(health, without_run(_kept(health), run_id), _older_failures(health))


def _summarised(
    health: PipelineHealth, ends: Sequence[RunEnd], older_failures: int
) -> PipelineHealth:
    kept, older_failures = _bounded(ends, older_failures)
    last = kept[-1] if kept else None
    success = _newest_success(kept)
    behind = kept if success is None else kept[kept.index(success) + 1 :]
    failures = [end for end in behind if end.status is Status.FAILED]
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


def _kept(health: PipelineHealth) -> tuple[RunEnd, ...]:
    """Return the kept ends; of health that was stored without them, those that it implies."""
    if health.ends or health.last_status is None or health.last_finished_at is None:
        return health.ends
    last = RunEnd(
        run_id=health.last_run_id or "",
        status=health.last_status,
        earliest=health.last_finished_at,
        latest=health.last_finished_at,
        duration_seconds=health.last_duration_seconds,
    )
    implied = [_implied(Status.FAILED, at) for at in health.failed_at]
    if health.last_success_at is not None:
        implied.append(_implied(Status.SUCCEEDED, health.last_success_at))
    others = [end for end in implied if (end.status, end.at) != (last.status, last.at)]
    return tuple(sorted((*others, last), key=lambda end: end.order))


def _implied(status: Status, at: datetime) -> RunEnd:
    return RunEnd(run_id=f"{status} {at.isoformat()}", status=status, earliest=at, latest=at)
