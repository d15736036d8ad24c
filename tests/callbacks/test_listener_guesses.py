"""Wrong secrets of callbacks: delayed, counted, and in no other request's way."""

from __future__ import annotations

import asyncio

import aiohttp
import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.secrets import Secret
from tests.app.eventually import eventually
from tests.callbacks.conftest import SECRET, ListenerScenario
from tests.clocks import ManualClock

BODY = b'{"job_id":"9","job_status":"Complete"}'


async def test_a_wrong_secret_is_answered_late_and_a_right_one_at_once(
    bus: SqliteBus, clock: ManualClock, registry: CollectorRegistry
) -> None:
    """Guesses wait for a second, outside the limit of callbacks in work, and make one log line."""
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", in_flight_limit=1),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=bus.receive,
        clock=clock,
        registry=registry,
    )
    port = await listener.start()
    with structlog.testing.capture_logs() as lines:
        async with aiohttp.ClientSession() as session:
            scenario = ListenerScenario(port=port, session=session, registry=registry)
            paths = ["/hooks/acme", "/hooks/unknown", "/hooks/acme/guess", "/"]
            guesses = [
                asyncio.create_task(scenario.post(BODY, path=path, secret="guess"))
                for path in paths
            ]
            await eventually(lambda: scenario.count("wrong_secret") == 4, why="not arrived")
            right = await scenario.post(BODY)
            are_open = [task.done() for task in guesses]
            await clock.advance(1)
            statuses = [(await task).status for task in guesses]
        await listener.stop()

    refusals = {"reason": "wrong_credentials"}
    assert right.status == 204
    assert are_open == [False] * 4
    assert statuses == [404] * 4
    assert registry.get_sample_value("dataprep_monitor_callback_refusals_total", refusals) == 4
    refused = [line for line in lines if line["event"] == "requests refused"]
    assert sum(line["count"] for line in refused) == 4
    assert "guess" not in str(refused)
