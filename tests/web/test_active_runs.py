"""Active runs on the page: after any changes they are what counting them again would find."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.alerts import AlertingSnapshot
from monitor.model.live_state import ActiveRun, NamedPipeline, WorkspaceStatus
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
from monitor.web.views.overview.overview import OverviewSnapshots, overview_of
from monitor.web.views.overview.pipeline_state import PipelineKey

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
    """Return the runs without an active parent, oldest first."""
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


@given(changes=CHANGES)
def test_the_shown_active_runs_are_those_one_would_count(
    changes: list[tuple[object, ...] | RunKey],
) -> None:
    """Runs come, are confirmed, change parents and end in any order.

    An overview has those that are part of no other, oldest first, the number of each pipeline, and
    how many of them are not confirmed as still running.
    """
    active: dict[RunKey, ActiveRun] = {}
    for change in changes:
        if isinstance(change, RunKey):
            active.pop(change, None)
        else:
            run = active_run(*change)  # type: ignore[arg-type]
            active[run.run.key] = run
    roots, counted = roots_among(active), pipelines_among(active)
    overview = overview_of(
        OverviewSnapshots(
            now=START + timedelta(seconds=10),
            stale_after_seconds=5,
            workspaces={"acme": WorkspaceStatus(workspace="acme")},
            pipelines=[named(kind, run_id) for kind in PipelineKind for run_id in IDS],
            healths=(),
            active=tuple(active.values()),
            alerting=AlertingSnapshot(),
            blind={},
            starved={},
            confirmed_at=START,
            unconfirmed_since={("acme", RunKind.PLAN_RUN): START + timedelta(seconds=7)},
        )
    )
    assert [root.active for root in overview.roots] == roots
    assert {key: row.active for key, row in overview.rows.items() if row.active} == counted
    assert overview.running == len(counted)
    unconfirmed = [run for run in roots if may_have_ended(run)]
    assert [root.active for root in overview.roots if root.is_unconfirmed] == unconfirmed
    assert overview.unconfirmed == len(unconfirmed)


def named(kind: PipelineKind, pipeline_id: str) -> NamedPipeline:
    return NamedPipeline(workspace="acme", kind=kind, id=pipeline_id, name=None, label="a name")


def may_have_ended(active: ActiveRun) -> bool:
    """Plan runs have not been read for three seconds; what is older than five is stale."""
    seconds = (active.confirmed_at - START).total_seconds()
    return seconds <= (7 if active.run.key.kind is RunKind.PLAN_RUN else 4)
