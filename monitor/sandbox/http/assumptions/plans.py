"""What is assumed of plans and their runs."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="schedule-of-manual-run",
        operations=("getScheduleForPlanRun",),
        says="The schedule of a run that was started by hand is 404 `DataNotFoundException`.",
    ),
    Assumption(
        key="flow-creator-info",
        operations=("getPlanSnapshotRun",),
        says="`includeFlowCreatorInfo` has no effect.",
    ),
)
