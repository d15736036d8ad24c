"""Which end is the last one of a flow, and which part of it is failing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.model.ends import RunEnd
from monitor.model.live_state import PipelineHealth
from monitor.model.overall_health import OverallHealth, overall_health
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.tracking.kept_ends import with_end_of_run

OK, BAD, OFF, LOST = Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


class Flow:
    """The health of one flow, as its runs end."""

    def __init__(self) -> None:
        self._healths: dict[tuple[RunKind, str | None], PipelineHealth] = {}
        self._active: set[str] = set()
        self._number = 0

    def flow_run(self, status: Status, *, run_id: str) -> None:
        self._end(RunKind.FLOW_RUN, None, run_id, status, None)

    def job_group(self, recipe: str, status: Status, *, flow_run: str | None = None) -> None:
        self._end(RunKind.JOB_GROUP, recipe, f"j{self._number}", status, flow_run)

    def begins(self, flow_run: str) -> None:
        self._active.add(flow_run)

    def _end(
        self, kind: RunKind, recipe: str | None, run_id: str, status: Status, flow_run: str | None
    ) -> None:
        self._number += 1
        self._active.discard(run_id)
        at = NOON + timedelta(minutes=self._number)
        end = RunEnd(run_id=run_id, status=status, earliest=at, latest=at, flow_run=flow_run)
        known = self._healths.get((kind, recipe)) or PipelineHealth(
            workspace="acme", run_kind=kind, pipeline=FLOW, recipe_id=recipe
        )
        self._healths[kind, recipe] = with_end_of_run(known, end, before=None)

    @property
    def health(self) -> OverallHealth:
        return overall_health(
            list(self._healths.values()), is_active=lambda flow_run: flow_run in self._active
        )

    @property
    def shown(self) -> tuple[str | None, RunKind | None, bool]:
        health = self.health
        run_id = None if health.last is None else health.last.run_id
        return run_id, health.last_kind, health.is_failing


def test_a_part_that_failed_is_over_with_the_next_flow_run() -> None:
    """The flow run that succeeded did not run that recipe, which the flow may no longer have."""
    flow = Flow()
    flow.job_group("a", BAD, flow_run="f1")
    flow.flow_run(BAD, run_id="f1")
    flow.job_group("b", OK, flow_run="f2")
    flow.flow_run(OK, run_id="f2")
    assert flow.shown == ("f2", RunKind.FLOW_RUN, False)
    assert flow.health.consecutive_failures == 0


def test_a_recipe_that_succeeds_alone_does_not_end_the_failure_of_a_flow_run() -> None:
    """Its run is the newest, but the flow as a whole has not succeeded since."""
    flow = Flow()
    flow.job_group("a", BAD, flow_run="f1")
    flow.flow_run(BAD, run_id="f1")
    flow.job_group("a", OK)
    assert flow.shown == ("j2", RunKind.JOB_GROUP, True)


def test_a_recipe_that_failed_alone_is_over_with_its_success_inside_a_flow_run() -> None:
    """A flow run that does not run it leaves it failing."""
    flow = Flow()
    flow.job_group("a", BAD)
    flow.job_group("b", OK, flow_run="f1")
    flow.flow_run(OK, run_id="f1")
    assert flow.shown == ("f1", RunKind.FLOW_RUN, True)
    flow.job_group("a", OK, flow_run="f2")
    flow.flow_run(OK, run_id="f2")
    assert flow.shown == ("f2", RunKind.FLOW_RUN, False)


def test_canceled_and_lost_runs_clear_nothing() -> None:
    """Neither after a failure; a lost run is a failure of its own."""
    flow = Flow()
    flow.flow_run(BAD, run_id="f1")
    flow.flow_run(OFF, run_id="f2")
    assert flow.shown == ("f2", RunKind.FLOW_RUN, True)
    flow.flow_run(OK, run_id="f3")
    flow.flow_run(LOST, run_id="f4")
    assert flow.shown == ("f4", RunKind.FLOW_RUN, True)
    assert flow.health.consecutive_failures == 0


def test_job_groups_of_a_flow_run_that_is_not_read_yet_are_one_run() -> None:
    """It is as its worst part, and ends with the last; read, it stands for itself."""
    flow = Flow()
    flow.flow_run(OK, run_id="f1")
    flow.job_group("a", BAD, flow_run="f2")
    flow.job_group("b", OK, flow_run="f2")
    assert flow.shown == ("j1", RunKind.JOB_GROUP, True)
    assert flow.health.last is not None
    assert flow.health.last.at == NOON + timedelta(minutes=3)
    flow.flow_run(OK, run_id="f2")
    assert flow.shown == ("f2", RunKind.FLOW_RUN, False)


def test_a_part_of_a_flow_run_that_goes_on_is_no_end() -> None:
    """The last end is that of the run before."""
    flow = Flow()
    flow.flow_run(OK, run_id="f1")
    flow.begins("f2")
    flow.job_group("a", BAD, flow_run="f2")
    assert flow.shown == ("f1", RunKind.FLOW_RUN, False)


def test_all_failures_in_a_row_are_counted() -> None:
    """More than are kept, and of no part the failures of another."""
    flow = Flow()
    for number in range(30):
        flow.job_group("a", BAD, flow_run=f"f{number}")
        flow.flow_run(BAD, run_id=f"f{number}")
    flow.job_group("a", BAD, flow_run="unread")
    assert flow.health.consecutive_failures == 31
    flow.job_group("b", OK, flow_run="unread too")
    assert flow.health.consecutive_failures == 0
