"""No periodic step of an output holds the event loop, however much there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import aiomqtt
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.clock import SystemClock
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.kept_ends import with_end_of_run
from monitor.tracking.live_state import LiveState, active_of
from tests.full_size import (
    ALERTS,
    PIPELINES,
    counting_steps,
    fill,
    firing,
    flow_of,
)
from tests.outputs.histories import change, run_event
from tests.outputs.metrics_parts import Metrics
from tests.outputs.mqtt_scenario import MqttScenario, Subscriber, received_message, settings_for
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import PostReceiver
from tests.pipeline_healths import end_at, show
from tests.servers import Mosquitto

EVENTS = 1_000
BUSY_FLOWS = 50
RUNS_OF_A_BUSY_FLOW = 400
MANY_IN_FLIGHT = ("max_inflight_messages 0", "max_queued_messages 0")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


LAST = flow_of(PIPELINES - 1)
LAST_RUN = RunKey("w", RunKind.JOB_GROUP, "new")


def with_new_end(health: PipelineHealth, *, at: datetime) -> PipelineHealth:
    """Return the health after `LAST_RUN` has succeeded, a second later."""
    end = end_at(at + timedelta(seconds=1), run_id=LAST_RUN.id)
    return with_end_of_run(health, end, before=None)


class CountedCalls:
    """Returns what the function returns, and counts how often that was asked for."""

    def __init__(self, function: Callable[[], tuple[PipelineHealth, ...]]) -> None:
        self._function = function
        self.number = 0

    def __call__(self) -> tuple[PipelineHealth, ...]:
        self.number += 1
        return self._function()


async def test_no_round_over_retained_states_holds_the_loop(tmp_path: Path) -> None:
    """Rounds over all, over what an event touched, and over alerts that are new objects."""
    async with Mosquitto(tmp_path, options=MANY_IN_FLIGHT) as broker:
        settings = settings_for(broker.url, state_scan_seconds=0.2)
        async with MqttScenario(tmp_path, settings) as scenario:
            now, view = scenario.clock.now(), scenario.live_state.view
            fill(scenario.live_state, "w", now=now)
            scenario.snapshot = firing("w", now=now)
            rounds = CountedCalls(view.pipeline_health)
            view.pipeline_health = rounds  # type: ignore[method-assign]  # counts, and returns the same
            await scenario.start()
            await scenario.until(lambda: rounds.number >= 2)  # the first has published all of them

            with counting_steps() as longest:
                scenario.snapshot = firing("w", now=now)
                identity = ("w", RunKind.JOB_GROUP, LAST.id, f"r{LAST.id}")
                health = scenario.live_state.pipeline_health[identity]
                show(scenario.live_state, with_new_end(health, at=now))
                before = rounds.number
                await scenario.emit(run_event("new", Status.SUCCEEDED, key=LAST_RUN, pipeline=LAST))
                await scenario.until(lambda: rounds.number >= before + 4)
            await scenario.stop()
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            await client.subscribe(f"dataprep/v1/w/job_group/{LAST.id}/state", qos=1)
            async with asyncio.timeout(10):
                message = await anext(client.messages)
        assert received_message(message).json()["last_run"]["id"] == "new"
        longest.assert_short()


async def test_no_round_over_busy_pipelines_holds_the_loop(tmp_path: Path) -> None:
    """Each of some flows has hundreds of active runs, and each second events of all of them."""
    flows = [flow_of(number) for number in range(BUSY_FLOWS)]
    async with Mosquitto(tmp_path, options=MANY_IN_FLIGHT) as broker:
        settings = settings_for(broker.url, state_scan_seconds=0.2)
        async with MqttScenario(tmp_path, settings) as scenario:
            now, view = scenario.clock.now(), scenario.live_state.view
            fill(scenario.live_state, "w", now=now)
            for number in range(BUSY_FLOWS * RUNS_OF_A_BUSY_FLOW):
                run = RunState(
                    key=RunKey("w", RunKind.JOB_GROUP, f"b{number}"),
                    status=Status.RUNNING,
                    pipeline=flows[number % BUSY_FLOWS],
                    confirmed_at=now,
                    confirmed_by=Source.POLL,
                )
                scenario.live_state.active[run.key] = active_of(run)
            rounds = CountedCalls(view.pipeline_health)
            view.pipeline_health = rounds  # type: ignore[method-assign]  # counts, and returns the same
            await scenario.start()
            await scenario.until(lambda: rounds.number >= 2)  # the first has published all of them
            with counting_steps() as longest:
                before = rounds.number
                for flow in flows:
                    key = RunKey("w", RunKind.JOB_GROUP, f"c{flow.id}")
                    await scenario.emit(run_event(key.id, Status.RUNNING, key=key, pipeline=flow))
                await scenario.until(lambda: rounds.number >= before + 4)
            await scenario.stop()
    longest.assert_short()


async def test_neither_counting_nor_a_scrape_holds_the_loop(tmp_path: Path) -> None:
    """A full batch of events of as many pipelines, and pages while everything is known."""
    clock, live_state = SystemClock(), LiveState(["w"])
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    now = clock.now()
    fill(live_state, "w", now=now)
    snapshot = firing("w", now=now)
    metrics = Metrics(
        bus=bus,
        live_state=live_state.view,
        clock=clock,
        registry=CollectorRegistry(),
        settings=MetricsSettings(batch_size=EVENTS),
        version="1.2.3",
        alerting=lambda: snapshot,
    )
    await metrics.consumer.restore()
    await metrics.exposition.render("")
    batches = [
        [
            run_event(str(number), Status.SUCCEEDED, pipeline=flow_of(number))
            for number in range(first, first + EVENTS)
        ]
        for first in (0, EVENTS, 2 * EVENTS)
    ]
    with counting_steps() as longest:
        for events in batches:
            await bus.commit(change(*events), timeout_seconds=10)
            counted = asyncio.create_task(metrics.consumer.count_some(), name="counting")
            assert await counted == EVENTS
            page, _ = await asyncio.create_task(metrics.exposition.render(OPENMETRICS))
            assert page.count(b"dataprep_runs_total{") > 0
    await metrics.exposition.close()
    await bus.close()
    longest.assert_short()


async def test_repeating_alerts_does_not_hold_the_loop(tmp_path: Path) -> None:
    """All that fire are posted again, and in between nothing waits for long."""
    async with PostReceiver() as receiver:
        settings = AlertmanagerSettings(
            urls=(receiver.url,), timeout_seconds=5, resend_seconds=60, **QUICK
        )

        def output_of(scenario: OutputScenario) -> AlertmanagerOutput:
            return AlertmanagerOutput(settings, scenario.parts)

        async with OutputScenario(tmp_path, output_of) as scenario:
            scenario.snapshot = firing("w", now=scenario.clock.now())
            with counting_steps() as longest:
                await scenario.start()
                await receiver.until(
                    lambda: sum(len(request.json()) for request in receiver.requests) >= ALERTS
                )
    longest.assert_short()


async def test_a_run_that_ends_while_states_are_gathered_is_in_one_half(tmp_path: Path) -> None:
    """A retained state shows the pipeline before the end or after it, never in between."""
    async with Mosquitto(tmp_path, options=MANY_IN_FLIGHT) as broker:
        settings = settings_for(broker.url, state_scan_seconds=0.1, state_interval_seconds=0.05)
        topic = f"dataprep/v1/w/job_group/{LAST.id}/state"
        async with (
            MqttScenario(tmp_path, settings) as scenario,
            Subscriber(broker.port) as subscriber,
        ):
            fill(scenario.live_state, "w", now=scenario.clock.now())
            identity = ("w", RunKind.JOB_GROUP, LAST.id, f"r{LAST.id}")
            health, now = scenario.live_state.pipeline_health, scenario.clock.now()
            run = RunState(
                key=LAST_RUN,
                status=Status.RUNNING,
                created_at=now,
                pipeline=LAST,
                confirmed_at=now,
                confirmed_by=Source.POLL,
            )
            gather = scenario.live_state.view.pipeline_health

            def end() -> None:
                scenario.live_state.active.pop(LAST_RUN, None)
                health[identity] = with_new_end(health[identity], at=now)

            def gather_and_end() -> tuple[PipelineHealth, ...]:
                """Return what there is; with the next turn of the loop the run ends."""
                if LAST_RUN in scenario.live_state.active:
                    asyncio.get_running_loop().call_soon(end)
                return gather()

            checked = 0

            def is_over() -> bool:
                """Read each of the many messages once."""
                nonlocal checked
                arrived, checked = subscriber.messages[checked:], len(subscriber.messages)
                return any(
                    message.topic == topic and message.json()["last_run"]["id"] == "new"
                    for message in arrived
                )

            scenario.live_state.active[LAST_RUN] = active_of(run)
            scenario.live_state.view.pipeline_health = gather_and_end  # type: ignore[method-assign]  # the same, and a commit after it
            await scenario.start()
            await subscriber.until(is_over)
            shown = [message.json() for message in subscriber.on(topic)]
    assert {(state["active_count"], state["last_run"]["id"]) for state in shown} <= {
        (1, LAST.id),
        (0, "new"),
    }
