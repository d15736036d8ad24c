"""Every face that shows the last run of a pipeline shows the same one, at each position."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from monitor.bus.contract import Retention
from monitor.bus.sqlite.sole_shard import SoleLog
from monitor.model.ends import RunEnd, newest_success, open_failures, run_end
from monitor.model.observations import Observation
from monitor.model.runs import (
    EndBasis,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    Source,
    Status,
)
from monitor.outputs.mqtt.states import StateSnapshot
from monitor.outputs.mqtt.topics import Topics
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from monitor.web.audit.audit_log import AuditLog, as_it_is
from monitor.web.health import ClusterProblems, DaemonStatus
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShardDirectory
from monitor.web.views.overview.pipeline_state import PipelineRow
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.view import ViewSources
from tests.examples import examples
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import NOON
from tests.web.fake_alerting import FakeAlerting

FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
IDENTITY = ("one", RunKind.FLOW_RUN, "7")
WORDS = ("Complete", "Failed", "Canceled")

Shown = tuple[str | None, str | None, datetime | None, datetime | None, float | None, int]


def observation(number: int, word: str, second: int, basis: EndBasis) -> Observation:
    """Return the end of a flow run, seen by a poll."""
    at = NOON + timedelta(seconds=second)
    return Observation(
        key=RunKey("one", RunKind.FLOW_RUN, str(number)),
        source=Source.POLL,
        observed_at=NOON + timedelta(minutes=10),
        native_status=word,
        created_at=NOON - timedelta(minutes=1),
        finished_at=at,
        finished_by=basis,
        pipeline=FLOW,
    )


def true_health(ends: Sequence[RunEnd]) -> Shown:
    """Return what must be shown of these ends, whatever the order in which they were seen."""
    last = max(ends, key=lambda end: end.order)
    success = newest_success(ends)
    return (
        last.run_id,
        last.status,
        last.at,
        None if success is None else success.at,
        last.duration_seconds,
        len(open_failures(ends)),
    )


def by_pipeline_health(daemon: Daemon) -> Shown:
    (health,) = daemon.live_state.view.pipeline_health()
    return (
        health.last_run_id,
        health.last_status,
        health.last_finished_at,
        health.last_success_at,
        health.ends[-1].duration_seconds,
        health.consecutive_failures,
    )


def by_mqtt(daemon: Daemon) -> Shown:
    snapshot = StateSnapshot(
        daemon.live_state.view,
        Topics(prefix="dataprep/v1", instance="monitor"),
        lambda _workspace, _pipeline: None,
        known_since=NOON,
        seen_since=NOON,
        overdue_since=0.0,
    )
    snapshot.add_health(daemon.live_state.view.pipeline_health())
    retained = snapshot.pipeline(IDENTITY)
    assert retained is not None
    state, last = retained.state, retained.state.last_run
    assert last is not None
    assert last.started_at == NOON - timedelta(minutes=1)
    return (
        last.id,
        last.status,
        last.finished_at,
        state.last_success_at,
        last.duration_seconds,
        state.consecutive_failures,
    )


def observer_of(daemon: Daemon) -> Observer:
    return Observer(
        bus=daemon.bus,
        live_state=daemon.live_state,
        clock=daemon.clock,
        registry=CollectorRegistry(),
        settings=TrackingSettings(),
    )


def sources_of(daemon: Daemon) -> ViewSources:
    """Return what the page's views read of the daemon."""
    status = DaemonStatus(
        started_at=NOON,
        config_hash="",
        store_schema=3,
        retention=Retention(),
        longest_silence_seconds=86_400,
    )
    directory = ShardDirectory(dict)

    async def cluster() -> None:
        return None

    return ViewSources(
        shards=directory,
        runs=daemon.bus,
        log=SoleLog(daemon.bus),
        audit=AuditLog(daemon.bus.entries, clock=daemon.clock, redact=as_it_is),
        cluster=cluster,
        cluster_problems=ClusterProblems,
        is_shared=False,
        live_state=lambda: daemon.live_state.view,
        clock=daemon.clock,
        settings=ServerSettings(),
        checks=tuple,
        alerting_requests=FakeAlerting(now=daemon.clock.now).requests,
        daemon=lambda: status,
    )


async def row_of_page(daemon: Daemon) -> PipelineRow:
    """Return the only pipeline as the page's read model has it."""
    overview = await RecentOverview(sources_of(daemon)).get()
    return overview.rows["one", PipelineKind.FLOW, "7"]


async def by_web(daemon: Daemon) -> Shown:
    row = await row_of_page(daemon)
    last = row.health.last
    assert last is not None
    return (
        last.run_id,
        last.status,
        last.at,
        row.health.last_success_at,
        last.duration_seconds,
        row.health.consecutive_failures,
    )


async def by_metrics(daemon: Daemon) -> Shown:
    """Return the same of the exposition, which names no run."""
    page = (await daemon.page()).decode()
    values = {
        (sample.name, sample.labels.get("result")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("pipeline") == "orders"
    }
    success = values.get(("dataprep_last_run_success_timestamp_seconds", None))
    (status,) = (
        result
        for (name, result), value in values.items()
        if name == "dataprep_last_run_result" and value == 1
    )
    completed = values["dataprep_last_run_completed_timestamp_seconds", None]
    return (
        None,
        status,
        datetime.fromtimestamp(completed, tz=NOON.tzinfo),
        None if success is None else datetime.fromtimestamp(success, tz=NOON.tzinfo),
        values["dataprep_last_run_duration_seconds", None],
        int(values["dataprep_consecutive_failures", None]),
    )


@settings(max_examples=examples(20))
@given(
    seen=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(list(EndBasis))),
        min_size=1,
        max_size=6,
    ),
    words=st.lists(st.sampled_from(WORDS), min_size=4, max_size=4),
)
def test_health_retained_state_metrics_and_page_agree(
    seen: list[tuple[int, int, EndBasis]], words: list[str]
) -> None:
    """Ends seen late, of one second and known better later: after each, all show the same."""
    observations = [
        observation(number, words[number], second, basis) for number, second, basis in seen
    ]
    with TemporaryDirectory() as folder:
        asyncio.run(play(observations, Path(folder)))


async def test_of_several_recipes_all_show_the_most_failures_in_a_row(tmp_path: Path) -> None:
    """One recipe was canceled last and fails for the third time, the other failed last, twice."""
    ends = [("a", "Failed")] * 3 + [("a", "Canceled")] + [("b", "Failed")] * 2
    async with a_daemon(tmp_path / "state.db") as daemon:
        daemon.reachable()
        observer = observer_of(daemon)
        for number, (recipe, word) in enumerate(ends):
            run = observation(number, word, number, EndBasis.REPORTED)
            key = RunKey("one", RunKind.JOB_GROUP, str(number))
            await observer.observe(
                [msgspec.structs.replace(run, key=key, recipe=Recipe(id=recipe))]
            )
        row = await row_of_page(daemon)
        assert row.health.last is not None
        assert (row.health.last.status, row.health.consecutive_failures) == (Status.FAILED, 3)
        page = (await daemon.page()).decode()
        failures = [line for line in page.splitlines() if "consecutive_failures{" in line]
        assert [line.rpartition(" ")[2] for line in failures] == ["3.0"]


async def play(observations: list[Observation], folder: Path) -> None:
    async with a_daemon(folder / "state.db") as daemon:
        daemon.reachable()
        observer = observer_of(daemon)
        for observed in observations:
            await observer.observe([observed])
            expected = true_health(await stored_ends(daemon))
            assert by_pipeline_health(daemon) == expected
            assert by_mqtt(daemon) == expected
            assert await by_web(daemon) == expected
            assert await by_metrics(daemon) == (None, *expected[1:])


async def stored_ends(daemon: Daemon) -> list[RunEnd]:
    runs = await daemon.bus.recent_runs(workspaces=["one"], limit=10)
    return [end for run in runs if (end := run_end(run)) is not None]
