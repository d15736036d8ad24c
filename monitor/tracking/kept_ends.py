"""The ends that are kept of one pipeline or recipe. Pure.

Ends are kept and ordered by `monitor.model.ends`, so a better time of an end sorts it again and an
older end that is seen later never becomes the last one.
"""

from __future__ import annotations

from msgspec.structs import replace

from monitor.model.ends import RunEnd, with_end, without_run
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Status

_ENDS_KEPT = 20


def with_end_of_run(
    health: PipelineHealth, end: RunEnd, *, before: Status | None
) -> PipelineHealth:
    """Return the health with this end instead of what was known of the same run.

    ``before``: how the run was known to have ended, whether that is still kept or not.
    """
    older_failures = health.older_failures
    is_kept = any(known.run_id == end.run_id for known in health.ends)
    if before is Status.FAILED and not is_kept:
        older_failures = max(0, older_failures - 1)
    ends = with_end(health.ends, end)
    return _bounded(replace(health, ends=ends, older_failures=older_failures))


def without_end_of_run(health: PipelineHealth, run_id: str) -> PipelineHealth:
    """Return the health as if the run had never ended."""
    return _bounded(replace(health, ends=without_run(health.ends, run_id)))


def _bounded(health: PipelineHealth) -> PipelineHealth:
    """Return the health with its newest ends, always with the newest success."""
    kept, older_failures, success = list(health.ends), health.older_failures, health.last_success
    while len(kept) > _ENDS_KEPT:
        dropped = kept.pop(1 if kept[0] is success else 0)
        if dropped.status is Status.FAILED and (success is None or dropped.order > success.order):
            older_failures += 1
    if success is not None and kept[0] is not success:
        older_failures = 0  # what is not kept lies before a kept end, and so before the success
    return replace(health, ends=tuple(kept), older_failures=older_failures)
