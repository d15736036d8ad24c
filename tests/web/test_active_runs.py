"""Active runs on the page: after any changes they are what somebody who counts anew would find."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.live_state import ActiveRun
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.web.views.overview.active_runs import ActiveRuns
from monitor.web.views.overview.pipeline_rows import PipelineKey

START = datetime(2026, 11, 23, 9, tzinfo=UTC)
IDS = ("1", "2", "3")
KEYS = st.builds(RunKey, st.just("acme"), st.sampled_from(RunKind), st.sampled_from(IDS))
SECONDS = st.integers(0, 9)
PARENT = st.sampled_from((None, *IDS))
PIPELINE = st.sampled_from((None, *IDS))
SEEN = st.tuples(KEYS, SECONDS, SECONDS, PARENT, PARENT, PIPELINE)
CHANGES = st.lists(st.one_of(SEEN, KEYS), min_size=1, max_size=30)


def active_run(
    key: RunKey,
    begun: int,
    confirmed: int,
    flow_run: str | None,
    plan_run: str | None,
    pipeline: str | None,
) -> ActiveRun:
    """Return a run that began and was confirmed so many seconds after ``START``."""
    kind = PipelineKind.PLAN if key.kind is RunKind.PLAN_RUN else PipelineKind.FLOW
    confirmed_at = START + timedelta(seconds=confirmed)
    run = RunState(
        key=key,
        status=Status.RUNNING,
        created_at=START + timedelta(seconds=begun),
        pipeline=Pipeline(kind=kind, id=pipeline) if pipeline is not None else None,
        # As the product has it: a plan run is part of nothing, a flow run of plan runs only.
        parents=Parents(
            flow_run=flow_run if key.kind is RunKind.JOB_GROUP else None,
            plan_run=plan_run if key.kind is not RunKind.PLAN_RUN else None,
        ),
        confirmed_at=confirmed_at,
        confirmed_by=Source.POLL,
    )
    return ActiveRun(run=run, confirmed_at=confirmed_at, confirmed_by=Source.POLL)


def roots_among(active: dict[RunKey, ActiveRun]) -> list[ActiveRun]:
    """Return the runs of which no parent is active, oldest first."""
    roots = [
        run
        for key, run in active.items()
        if RunKey(key.workspace, RunKind.FLOW_RUN, run.run.parents.flow_run or "") not in active
        and RunKey(key.workspace, RunKind.PLAN_RUN, run.run.parents.plan_run or "") not in active
    ]
    return sorted(roots, key=lambda run: (run.run.created_at, run.run.key))


def pipelines_among(active: dict[RunKey, ActiveRun]) -> Counter[PipelineKey]:
    """Return how many runs each pipeline has, those inside an active flow run left out."""
    counted: Counter[PipelineKey] = Counter()
    for key, run in active.items():
        of, pipeline = run.run.parents.flow_run, run.run.pipeline
        is_in_flow_run = RunKey(key.workspace, RunKind.FLOW_RUN, of or "") in active
        if pipeline is not None and not is_in_flow_run:
            counted[key.workspace, pipeline.kind, pipeline.id] += 1
    return counted


@given(changes=CHANGES, every=st.integers(1, 3), steps=st.integers(0, 3))
def test_what_is_followed_is_what_one_would_count(
    changes: list[tuple[object, ...] | RunKey], every: int, steps: int
) -> None:
    """Runs come, are confirmed, change parents and end in any order; some reads are cancelled.

    A pipeline of which the count changes is touched, so that its row is made anew.
    """

    async def play() -> None:
        followed = ActiveRuns()
        active: dict[RunKey, ActiveRun] = {}
        for number, change in enumerate(changes):
            if isinstance(change, RunKey):
                active.pop(change, None)
            else:
                run = active_run(*change)  # type: ignore[arg-type]
                active[run.run.key] = run
            if number % every:
                continue
            before, touched = followed.of_pipeline.copy(), set[PipelineKey]()
            reading = asyncio.create_task(followed.follow(tuple(active.values()), touched))
            for _ in range(steps):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await followed.follow(tuple(active.values()), touched)
            roots, counted = roots_among(active), pipelines_among(active)
            assert [root.active for root in followed.roots] == roots
            assert followed.of_pipeline == counted
            assert touched >= {key for key in before | counted if before[key] != counted[key]}
            for second in range(10):
                instant = START + timedelta(seconds=second)
                expected = sum(run.confirmed_at < instant for run in roots)
                assert followed.confirmed_before(instant) == expected

    asyncio.run(play())
