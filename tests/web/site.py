"""The server as a client sees it, and what a test writes behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change
from monitor.bus.sqlite import SqliteBus
from monitor.model.checks import CheckLine
from monitor.model.events import STATUS_EVENTS, RunEvent, run_event_id
from monitor.model.live_state import ActiveRun
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status
from monitor.tracking.live_state import LiveState
from monitor.web.server import Server
from tests.app.eventually import eventually
from tests.clocks import ManualClock
from tests.pipeline_healths import end_at, health_after, show
from tests.web.fake_alerting import FakeAlerting


class Answer(Struct, frozen=True):
    """What a client gets."""

    status: int
    text: str
    headers: dict[str, str]
    document: Any  # the decoded body where it is JSON


@dataclass
class Site:
    """The server as a client sees it, and what stands behind it."""

    server: Server
    bus: SqliteBus
    live_state: LiveState
    clock: ManualClock
    findings: dict[str, CheckLine]
    session: aiohttp.ClientSession
    alerting: FakeAlerting
    registry: CollectorRegistry
    url: str = ""
    requested: list[tuple[Any, ...]] = field(default_factory=list)

    async def get(self, path: str, *, headers: dict[str, str] | None = None) -> Answer:
        async with self.session.get(self.url + path, headers=headers) as response:
            return await answer_of(response)

    async def get_recomputed(self, path: str) -> Answer:
        """Return the answer when what was computed for those who looked before is over."""
        await self.clock.advance(2)
        return await self.get(path)

    async def post(self, path: str, **sent: Any) -> Answer:
        async with self.session.post(self.url + path, **sent) as response:
            return await answer_of(response)

    async def delete(self, path: str) -> Answer:
        async with self.session.delete(self.url + path) as response:
            return await answer_of(response)

    @contextlib.asynccontextmanager
    async def from_address(self, address: str) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield a client at another address of this machine, 127.0.0.2 for example."""
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            yield session

    def refused(self, reason: str) -> float:
        """Return how much the server has refused for a reason."""
        value = self.registry.get_sample_value(
            "dataprep_monitor_server_refusals_total", {"reason": reason}
        )
        assert value is not None
        return value

    async def logged(self, lines: list[MutableMapping[str, Any]], *, number: int = 1) -> None:
        """Return when so many lines are logged."""
        await eventually(lambda: len(lines) >= number, why="nothing was logged")

    async def observe(self, *runs: RunState) -> None:
        """Store runs with the event of the status that each has reached."""
        events = tuple(_event(run) for run in runs)
        await self.bus.commit(Change(runs=runs, events=events), timeout_seconds=5)
        for run in runs:
            if not run.status.is_terminal:
                self.live_state.active[run.key] = ActiveRun(
                    run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
                )

    def stand(self, pipeline: Pipeline, status: Status) -> None:
        """Let the last job group of a pipeline have ended so, now."""
        end = end_at(self.clock.now(), status)
        show(self.live_state, health_after(end, pipeline=pipeline))

    def run(self, run_id: str = "1", status: Status = Status.RUNNING, **more: Any) -> RunState:
        """Return a job group of the flow ``orders``, confirmed now."""
        made = {
            "key": RunKey("acme", RunKind.JOB_GROUP, run_id),
            "status": status,
            "created_at": self.clock.now(),
            "finished_at": self.clock.now() if status.is_terminal else None,
            "pipeline": Pipeline(kind=PipelineKind.FLOW, id="7", name="orders"),
            "confirmed_at": self.clock.now(),
            "confirmed_by": Source.POLL,
        }
        return RunState(**{**made, **more})


async def answer_of(response: aiohttp.ClientResponse) -> Answer:
    text = await response.text()
    is_json = response.content_type.endswith("json")
    document = await response.json(content_type=None) if is_json else None
    return Answer(response.status, text, dict(response.headers), document)


def _event(run: RunState) -> RunEvent:
    event_type = STATUS_EVENTS[run.status]
    return RunEvent(
        id=run_event_id(run.key, event_type),
        type=event_type,
        run=run,
        before=None,
        occurred_at=run.finished_at or run.created_at,
        recorded_at=run.confirmed_at,
        observed_by=Source.POLL,
    )
