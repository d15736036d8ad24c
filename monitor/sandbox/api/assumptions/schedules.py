"""What is assumed of schedules."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="schedule-owner",
        operations=(
            "updateSchedule",
            "deleteSchedule",
            "enableSchedule",
            "disableSchedule",
        ),
        text="A schedule can be changed by its owner only (403 `AccessControlException`).",
    ),
    Assumption(
        key="trigger-kinds",
        operations=(
            "createSchedule",
            "updateSchedule",
        ),
        text=(
            "All published kinds of triggers are accepted, `oneTime` too, which one workspace "
            "of 2026 refused. A `fileWatcher` or `tableWatcher` is kept and never fires."
        ),
    ),
    Assumption(
        key="trigger-days",
        operations=(
            "createSchedule",
            "updateSchedule",
        ),
        text=(
            "A day that a month does not have (the 31st, a fifth Monday) is left out. "
            "`onlyWorkingDays` takes Saturdays and Sundays out of the days that a daily, weekly "
            "or monthly trigger names. On the nights of a clock change, a trigger of every hour "
            "follows real hours; any other fires once, in a gap at its end. A trigger that has "
            "no time to come is refused (`TRIGGER_WILL_NEVER_FIRE`)."
        ),
    ),
    Assumption(
        key="disable-reason",
        operations=(
            "disableSchedule",
            "getSchedule",
            "listSchedules",
        ),
        text=(
            "`disableReason` says who switched a schedule off, that no trigger will fire again "
            "(its one time or its range is over), or that what it starts was deleted. Changing "
            "a schedule does not switch it on."
        ),
    ),
    Assumption(
        key="schedule-deletion",
        operations=("deleteSchedule",),
        text=(
            "Deleting a schedule is seen at once, where one workspace of 2026 served it a "
            "while longer."
        ),
    ),
    Assumption(
        key="schedules-of-a-flow",
        operations=("createSchedule",),
        text="One flow may have several schedules.",
    ),
)
