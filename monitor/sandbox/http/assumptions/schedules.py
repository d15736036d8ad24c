"""What is assumed of schedules."""

from __future__ import annotations

from monitor.sandbox.http.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="schedule-owner",
        operations=(
            "updateSchedule",
            "deleteSchedule",
            "enableSchedule",
            "disableSchedule",
        ),
        says="A schedule can be changed by its owner only (403 `AccessControlException`).",
    ),
    Assumption(
        key="trigger-kinds",
        operations=(
            "createSchedule",
            "updateSchedule",
        ),
        says=(
            "Triggers other than hourly, daily and cron are refused (400), as the published "
            "`oneTime` was in 2026."
        ),
    ),
    Assumption(
        key="schedule-deletion",
        operations=("deleteSchedule",),
        says=(
            "Deleting a schedule is seen at once, where one workspace of 2026 served it a "
            "while longer."
        ),
    ),
    Assumption(
        key="schedules-of-a-flow",
        operations=("createSchedule",),
        says="One flow may have several schedules.",
    ),
)
