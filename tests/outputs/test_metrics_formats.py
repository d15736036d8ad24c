"""The page as scrapers parse it: both formats, promtool, and every documented name."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as text_families
from prometheus_client.samples import Sample

from monitor.bus.contract import Start
from monitor.model.events import EventType
from monitor.model.live_state import PollStatus, ScheduleKnown
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import JobCount, PipelineKind, RunKind, Status
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import NOON, claimed, event, flow, history, plan, run
from tests.outputs.metrics_page_parts import alerting, full_inventory
from tests.pipeline_healths import end_at
from tests.servers import program

OPENMETRICS = "application/openmetrics-text;version=1.0.0"

# Name, type and labels of every metric of the public face that this room renders.
ID = ("workspace", "kind", "pipeline")
FACE: dict[str, tuple[str, tuple[str, ...]]] = {
    "dataprep_workspace_up": ("gauge", ("workspace",)),
    "dataprep_pipeline_info": (
        "gauge",
        ("workspace", "pipeline", "pipeline_kind", "pipeline_id", "schedule"),
    ),
    "dataprep_runs_started_total": ("counter", (*ID, "trigger")),
    "dataprep_runs_total": ("counter", (*ID, "result")),
    "dataprep_runs_corrected_total": ("counter", (*ID, "from", "to")),
    "dataprep_runs_active": ("gauge", (*ID, "status")),
    "dataprep_run_duration_seconds": ("histogram", ID),
    "dataprep_run_queue_seconds": ("histogram", ("workspace", "kind")),
    "dataprep_oldest_active_run_timestamp_seconds": ("gauge", ID),
    "dataprep_last_run_started_timestamp_seconds": ("gauge", ID),
    "dataprep_last_run_completed_timestamp_seconds": ("gauge", ID),
    "dataprep_last_run_success_timestamp_seconds": ("gauge", ID),
    "dataprep_last_run_duration_seconds": ("gauge", ID),
    "dataprep_last_run_result": ("gauge", (*ID, "result")),
    "dataprep_consecutive_failures": ("gauge", ID),
    "dataprep_expected_start_timestamp_seconds": ("gauge", ("workspace", "pipeline")),
    "dataprep_missed_runs_total": ("counter", ("workspace", "pipeline")),
    "dataprep_deadline_timestamp_seconds": ("gauge", ("workspace", "pipeline")),
    "dataprep_deadlines_total": ("counter", ("workspace", "pipeline", "result")),
    "dataprep_run_duration_limit_seconds": ("gauge", ID),
    "dataprep_success_age_limit_seconds": ("gauge", ID),
    "dataprep_jobs_total": ("counter", ("workspace", "job_type", "result")),
    "dataprep_last_confirmed_timestamp_seconds": ("gauge", ("workspace", "kind")),
    "dataprep_workspace_clock_skew_seconds": ("gauge", ("workspace",)),
    "dataprep_capability": ("gauge", ("workspace", "capability")),
    "dataprep_unshared_pipelines": ("gauge", ("workspace",)),
    "dataprep_schedule_enabled": ("gauge", ("workspace", "schedule")),
    "dataprep_objects": ("gauge", ("workspace", "type")),
    "dataprep_connection_up": ("gauge", ("workspace", "connection")),
    "dataprep_token_expiry_timestamp_seconds": ("gauge", ("workspace", "token_id")),
    "dataprep_output_values_ratio": ("gauge", ("workspace", "pipeline", "output", "quality")),
    "dataprep_usage": ("gauge", ("workspace", "measure")),
    "dataprep_monitor_poll_last_success_timestamp_seconds": ("gauge", ("workspace", "poll")),
    "dataprep_monitor_callback_last_received_timestamp_seconds": ("gauge", ("workspace",)),
    "dataprep_monitor_webhook_tasks": ("gauge", ("workspace", "state")),
    "dataprep_monitor_callbacks_missed_total": ("counter", ("workspace",)),
    "dataprep_monitor_events_total": ("counter", ("type",)),
    "dataprep_monitor_event_lag_seconds": ("histogram", ("source",)),
    "dataprep_monitor_consumer_backlog": ("gauge", ("consumer",)),
    "dataprep_monitor_consumer_oldest_timestamp_seconds": ("gauge", ("consumer",)),
    "dataprep_monitor_events_lost_total": ("counter", ("consumer",)),
    "dataprep_monitor_store_bytes": ("gauge", ()),
    "dataprep_monitor_dead_letters": ("gauge", ("output",)),
    "dataprep_monitor_alerts": ("gauge", ("rule", "severity", "state")),
    "dataprep_monitor_alert_transitions_total": ("counter", ("rule", "to")),
    "dataprep_monitor_rule_evaluation_failures_total": ("counter", ("rule",)),
    "dataprep_monitor_silences": ("gauge", ("state",)),
    "dataprep_monitor_silenced_pipelines": ("gauge", ("workspace",)),
    "dataprep_monitor_known_pipelines": ("gauge", ("workspace",)),
    "dataprep_monitor_build_info": ("gauge", ("version", "python_version")),
    "dataprep_monitor_config_info": ("gauge", ("hash",)),
    "dataprep_monitor_certificate_expiry_timestamp_seconds": ("gauge", ("listener",)),
    "dataprep_monitor_config_last_reload_successful": ("gauge", ()),
    "dataprep_monitor_series": ("gauge", ()),
    "dataprep_monitor_series_dropped_total": ("counter", ("metric",)),
    "dataprep_monitor_event_loop_lag_seconds": ("histogram", ()),
    "process_start_time_seconds": ("gauge", ()),
    "python_gc_collections_total": ("counter", ("generation",)),
}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    """A daemon with at least one sample in every series."""
    async with a_daemon(tmp_path / "state.db") as made:
        await _everything_happens(made)
        yield made


async def _everything_happens(daemon: Daemon) -> None:
    daemon.reachable()
    odd = 'orders\n"new" \\ Größe'
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", odd)
    ended = run(
        1,
        Status.SUCCEEDED,
        kind=RunKind.JOB_GROUP,
        pipeline=flow(3, odd),
        jobs=(JobCount(job_type="wrangle", status="Complete", count=2),),
    )
    daemon.alerting = alerting(plan(7, "daily"))
    await daemon.emit(*history(ended), event(ended, EventType.RUN_DETAILED))
    failed = run(2, Status.FAILED, pipeline=plan(7, "daily"))
    await daemon.emit(*history(claimed(failed)), event(failed, EventType.RUN_CONFIRMED))
    await daemon.page()
    # An event and a consumer that has read nothing yet.
    await daemon.emit(event(run(3, Status.FAILED, pipeline=plan(7, "daily"))))
    await daemon.bus.subscribe("mqtt", start=Start.OLDEST)
    daemon.activate(run(4, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    daemon.stand(None, plan(7, "daily"), end_at(NOON, seconds=1.5))
    daemon.live_state.record_poll(
        PollStatus(
            workspace="one",
            poll="changes",
            last_attempt_at=NOON,
            last_success_at=NOON,
            last_outcome=PollOutcome.OK,
        )
    )
    schedule = ScheduleKnown(
        id="5", name="hourly", is_enabled=True, triggers=(), pipelines=(flow(3),)
    )
    daemon.live_state.update_workspace(
        "one",
        edition="RL",
        clock_skew_seconds=0.5,
        schedules=(schedule,),
        webhook_tasks={"verified": 1},
        last_callback_at=NOON,
        inventory=full_inventory(flow(3, odd)),
    )
    daemon.metrics.daemon.configuration_taken("abc123")
    daemon.metrics.daemon.certificate_loaded("server", daemon.clock.now())


async def test_every_promised_metric_with_a_source_is_there(daemon: Daemon) -> None:
    """Name, type, help and labels are those of the public face."""
    page, _ = await daemon.metrics.exposition.render("")
    families = {
        _name(text_family.name, text_family.type): text_family
        for text_family in text_families(page.decode())
    }
    found = {
        name: (families[name].type, _labels(families[name].samples))
        for name in FACE
        if name in families
    }
    assert found == {name: (kind, frozenset(labels)) for name, (kind, labels) in FACE.items()}
    assert [name for name in FACE if not families[name].documentation] == []


async def test_nothing_beyond_the_public_face_is_there(daemon: Daemon) -> None:
    """No series of ours has an undocumented name."""
    page, _ = await daemon.metrics.exposition.render("")
    names = {
        _name(text_family.name, text_family.type) for text_family in text_families(page.decode())
    }
    ours = {name for name in names if name.startswith("dataprep_")}
    assert ours <= set(FACE)


async def test_openmetrics_is_read_by_its_parser_with_units_and_exemplars(daemon: Daemon) -> None:
    """Counters and buckets have the id of the run that changed them last as an exemplar."""
    page, content_type = await daemon.metrics.exposition.render(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {
        openmetrics_family.name: openmetrics_family
        for openmetrics_family in openmetrics_families(page.decode())
    }
    assert families["dataprep_run_duration_seconds"].unit == "seconds"
    assert families["dataprep_pipeline"].type == "info"
    exemplars = {
        (sample.name, sample.exemplar.labels["run_id"])
        for family in families.values()
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert exemplars == {
        ("dataprep_runs_started_total", "1"),
        ("dataprep_runs_started_total", "2"),
        ("dataprep_runs_total", "1"),
        ("dataprep_runs_total", "2"),
        ("dataprep_run_duration_seconds_bucket", "1"),
        ("dataprep_run_duration_seconds_bucket", "2"),
        ("dataprep_run_queue_seconds_bucket", "1"),
        ("dataprep_run_queue_seconds_bucket", "2"),
        ("dataprep_jobs_total", "1"),
    }


async def test_both_formats_have_the_same_values(daemon: Daemon) -> None:
    """The compared series have the same values in either format."""
    text, _ = await daemon.metrics.exposition.render("text/plain")
    openmetrics, _ = await daemon.metrics.exposition.render(OPENMETRICS)
    assert b"_created" not in text + openmetrics
    assert _watched(
        sample for text_family in text_families(text.decode()) for sample in text_family.samples
    ) == _watched(
        sample
        for openmetrics_family in openmetrics_families(openmetrics.decode())
        for sample in openmetrics_family.samples
    )


async def test_the_library_would_write_the_same_page(daemon: Daemon) -> None:
    """The library's encoder writes the parsed page again, byte for byte."""
    page, _ = await daemon.metrics.exposition.render("")
    assert b'pipeline="orders\\n\\"new\\" \\\\ Gr\xc3\xb6\xc3\x9fe"' in page
    assert generate_latest(_Read(list(text_families(page.decode())))) == page


async def test_promtool_finds_nothing(daemon: Daemon) -> None:
    """The page keeps every rule of the tool that ships with Prometheus."""
    promtool = program("promtool")
    page, _ = await daemon.metrics.exposition.render("")
    checked = await asyncio.to_thread(
        subprocess.run,
        [promtool, "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


class _Read:
    """Yields the parsed families to the library."""

    def __init__(self, read: list[Metric]) -> None:
        self._read = read

    def collect(self) -> list[Metric]:
        return self._read


def openmetrics_families(page: str) -> list[Metric]:
    """Read a page strictly: the parser refuses what OpenMetrics does not allow."""
    read = openmetrics_parser.text_string_to_metric_families
    return list(read(page))  # type: ignore[no-untyped-call]  # the library has no types here


def _name(family: str, kind: str) -> str:
    return f"{family}_total" if kind == "counter" else family


def _labels(samples: list[Sample]) -> frozenset[str]:
    return frozenset(name for sample in samples for name in sample.labels if name != "le")


def _watched(samples: Iterable[Sample]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for sample in samples
        if sample.name.startswith("dataprep_") and not sample.name.startswith("dataprep_monitor_")
    }
