"""Without the lease of the shard nothing is posted and nothing is written to a file.

The lease ends at each moment at which it is asked for, so also between a body that was built and
its first byte.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.model.alerts import AlertingSnapshot
from monitor.model.secrets import Secret
from monitor.outputs.alertmanager.output import AlertmanagerOutput
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.event_output import EventOutput
from monitor.outputs.file.output import FileOutput
from monitor.outputs.file.settings import FileSettings
from monitor.outputs.webhook.output import WebhookOutput
from monitor.outputs.webhook.settings import WebhookSettings
from tests.outputs.alert_histories import alert, fired
from tests.outputs.histories import run_event
from tests.outputs.leased_store import LeasedStore
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import PostReceiver

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


@pytest.fixture
async def receiver() -> AsyncIterator[PostReceiver]:
    """Return a receiver of posts."""
    async with PostReceiver() as made:
        yield made


def leased(scenario: OutputScenario, *, shard: str = "") -> LeasedStore:
    """Give the scenario a store whose lease the test ends."""
    scenario.bus = store = LeasedStore.of(scenario.bus, shard=shard)
    return store


def output_of(scenario: OutputScenario) -> EventOutput:
    assert isinstance(scenario.output, EventOutput)
    return scenario.output


@pytest.mark.parametrize(("allowed", "posted"), [(0, 0), (1, 0), (2, 1)])
async def test_no_alert_is_repeated_without_the_lease(
    tmp_path: Path, receiver: PostReceiver, allowed: int, posted: int
) -> None:
    """A request asks before its headers and its body; one that may not ends unsent."""
    settings = AlertmanagerSettings(
        urls=(receiver.url,), timeout_seconds=2, resend_seconds=0.2, **QUICK
    )
    async with OutputScenario(
        tmp_path, lambda s: AlertmanagerOutput(settings, s.parts)
    ) as scenario:
        scenario.snapshot = AlertingSnapshot(alerts=(alert(1),))
        store = leased(scenario)
        store.allow(allowed)
        await scenario.start()
        await scenario.until(lambda: "surely" in output_of(scenario).status)
        assert len(receiver.requests) == posted
        store.regain()
        await receiver.until(lambda: len(receiver.accepted) > posted)


@pytest.mark.parametrize("allowed", [0, 1, 2])
async def test_no_event_is_posted_without_the_lease(
    tmp_path: Path, receiver: PostReceiver, allowed: int
) -> None:
    """The delivery asks, and the request twice; a later lease delivers the event, as ever once."""
    settings = WebhookSettings(url=receiver.url, secret=Secret(SECRET), timeout_seconds=2, **QUICK)
    async with OutputScenario(tmp_path, lambda s: WebhookOutput(settings, s.parts)) as scenario:
        store = leased(scenario)
        store.allow(allowed)
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until(lambda: not store.is_held)
        assert receiver.requests == []
        store.regain()
        await scenario.until_delivered()
        assert [request.json()["id"] for request in receiver.requests] == [fired(1).id]


@pytest.mark.parametrize("allowed", [0, 1])
async def test_no_line_is_written_without_the_lease(tmp_path: Path, allowed: int) -> None:
    """The delivery asks, and the thread that writes; a later lease writes the line once."""
    path = tmp_path / "events.jsonl"
    settings = FileSettings(path=str(path), **QUICK)
    async with OutputScenario(tmp_path, lambda s: FileOutput(settings, s.parts)) as scenario:
        store = leased(scenario)
        store.allow(allowed)
        await scenario.start()
        await scenario.emit(run_event("1"))
        await scenario.until(lambda: not store.is_held)
        await scenario.stop()
        assert path.read_bytes() == b""
        store.regain()
        await scenario.start()
        await scenario.until_delivered()
        assert len(path.read_bytes().splitlines()) == 1


async def test_each_named_shard_writes_a_file_of_its_own(tmp_path: Path) -> None:
    """Two shards of one daemon would lock and rotate a common file under each other."""
    settings = FileSettings(path=str(tmp_path / "events.jsonl"), **QUICK)
    async with OutputScenario(tmp_path, lambda s: FileOutput(settings, s.parts)) as scenario:
        leased(scenario, shard="acme")
        await scenario.start()
        await scenario.emit(run_event("1"))
        await scenario.until_delivered()
    assert len((tmp_path / "events-acme.jsonl").read_bytes().splitlines()) == 1
    assert not (tmp_path / "events.jsonl").exists()
