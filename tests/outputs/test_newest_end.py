"""The last end of a flow is the newest end of whatever ran it, wherever it is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from monitor.model.ends import RunEnd, open_failures, run_end
from monitor.model.observations import Observation
from monitor.model.runs import (
    EndBasis,
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.outputs.mqtt.states import StateSnapshot
from monitor.outputs.mqtt.topics import Topics
from monitor.web.views.overview.pipeline_list import (
    PipelineList,
    PipelinesQuery,
    PipelineSummary,
    pipelines_view,
)
from monitor.web.views.overview.pipeline_state import PipelineCondition
from tests.examples import examples
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import NOON
from tests.outputs.test_health_agrees import observer_of, sources_of

FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
WORDS = ("Complete", "Failed", "Canceled")
BAD = (Status.FAILED, Status.LOST)


class Execution(Struct, frozen=True):
    """One run of a flow: a flow run with a job group in it, or a job group by itself."""

    second: int  # at which it ends
    recipe: str
    word: str
    is_flow_run: bool = False
    flow_run_word: str | None = None  # of the flow run, where it does not end as its part


EXECUTIONS = st.builds(
    Execution,
    st.integers(0, 9),
    st.sampled_from("ab"),
    st.sampled_from(WORDS),
    is_flow_run=st.booleans(),
    flow_run_word=st.none() | st.sampled_from(WORDS),
)


def observations_of(number: int, execution: Execution) -> list[Observation]:
    """Return what a poll shows of it: the job group, and the flow run around it, each ended."""
    flow_run = str(100 + number) if execution.is_flow_run else None
    job_group = Observation(
        key=RunKey("one", RunKind.JOB_GROUP, str(number)),
        source=Source.POLL,
        observed_at=NOON + timedelta(minutes=10),
        native_status=execution.word,
        created_at=NOON - timedelta(minutes=1),
        finished_at=NOON + timedelta(seconds=execution.second),
        finished_by=EndBasis.REPORTED,
        pipeline=FLOW,
        recipe=Recipe(id=execution.recipe),
        parents=Parents(flow_run=flow_run),
    )
    if flow_run is None:
        return [job_group]
    whole = Observation(
        key=RunKey("one", RunKind.FLOW_RUN, flow_run),
        source=Source.POLL,
        observed_at=NOON + timedelta(minutes=10),
        native_status=execution.flow_run_word or execution.word,
        created_at=NOON - timedelta(minutes=1),
        finished_at=NOON + timedelta(seconds=execution.second),
        finished_by=EndBasis.REPORTED,
        pipeline=FLOW,
    )
    return [job_group, whole]


class Truth(Struct, frozen=True):
    """What must be shown of the runs that are stored."""

    kind: RunKind
    run_id: str
    status: Status
    finished_at: datetime
    is_failing: bool


def truth_of(runs: Sequence[RunState]) -> Truth:
    """Return it from the definition: which runs are the flow's, and which part of it fails."""
    flow_runs = {run.key.id: run for run in runs if run.key.kind is RunKind.FLOW_RUN}
    job_groups = [run for run in runs if run.key.kind is RunKind.JOB_GROUP]
    newest_whole = max((end_of(run).order for run in flow_runs.values()), default=None)
    # A flow run that has not been read yet is seen by its job group alone.
    unread = [
        run
        for run in job_groups
        if run.parents.flow_run is not None
        and run.parents.flow_run not in flow_runs
        and (newest_whole is None or end_of(run).order > newest_whole)
    ]
    alone = [run for run in job_groups if run.parents.flow_run is None]
    last = max([*flow_runs.values(), *unread, *alone], key=lambda run: end_of(run).order)
    recipes = {run.recipe.id for run in alone if run.recipe is not None}
    parts: list[list[RunEnd]] = [[*map(end_of, [*flow_runs.values(), *unread])]]
    for recipe in recipes:
        of_recipe = [
            run for run in job_groups if run.recipe is not None and run.recipe.id == recipe
        ]
        parts.append(
            [end_of(run) for run in of_recipe if run in alone or run.status is Status.SUCCEEDED]
        )
    end = end_of(last)
    return Truth(last.key.kind, last.key.id, last.status, end.at, any(map(is_failing, parts)))


def is_failing(ends: Sequence[RunEnd]) -> bool:
    return bool(open_failures(ends))


def end_of(run: RunState) -> RunEnd:
    end = run_end(run)
    assert end is not None
    return end


async def row_of(daemon: Daemon) -> PipelineSummary:
    listed = await pipelines_view(sources_of(daemon)).read(PipelinesQuery())
    assert isinstance(listed, PipelineList)
    (row,) = listed.data
    return row


@settings(max_examples=examples(20))
@given(
    executions=st.lists(EXECUTIONS, min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_a_row_shows_the_newest_end_of_whatever_ran_the_flow(
    executions: list[Execution], order: object
) -> None:
    """Flow runs and lone job groups, seen in any order: after each, last end and state are true."""
    observed = [
        observation
        for number, execution in enumerate(executions)
        for observation in observations_of(number, execution)
    ]
    order.shuffle(observed)  # type: ignore[attr-defined]  # hypothesis gives no type
    with TemporaryDirectory() as folder:
        asyncio.run(play(observed, Path(folder)))


async def shown_of_kinds(daemon: Daemon) -> dict[RunKind, tuple[str | None, float | None, float]]:
    """Return the run and its end that retained states show of each kind, and that of metrics."""
    page = (await daemon.page()).decode()
    completed = {
        sample.labels["kind"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "dataprep_last_run_completed_timestamp_seconds"
    }
    snapshot = StateSnapshot(
        daemon.live_state.view,
        Topics(prefix="dataprep/v1", instance="monitor"),
        lambda _workspace, _pipeline: None,
        known_since=NOON,
        seen_since=NOON,
        overdue_since=0.0,
    )
    snapshot.add_health(daemon.live_state.view.pipeline_health())
    shown: dict[RunKind, tuple[str | None, float | None, float]] = {}
    for identity in snapshot.identities():
        retained = snapshot.pipeline(identity)
        last = None if retained is None else retained.state.last_run
        if last is not None and last.finished_at is not None:
            kind = identity[1]
            shown[kind] = last.id, last.finished_at.timestamp(), completed[kind]
    return shown


def newest_of_kinds(runs: Sequence[RunState]) -> dict[RunKind, tuple[str, float, float]]:
    """Return what must be shown of each kind of run, parts of others included."""
    newest = {
        kind: max(map(end_of, (run for run in runs if run.key.kind is kind)), key=order_of)
        for kind in {run.key.kind for run in runs}
    }
    return {
        kind: (end.run_id, end.at.timestamp(), end.at.timestamp()) for kind, end in newest.items()
    }


def order_of(end: RunEnd) -> tuple[datetime, bool, str]:
    return end.order


async def play(observations: Iterable[Observation], folder: Path) -> None:
    async with a_daemon(folder / "state.db") as daemon:
        daemon.reachable()
        observer = observer_of(daemon)
        for observation in observations:
            await observer.observe([observation])
            runs = await daemon.bus.recent_runs(workspaces=["one"], limit=50)
            true, row = truth_of(runs), await row_of(daemon)
            shown = (row.last_run_id, row.last_status, row.last_finished_at)
            assert shown == (true.run_id, true.status, true.finished_at)
            assert (row.state is PipelineCondition.FAILING) == true.is_failing
            assert row.last_run_kind is true.kind
            assert await shown_of_kinds(daemon) == newest_of_kinds(runs)
            is_canceled = not true.is_failing and true.status is Status.CANCELED
            assert (row.state is PipelineCondition.CANCELED) == is_canceled
