"""The contract of the runs of pipelines, newest first: what a pipeline's history is read from."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.bus.contract import Change, EventBus, Retention
from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import Pipeline, PipelineKind, RunKind, RunState, Status
from tests.bus.conftest import Backend, OpenBus
from tests.bus.examples import SOON, at, run
from tests.clocks import ManualClock
from tests.examples import examples

ORDERS: PipelineOfKind = ("marketing", RunKind.JOB_GROUP, "7")
MONTHLY: PipelineOfKind = ("marketing", RunKind.PLAN_RUN, "7")
ELSEWHERE: PipelineOfKind = ("sales", RunKind.JOB_GROUP, "7")
UNKNOWN: PipelineOfKind = ("marketing", RunKind.JOB_GROUP, "999")


def run_of(
    pipeline: PipelineOfKind,
    number: int,
    status: Status = Status.SUCCEEDED,
    *,
    created_at: datetime | None = None,
) -> RunState:
    workspace, kind, pipeline_id = pipeline
    thing = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
    state = run(number, status, kind=kind, workspace=workspace, created_at=created_at)
    return replace(state, pipeline=Pipeline(kind=thing, id=pipeline_id))


async def store(bus: EventBus, *runs: RunState) -> None:
    await bus.commit(Change(runs=runs), timeout_seconds=SOON)


async def newest_of(bus: EventBus, pipeline: PipelineOfKind, *, limit: int = 100) -> list[str]:
    """Return the ids of the newest runs of one pipeline."""
    found = await bus.pipeline_runs([pipeline], limit=limit)
    return [state.key.id for state in found[pipeline]]


async def test_runs_of_a_pipeline_come_newest_creation_first(bus: EventBus) -> None:
    """By creation, and not by the order in which they were stored or ended."""
    runs = [run_of(ORDERS, number) for number in (2, 5, 1, 4, 3)]
    await store(bus, *runs)

    assert await bus.pipeline_runs([ORDERS], limit=9) == {
        ORDERS: sorted(runs, key=lambda state: int(state.key.id), reverse=True)
    }


async def test_runs_created_at_once_keep_the_order_of_their_storage(bus: EventBus) -> None:
    """Runs of one second have one order, the one stored last first, in every answer."""
    await store(bus, *(run_of(ORDERS, number, created_at=at(0)) for number in (3, 1, 2)))
    await store(bus, run_of(ORDERS, 3, Status.FAILED, created_at=at(0)))

    assert await newest_of(bus, ORDERS) == ["2", "1", "3"]
    assert await newest_of(bus, ORDERS, limit=2) == ["2", "1"]


async def test_the_limit_counts_for_each_pipeline(bus: EventBus) -> None:
    """One pipeline with many runs takes no place from another."""
    await store(bus, *(run_of(ORDERS, number) for number in range(50)), run_of(MONTHLY, 1))
    found = await bus.pipeline_runs([ORDERS, MONTHLY], limit=3)

    assert {pipeline: [state.key.id for state in runs] for pipeline, runs in found.items()} == {
        ORDERS: ["49", "48", "47"],
        MONTHLY: ["1"],
    }


async def test_since_is_inclusive_and_before_is_not(bus: EventBus) -> None:
    """Two windows that meet show each run once."""
    await store(bus, *(run_of(ORDERS, number) for number in range(6)))
    older = await bus.pipeline_runs([ORDERS], limit=9, before=at(3))
    younger = await bus.pipeline_runs([ORDERS], limit=9, since=at(3))
    window = await bus.pipeline_runs([ORDERS], limit=2, since=at(1), before=at(5))

    assert [state.key.id for state in older[ORDERS]] == ["2", "1", "0"]
    assert [state.key.id for state in younger[ORDERS]] == ["5", "4", "3"]
    assert [state.key.id for state in window[ORDERS]] == ["4", "3"]


async def test_every_pipeline_asked_for_is_in_the_answer(bus: EventBus) -> None:
    """An unknown pipeline has no runs; none asked for gives none; twice is once."""
    await store(bus, run_of(ORDERS, 1))

    assert await bus.pipeline_runs([UNKNOWN], limit=9) == {UNKNOWN: []}
    assert await bus.pipeline_runs([], limit=9) == {}
    found = await bus.pipeline_runs([UNKNOWN, ORDERS, UNKNOWN, ORDERS], limit=9)
    assert {pipeline: len(runs) for pipeline, runs in found.items()} == {UNKNOWN: 0, ORDERS: 1}


async def test_equal_ids_of_other_kinds_and_workspaces_are_other_pipelines(bus: EventBus) -> None:
    """A plan may have the id of a flow, and two workspaces count from one each."""
    await store(bus, *(run_of(pipeline, 1) for pipeline in (ORDERS, MONTHLY, ELSEWHERE)))
    found = await bus.pipeline_runs([ORDERS, MONTHLY, ELSEWHERE], limit=9)

    assert found == {pipeline: [run_of(pipeline, 1)] for pipeline in found}
    assert len(found) == 3


async def test_ids_are_text_and_may_be_anything(bus: EventBus) -> None:
    """An id with quotes, brackets or digits alone finds its own runs and no others."""
    strange = [("marketing", RunKind.JOB_GROUP, text) for text in ('a"]', "07", "7.0", "ä\n'", "")]
    await store(bus, *(run_of(pipeline, n) for n, pipeline in enumerate([ORDERS, *strange])))
    found = await bus.pipeline_runs([*strange, ORDERS], limit=9)

    assert [[state.key.id for state in found[pipeline]] for pipeline in [ORDERS, *strange]] == [
        [str(n)] for n in range(6)
    ]


async def test_a_run_without_a_pipeline_belongs_to_none(bus: EventBus) -> None:
    """It is in no answer until its pipeline is known, and then it is in its place."""
    await store(bus, run(1, Status.SUCCEEDED), run_of(ORDERS, 2))
    assert await newest_of(bus, ORDERS) == ["2"]

    await store(bus, run_of(ORDERS, 1))
    assert await newest_of(bus, ORDERS) == ["2", "1"]


async def test_a_run_that_changes_its_pipeline_moves(bus: EventBus) -> None:
    """It leaves the pipeline that it was first believed to be of."""
    await store(bus, run_of(ORDERS, 1), run_of(ORDERS, 2))
    await store(bus, replace(run_of(ORDERS, 1), pipeline=run_of(UNKNOWN, 1).pipeline))
    assert (await newest_of(bus, ORDERS), await newest_of(bus, UNKNOWN)) == (["2"], ["1"])

    await store(bus, replace(run_of(ORDERS, 1), pipeline=None))
    assert (await newest_of(bus, ORDERS), await newest_of(bus, UNKNOWN)) == (["2"], [])


async def test_historical_and_active_runs_are_among_them(bus: EventBus) -> None:
    """Runs that ended before the monitor followed, active ones and lost ones are listed too."""
    historical = replace(run_of(ORDERS, 1, Status.FAILED), historical=True)
    states = [historical, *(run_of(ORDERS, n, status) for n, status in enumerate(Status, start=2))]
    await store(bus, *states)

    assert (await bus.pipeline_runs([ORDERS], limit=99))[ORDERS] == states[::-1]


async def test_a_forgotten_run_is_gone(bus: EventBus) -> None:
    """After retention the newest runs remain, and the active ones, however old."""
    active = run_of(ORDERS, 1, Status.RUNNING)
    ended = [run_of(ORDERS, number) for number in (2, 3, 400)]
    await store(bus, active, *ended)
    await bus.prune(Retention(runs_seconds=100), now=at(450))

    assert await newest_of(bus, ORDERS) == ["400", "1"]


async def test_histories_are_as_before_after_a_restart(open_bus: OpenBus) -> None:
    """Stored runs are found by their pipeline in the next life, too."""
    bus = await open_bus()
    await store(bus, *(run_of(ORDERS, number) for number in range(5)))
    before = await bus.pipeline_runs([ORDERS, MONTHLY], limit=3)
    await bus.close()

    assert await (await open_bus()).pipeline_runs([ORDERS, MONTHLY], limit=3) == before


stored_runs = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from((None, ORDERS, UNKNOWN)), st.integers(0, 5)),
    max_size=12,
)
bounds = st.none() | st.integers(-1, 6)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored=stored_runs, limit=st.integers(0, 9), since=bounds, before=bounds)
async def test_any_history_agrees_with_a_plain_list(
    backend: Backend,
    stored: list[tuple[int, PipelineOfKind | None, int]],
    limit: int,
    since: int | None,
    before: int | None,
) -> None:
    """Whatever was written over whatever, the answer is the newest part of the latest states."""
    latest: dict[int, tuple[PipelineOfKind | None, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bus = await backend(Path(folder), ManualClock())
        for number, pipeline, second in stored:
            latest[number] = (pipeline, second)
            state = run_of(pipeline or ORDERS, number, created_at=at(second))
            await store(bus, state if pipeline else replace(state, pipeline=None))
        found = await bus.pipeline_runs(
            [ORDERS, UNKNOWN],
            limit=limit,
            since=at(since) if since is not None else None,
            before=at(before) if before is not None else None,
        )
        await bus.close()
    places = {number: place for place, number in enumerate(latest)}  # in order of first storage
    for pipeline in (ORDERS, UNKNOWN):
        expected = [
            (second, places[number], str(number))
            for number, (of, second) in latest.items()
            if of == pipeline
            and (since is None or second >= since)
            and (before is None or second < before)
        ]
        newest = [number for _, _, number in sorted(expected, reverse=True)[:limit]]
        assert [state.key.id for state in found[pipeline]] == newest
