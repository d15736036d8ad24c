"""A listener on a free port, over a real store, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus, Received, StoredCallback
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.listener import CallbackListener, Receive
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.model.secrets import Secret
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.app.refusing_store import RefusingStore
from tests.clocks import ManualClock

SECRET = "a long secret that only the workspace knows"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def bus(
    tmp_path: Path, clock: ManualClock, registry: CollectorRegistry
) -> AsyncIterator[RefusingStore]:
    opened = await RefusingStore.opened(tmp_path / "state.db", clock=clock, registry=registry)
    yield opened
    await opened.close()


@pytest.fixture
def live_state() -> LiveState:
    return LiveState(["acme"])


@pytest.fixture
def observer(
    bus: EventBus, live_state: LiveState, clock: ManualClock, registry: CollectorRegistry
) -> Observer:
    return Observer(
        bus=bus,
        live_state=live_state,
        clock=clock,
        registry=registry,
        settings=TrackingSettings(),
    )


@dataclass(frozen=True)
class Answer:
    """The response that a sender gets."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass
class ListenerScenario:
    """The listener as a sender sees it, over a store without a daemon."""

    port: int
    session: aiohttp.ClientSession
    registry: CollectorRegistry

    async def post(
        self,
        body: bytes,
        *,
        path: str = "/hooks/acme",
        secret: str | None = SECRET,
        content_type: str | None = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a callback and return the answer."""
        sent = dict(headers or {})
        if secret is not None:
            sent["X-Monitor-Secret"] = secret
        if content_type is not None:
            sent["Content-Type"] = content_type
        async with self.session.post(
            f"http://127.0.0.1:{self.port}{path}", data=body, headers=sent
        ) as response:
            return Answer(response.status, await response.read(), response.headers)

    def count(self, outcome: str) -> float:
        """Return the number of callbacks with this outcome."""
        value = self.registry.get_sample_value(
            "dataprep_monitor_callback_requests_total", {"outcome": outcome}
        )
        assert value is not None
        return value


@pytest.fixture
def callback_settings() -> CallbackSettings:
    return CallbackSettings(secret=Secret(SECRET))


@pytest.fixture
async def scenario(
    bus: EventBus,
    clock: ManualClock,
    registry: CollectorRegistry,
    callback_settings: CallbackSettings,
) -> AsyncIterator[ListenerScenario]:
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
        workspaces={"acme": callback_settings},
        receive=bus.receive,
        clock=clock,
        registry=registry,
    )
    port = await listener.start()
    async with aiohttp.ClientSession() as session:
        yield ListenerScenario(port=port, session=session, registry=registry)
    await listener.stop()


def received_by(intake: CallbackIntake, bus: EventBus) -> Receive:
    """Return how a daemon receives callbacks of its only workspace."""

    async def receive(
        callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        keep = partial(bus.receive, inbox_bound=inbox_bound, timeout_seconds=timeout_seconds)
        return await intake.receive(callback, keep=keep, timeout_seconds=timeout_seconds)

    return receive


def job_group(number: int) -> RunKey:
    return RunKey("acme", RunKind.JOB_GROUP, str(number))


def polled(number: int, word: str, clock: ManualClock) -> Observation:
    """Return a poll's observation of a job group."""
    return Observation(
        key=job_group(number), source=Source.POLL, observed_at=clock.now(), native_status=word
    )
