"""The content of the metrics page, parsed from the page itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.model.live_state import PollStatus, Reachability, ScheduleKnown
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import (
    PipelineKind,
    Status,
)
from monitor.model.triggers import HourlyTrigger
from monitor.tracking.live_state import LiveState
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import (
    NOON,
    flow,
    history,
    named,
    plan,
    run,
    samples,
    series,
)
from tests.pipeline_healths import end_at, failures_until


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with a_daemon(tmp_path / "state.db") as made:
        yield made


ID = {"workspace": "one", "kind": "plan_run"}


async def test_counters_carry_the_present_name_and_survive_restart_and_rename(
    daemon: Daemon,
) -> None:
    """A new name moves the count to a new label; a restart moves nothing."""
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "daily")
    await daemon.emit(*history(run(1, Status.SUCCEEDED, pipeline=plan(7, "daily"))))
    before = samples(await daemon.page())
    assert before[series("dataprep_runs_total", **ID, pipeline="daily", result="succeeded")] == 1
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "nightly")
    daemon.metrics = daemon.restarted()
    after = samples(await daemon.page())
    assert after[series("dataprep_runs_total", **ID, pipeline="nightly", result="succeeded")] == 1
    assert (
        after[series("dataprep_runs_started_total", **ID, pipeline="nightly", trigger="schedule")]
        == 1
    )
    assert after[series("dataprep_run_duration_seconds_sum", **ID, pipeline="nightly")] == 45.0
    assert series("dataprep_runs_total", **ID, pipeline="daily", result="succeeded") not in after


async def test_a_name_is_known_before_the_inventory_is_read(daemon: Daemon) -> None:
    """After a restart the counters have the name from the runs, not a bare id."""
    await daemon.emit(*history(run(1, Status.FAILED, pipeline=plan(7, "daily"))))
    daemon.live_state = LiveState(["one"])
    daemon.metrics = daemon.restarted()
    assert samples(await daemon.page())[
        series("dataprep_runs_total", **ID, pipeline="daily", result="failed")
    ]


async def test_equal_names_are_distinguished_by_id(daemon: Daemon) -> None:
    """The lower id keeps the plain name; no pipeline gets a reserved word."""
    for number in (10, 9):
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, str(number), "daily")
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "11", "unknown")
    gone = run(1, Status.SUCCEEDED, pipeline=plan(4, "daily"))
    await daemon.emit(*history(gone), *history(run(2, Status.SUCCEEDED)))
    page = samples(await daemon.page())
    succeeded = {
        dict(labels)["pipeline"]: value
        for (name, labels), value in page.items()
        if name == "dataprep_runs_total" and dict(labels)["result"] == "succeeded"
    }
    # The plan that is no longer listed leaves the name to those that are.
    assert succeeded == {
        "daily": 0,
        "daily#10": 0,
        "daily#4": 1,
        "unknown": 1,
        "unknown#11": 0,
    }


async def test_known_pipelines_start_at_0_and_a_never_is_absent(daemon: Daemon) -> None:
    """A pipeline of the inventory has its counters at 0 in its kinds and no last run."""
    daemon.reachable()
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "daily")
    page = await daemon.page()
    ended = named(page, "dataprep_runs_total")
    assert len(ended) == 12
    assert set(ended.values()) == {0}
    kinds = {(dict(pairs)["kind"], dict(pairs)["pipeline"]) for pairs in ended}
    assert kinds == {("flow_run", "orders"), ("job_group", "orders"), ("plan_run", "daily")}
    assert len(named(page, "dataprep_runs_active")) == 6
    queues = named(page, "dataprep_run_queue_seconds_count")
    assert {dict(queue)["kind"]: value for queue, value in queues.items()} == {
        "job_group": 0,
        "plan_run": 0,
    }
    assert b"\ndataprep_last_run" not in page
    assert b"\ndataprep_consecutive_failures" not in page
    assert b"\ndataprep_monitor_poll_last_success" not in page


async def test_job_groups_show_the_newest_end_and_the_worst_recipe(daemon: Daemon) -> None:
    """Of several recipes: the newest start and end, how long that took, the oldest success."""
    orders = flow(3, "orders")
    daemon.stand("a", orders, end_at(NOON, seconds=90.0))
    daemon.stand(
        "b",
        orders,
        end_at(NOON - timedelta(days=1)),
        *failures_until(NOON - timedelta(hours=1), 3, seconds=5.0),
    )
    page = samples(await daemon.page())
    labels = {"workspace": "one", "kind": "job_group", "pipeline": "orders"}
    day_before = (NOON - timedelta(days=1)).timestamp()
    newest = NOON.timestamp()
    assert page[series("dataprep_last_run_success_timestamp_seconds", **labels)] == day_before
    assert page[series("dataprep_last_run_started_timestamp_seconds", **labels)] == newest - 90
    assert page[series("dataprep_last_run_completed_timestamp_seconds", **labels)] == newest
    assert page[series("dataprep_last_run_duration_seconds", **labels)] == 90.0
    assert page[series("dataprep_consecutive_failures", **labels)] == 3
    results = {
        result: page[series("dataprep_last_run_result", **labels, result=result)]
        for result in ("succeeded", "failed", "canceled", "lost")
    }
    assert results == {"succeeded": 0, "failed": 1, "canceled": 0, "lost": 0}


async def test_active_runs_are_counted_until_they_are_unknown(daemon: Daemon) -> None:
    """An unreachable workspace is down at once, and what runs there is unknown."""
    daemon.reachable()
    daemon.activate(run(1, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    running = series("dataprep_runs_active", **ID, pipeline="daily", status="running")
    oldest = series("dataprep_oldest_active_run_timestamp_seconds", **ID, pipeline="daily")
    up = series("dataprep_workspace_up", workspace="one")
    page = samples(await daemon.page())
    assert (page[running], page[oldest], page[up]) == (1, NOON.timestamp(), 1)
    daemon.live_state.update_workspace(
        "one", reachability=Reachability.UNREACHABLE, since=daemon.clock.now()
    )
    page = samples(await daemon.page())
    assert running not in page
    assert oldest not in page
    assert page[up] == 0


async def test_unconfirmed_runs_become_unknown(daemon: Daemon) -> None:
    """A workspace that answers, but no longer lists its runs, does not repeat the old ones."""
    daemon.reachable()
    daemon.activate(run(1, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    await daemon.clock.advance(301)
    assert not named(await daemon.page(), "dataprep_runs_active")
    # Runs that are followed by id only are each confirmed by their own reads.
    daemon.live_state.confirmed.clear()
    daemon.activate(run(1, Status.RUNNING, pipeline=plan(7, "daily"), seconds=None))
    page = samples(await daemon.page())
    assert page[series("dataprep_runs_active", **ID, pipeline="daily", status="running")] == 1


async def test_before_the_first_answer_a_workspace_has_no_state(daemon: Daemon) -> None:
    """A workspace before its first read is neither up nor down and has no idle pipelines."""
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "daily")
    page = await daemon.page()
    assert not named(page, "dataprep_workspace_up")
    assert not named(page, "dataprep_runs_active")
    assert not named(page, "dataprep_capability")


def _update_inventory(daemon: Daemon) -> None:
    daemon.reachable()
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
    hourly = HourlyTrigger(minute_of_hour=5)
    schedules = tuple(
        ScheduleKnown(
            id=number,
            name="hourly",
            is_enabled=number == "2",
            triggers=(hourly,),
            pipelines=(flow(3),),
        )
        for number in ("10", "2")
    )
    daemon.live_state.update_workspace(
        "one",
        edition="RL",
        capabilities=frozenset({"list_changes"}),
        clock_skew_seconds=-1.5,
        schedules=schedules,
        webhook_tasks={"verified": 2, "missing": 1},
        callbacks_missed=4,
        last_callback_at=NOON,
    )
    for poll, success in (("changes", NOON), ("reconciliation", None)):
        daemon.live_state.record_poll(
            PollStatus(
                workspace="one",
                poll=poll,
                last_attempt_at=NOON,
                last_success_at=success,
                last_outcome=PollOutcome.OK,
            )
        )


async def test_the_workspace_and_its_inventory_are_shown(daemon: Daemon) -> None:
    """Schedules, capabilities, clock skew, polls, tasks and callbacks come from live state."""
    _update_inventory(daemon)
    page = samples(await daemon.page())
    labels = {"workspace": "one"}
    monitor = "dataprep_monitor"
    for expected, value in {
        series("dataprep_schedule_enabled", **labels, schedule="hourly"): 1,
        series("dataprep_schedule_enabled", **labels, schedule="hourly#10"): 0,
        series(
            "dataprep_pipeline_info",
            **labels,
            pipeline="orders",
            pipeline_kind="flow",
            pipeline_id="3",
            schedule="hourly, hourly#10",
        ): 1,
        series("dataprep_capability", **labels, capability="list_changes"): 1,
        series("dataprep_capability", **labels, capability="list_plans"): 0,
        series("dataprep_workspace_clock_skew_seconds", **labels): -1.5,
        series(f"{monitor}_webhook_tasks", **labels, state="verified"): 2,
        series(f"{monitor}_callbacks_missed_total", **labels): 4,
        series(f"{monitor}_callback_last_received_timestamp_seconds", **labels): NOON.timestamp(),
        series(
            f"{monitor}_poll_last_success_timestamp_seconds", **labels, poll="changes"
        ): NOON.timestamp(),
    }.items():
        assert page[expected] == value
    never = series(
        f"{monitor}_poll_last_success_timestamp_seconds", **labels, poll="reconciliation"
    )
    assert never not in page


async def test_the_store_and_the_configuration_are_shown(daemon: Daemon) -> None:
    """Backlog and size come from the store, and a refused reload is shown."""
    await daemon.emit(*history(run(1, Status.SUCCEEDED, pipeline=plan(7))))
    await daemon.metrics.consumer.restore()
    body, _ = await daemon.metrics.exposition.render("")
    page = samples(body)
    assert page[series("dataprep_monitor_consumer_backlog", consumer="metrics")] == 3
    oldest = series("dataprep_monitor_consumer_oldest_timestamp_seconds", consumer="metrics")
    assert page[oldest] == (NOON + timedelta(seconds=2)).timestamp()
    assert page[series("dataprep_monitor_store_bytes")] > 0
    assert series("dataprep_monitor_config_last_reload_successful") not in page
    daemon.metrics.daemon.configuration_taken("abc123")
    daemon.metrics.daemon.configuration_refused()
    page = samples(await daemon.page())
    assert page[series("dataprep_monitor_consumer_backlog", consumer="metrics")] == 0
    assert oldest not in page
    assert page[series("dataprep_monitor_config_last_reload_successful")] == 0
    assert page[series("dataprep_monitor_config_info", hash="abc123")] == 1


async def test_a_page_without_the_store_is_better_than_none(daemon: Daemon) -> None:
    """When the store does not answer, its own metrics are absent and the rest is there."""
    daemon.reachable()
    await daemon.page()
    daemon.bus.refuse_to_all("status")
    body, _ = await daemon.metrics.exposition.render("")
    page = samples(body)
    assert page[series("dataprep_workspace_up", workspace="one")] == 1
    assert series("dataprep_monitor_store_bytes") not in page


async def test_a_workspace_that_is_no_longer_configured_is_not_shown(daemon: Daemon) -> None:
    """Its counters stay in the store, and return with it."""
    await daemon.emit(*history(run(1, Status.SUCCEEDED, pipeline=plan(7), workspace="two")))
    assert b'workspace="two"' not in await daemon.page()
    daemon.live_state = LiveState(["one", "two"])
    daemon.metrics = daemon.restarted()
    assert b'workspace="two"' in await daemon.page()
