"""What the workspace answers at a time: JSON rows made from the script. Pure.

Where the published facts leave room, rows are like the recorded ones: ids are numbers, ``flowRun``
is null outside of a flow run, lists stand in ``data``, a flow run has no status of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from tests.worlds.script import (
    End,
    FlowRun,
    Ingredient,
    JobGroup,
    Pipeline,
    PlanRun,
    Schedule,
    Times,
    World,
)

_MADE = -7 * 86_400.0  # when all flows and plans were made

Row = dict[str, Any]
Written = tuple[Row, float, float]  # a row, its creation and its last write as the server filters


class Served:
    """The rows of one world, by its clock. ``zero`` is when the world began, a whole second."""

    def __init__(self, world: World, zero: datetime) -> None:
        self._world = world
        self._zero = zero
        self._is_incomplete = Ingredient.INCOMPLETE_ROWS in world.ingredients
        self._flows = {flow.id: flow for flow in world.flows}
        self._groups = {group.id: group for group in world.job_groups}

    def stamp(self, at: float) -> str:
        """Return a time as the workspace writes it."""
        instant = self.instant(at)
        return instant.strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant.microsecond // 1000:03d}Z"

    def instant(self, at: float) -> datetime:
        """Return a time by the workspace's clock."""
        return self._zero + timedelta(seconds=self._world.stamped(at))

    # --- job groups ---

    def job_groups(self, at: float) -> list[Written]:
        """Return the rows of the list of job groups."""
        shown = [group for group in self._world.job_groups if _is_shown(group, at)]
        return [
            (
                self._group_row(group, at, is_whole=not self._is_incomplete),
                group.created,
                last_write(group, at),
            )
            for group in shown
        ]

    def job_group(self, group_id: int, at: float) -> Row | None:
        group = self._groups.get(group_id)
        if group is None or not _is_shown(group, at):
            return None
        return self._group_row(group, at, is_whole=True)

    def jobs(self, group_id: int, at: float) -> list[Row] | None:
        """Return the job records of a job group, None where they cannot be read."""
        group = self._groups[group_id]
        if group.times in (Times.NO_JOBS, Times.NONE):
            return None
        half = group.middle
        spans = ((1, "wrangle", group.started, half), (2, "filewriter", half, group.ended))
        return [
            self._job_row(group, at, number=number, job_type=job_type, begin=begin, end=end)
            for number, job_type, begin, end in spans
        ]

    def _group_row(self, group: JobGroup, at: float, *, is_whole: bool) -> Row:
        flow = self._flows[group.flow]
        recipe: Row = {"id": group.recipe}
        row: Row = {
            "id": group.id,
            "name": None,
            "status": group_status(group, at),
            "ranfrom": "schedule",
            "ranfor": "recipe" if group.plan_run is None else "plan",
            "createdAt": self.stamp(group.created),
            "creator": {"id": 1, "email": "ann@example.com"},
            "wrangledDataset": recipe,
        }
        if group.times not in (Times.NO_LAST_WRITE, Times.NONE):
            row["updatedAt"] = self.stamp(last_write(group, at))
        if is_whole:
            row["flowRun"] = None if group.flow_run is None else {"id": group.flow_run}
            recipe["flow"] = {"id": flow.id, "name": flow.name_at(at)}
            recipe["recipe"] = {"id": group.recipe, "name": f"Recipe {group.recipe}"}
        return row

    def _job_row(
        self, group: JobGroup, at: float, *, number: int, job_type: str, begin: float, end: float
    ) -> Row:
        is_over = at >= group.end_shown_from
        status = group.end.value if number == 2 else End.COMPLETE.value
        row: Row = {
            "id": group.id * 10 + number,
            "status": status if is_over else "InProgress",
            "jobType": job_type,
            "jobGroup": {"id": group.id},
            "createdAt": self.stamp(group.created),
            "startedAt": self.stamp(begin),
            "updatedAt": self.stamp(end if is_over else begin),
            "percentComplete": 100 if is_over else 50,
            "errorMessage": group.error if is_over and number == 2 else None,
        }
        if is_over and group.times is not Times.NO_JOB_ENDS:
            row["finishedAt"] = self.stamp(end)
        return row

    # --- flow runs ---

    def flow_run(self, run_id: int, at: float) -> Row | None:
        run = self._flow_run(run_id, at)
        if run is None:
            return None
        flow = self._flows[run.flow]
        return {
            "id": run.id,
            "createdAt": self.stamp(run.created),
            "updatedAt": self.stamp(run.ended if at >= run.end_shown_from else run.created),
            "flow": {"id": flow.id, "name": flow.name_at(at)},
        }

    def flow_run_status(self, run_id: int, at: float) -> str | None:
        run = self._flow_run(run_id, at)
        if run is None:
            return None
        return run.end.value if at >= run.end_shown_from else "InProgress"

    def flow_run_job_groups(self, run_id: int, at: float) -> list[Row] | None:
        run = self._flow_run(run_id, at)
        if run is None:
            return None
        groups = (self._groups[group_id] for group_id in run.job_groups)
        return [
            self._group_row(group, at, is_whole=True) for group in groups if _is_shown(group, at)
        ]

    def _flow_run(self, run_id: int, at: float) -> FlowRun | None:
        run = next((run for run in self._world.flow_runs if run.id == run_id), None)
        if run is None or not any(_is_shown(self._groups[group], at) for group in run.job_groups):
            return None
        return run

    # --- plans ---

    def plan_runs(self, at: float) -> list[Written]:
        """Return the rows of the list of plan runs."""
        return [
            (self._plan_run_row(run, at), run.created, _last_write_of_plan_run(run, at))
            for run in self._world.plan_runs
            if _is_shown(run, at)
        ]

    def plan_run(self, run_id: int, at: float) -> Row | None:
        runs = (run for run in self._world.plan_runs if run.id == run_id)
        run = next(runs, None)
        return None if run is None or not _is_shown(run, at) else self._plan_run_row(run, at)

    def _plan_run_row(self, run: PlanRun, at: float) -> Row:
        is_over = at >= run.end_shown_from
        has_started = at >= run.started
        row: Row = {
            "id": run.id,
            "status": run.end.value if is_over else ("InProgress" if has_started else "Created"),
            "createdAt": self.stamp(run.created),
            "submittedAt": self.stamp(run.created),
            "updatedAt": self.stamp(_last_write_of_plan_run(run, at)),
            "plan": {"id": run.snapshot},  # a run names the snapshot, not the plan
            "scheduleHistoryId": None,
            "failedToCancelSomeJobs": False,
        }
        if has_started:
            row["startedAt"] = self.stamp(run.started)
        if is_over and run.has_finish:
            row["finishedAt"] = self.stamp(run.ended)
        return row

    def plans(self, at: float) -> list[Written]:
        return _listed(self._world.plans, at, self._plan_row)

    def plan_full(self, plan_id: int, at: float) -> Row | None:
        """Return a plan or a snapshot whole, with the runs that its nodes name so far."""
        plan = next((plan for plan in self._world.plans if plan.id == plan_id), None)
        runs = [run for run in self._world.plan_runs if plan_id in (run.snapshot, run.plan)]
        if plan is None and not runs:
            return None
        original = plan or next(plan for plan in self._world.plans if plan.id == runs[0].plan)
        row = self._plan_row(original, at)
        if plan is None:
            row |= {"id": plan_id, "snapshotted": True, "originalPlanId": original.id}
        nodes = [self._node(original, flow, runs, at) for flow in original.parts]
        return row | {"planNodes": {"data": nodes}, "planSnapshots": {"data": []}}

    def _plan_row(self, plan: Pipeline, at: float) -> Row:
        return {
            "id": plan.id,
            "name": plan.name_at(at),
            "createdAt": self.stamp(_MADE),
            "updatedAt": self.stamp(plan.renamed_at if at >= plan.renamed_at else _MADE),
            "snapshotted": False,
            "originalPlanId": None,
        }

    def _node(self, plan: Pipeline, flow: int, runs: Iterable[PlanRun], at: float) -> Row:
        number = plan.parts.index(flow)
        task_runs = [
            {
                "id": run.id * 10 + number,
                "planSnapshotRun": {"id": run.id},
                "planFlowTaskRunResults": {
                    "data": [
                        {"flowRun": {"id": child.id}, "jobGroup": {"id": child.job_groups[0]}}
                        for child in self._world.flow_runs
                        if child.plan_run == run.id
                        and child.flow == flow
                        and run.children_named_from[child.id] <= at
                    ]
                },
            }
            for run in runs
            if _is_shown(run, at)
        ]
        return {
            "id": plan.id * 10 + number,
            "handle": f"a{number}",
            "name": "Run flow",
            "taskType": "flow",
            "task": {"flow": {"id": flow}},
            "planTaskSnapshotRuns": {"data": task_runs},
        }

    def plan(self, plan_id: int, at: float) -> Row | None:
        return _object(self._world.plans, plan_id, at, self._plan_row)

    # --- flows and schedules ---

    def flows(self, at: float) -> list[Written]:
        return _listed(self._world.flows, at, self._flow_row)

    def flow(self, flow_id: int, at: float) -> Row | None:
        return _object(self._world.flows, flow_id, at, self._flow_row)

    def schedules(self, at: float) -> list[Written]:
        """Return the rows of the schedules that the token's owner owns."""
        if at >= self._world.other_person_from:
            return []
        return [(self._schedule_row(schedule), 0.0, 0.0) for schedule in self._world.schedules]

    def schedule(self, schedule_id: int, at: float) -> Row | None:
        rows = (row for row, _, _ in self.schedules(at) if row["id"] == schedule_id)
        return next(rows, None)

    def person(self, at: float) -> Row:
        """Return the owner of the token."""
        name, number = ("Ann", 1) if at < self._world.other_person_from else ("Bob", 2)
        email = f"{name.lower()}@example.com"
        return {"id": number, "email": email, "name": name, "state": "active"}

    def _schedule_row(self, schedule: Schedule) -> Row:
        minutes: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for at in schedule.due:
            due = self._zero + timedelta(seconds=at)
            minutes[due.second, due.hour].append(str(due.minute))
        expressions = [
            f"{second} {','.join(own)} {hour} * * ?" for (second, hour), own in minutes.items()
        ]
        return {
            "id": schedule.id,
            "name": f"Schedule {schedule.id}",
            "enabled": True,
            "triggers": [
                {"timeBased": {"cron": {"expression": expression}, "timezone": "UTC"}}
                for expression in expressions
            ],
            "tasks": [{"runFlow": {"flowId": schedule.flow}}],
            "createdAt": self.stamp(_MADE),
            "updatedAt": self.stamp(_MADE),
            "createdBy": 1,
        }

    def _flow_row(self, flow: Pipeline, at: float) -> Row:
        return {
            "id": flow.id,
            "name": flow.name_at(at),
            "createdAt": self.stamp(_MADE),
            "updatedAt": self.stamp(flow.renamed_at if at >= flow.renamed_at else _MADE),
            "creator": {"id": 1, "email": "ann@example.com"},
        }


def group_status(group: JobGroup, at: float) -> str:
    """Return the word that the workspace shows for a job group."""
    if at >= group.end_shown_from:
        return group.end.value
    return "InProgress" if at >= group.started else "Created"


def last_write(group: JobGroup, at: float) -> float:
    """Return when the shown status was written."""
    if at >= group.end_shown_from:
        return group.ended
    return group.started if at >= group.started else group.created


def _last_write_of_plan_run(run: PlanRun, at: float) -> float:
    if at >= run.end_shown_from:
        return run.ended
    return run.started if at >= run.started else run.created


def _is_shown(run: JobGroup | PlanRun, at: float) -> bool:
    return run.shown_from <= at < run.deleted_at


def _listed(
    pipelines: Iterable[Pipeline], at: float, row_of: Callable[[Pipeline, float], Row]
) -> list[Written]:
    return [(row_of(pipeline, at), 0.0, 0.0) for pipeline in pipelines if at < pipeline.deleted_at]


def _object(
    pipelines: Iterable[Pipeline],
    pipeline_id: int,
    at: float,
    row_of: Callable[[Pipeline, float], Row],
) -> Row | None:
    rows = (row for row, _, _ in _listed(pipelines, at, row_of) if row["id"] == pipeline_id)
    return next(rows, None)
