"""One daemon over many workspaces: what is odd in one, and what changes in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.catalogue.operations import Edition
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import counted, ends_in
from tests.clocks import FastClock

KINDS = fixture.kinds_of(Edition.RL)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [("html_login", "unreachable"), ("truncated", "unreadable"), ("poison_row", None)],
)
async def test_one_odd_payload_in_one_workspace(
    tmp_path: Path, fault: str, outcome: str | None
) -> None:
    """Unreadable rows of one workspace are reported there, and stop neither it nor the other.

    In one loop for all workspaces the first page that is no JSON ends every monitor.
    """
    clock = FastClock()
    here = fixture.sandbox(seed=1, speed=1_000, clock=clock)
    odd = fixture.sandbox(seed=2, speed=1_000, clock=clock)
    odd.world.options.only = frozenset({"listJobLibrary"})
    async with (
        fixture.started(here) as here_url,
        fixture.started(odd) as odd_url,
        fixture.daemon(
            fixture.configuration(
                tmp_path,
                fixture.workspace_configuration(here, here_url, name="here"),
                fixture.workspace_configuration(odd, odd_url, name="odd"),
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("here", "odd"), why="not followed")
        setattr(odd.world.options, fault, "types" if fault == "poison_row" else 1.0)
        for sandbox in (here, odd):
            for flow in list(sandbox.world.flows.live())[:3]:
                sandbox.engine.start_flow_run(flow, by=11)
        await until_counted(face, "here", here)
        if outcome is not None:
            unreadable = {"workspace": "odd", "poll": "changes", "outcome": outcome}
            polls = "dataprep_monitor_polls_total"
            await eventually(lambda: has_some(face, polls, unreadable), why="it is not reported")
            setattr(odd.world.options, fault, 0.0)
        await until_counted(face, "odd", odd)
        assert await face.metric("dataprep_workspace_up", workspace="here") == 1


async def has_some(face: Face, name: str, labels: dict[str, str]) -> bool:
    return bool(await face.metric(name, **labels))


async def until_counted(face: Face, name: str, workspace: Sandbox) -> None:
    await eventually(lambda: not workspace.ledger.active(), why="the sandbox is slow")
    happened = counted(ends_in(workspace.ledger, KINDS))

    async def is_counted() -> bool:
        return await face.ends(workspace=name) == happened

    await eventually(is_counted, why=f"{name}: not counted: {happened}")


async def test_a_reload_in_the_middle_of_a_poll(tmp_path: Path) -> None:
    """In the middle of any poll, new settings publish each run once and miss none.

    A watermark that moved for a poll which was cut off would skip runs.
    """
    workspace = fixture.sandbox(speed=1_000)
    requested = asyncio.Event()

    def on_operation(operation_id: str, _: Mapping[str, str]) -> None:
        if operation_id == "listJobLibrary":
            requested.set()

    workspace.on_request(on_operation)
    async with fixture.started(workspace) as url:
        watched = fixture.workspace_configuration(workspace, url)
        # No overlap and no slower list: nothing else finds what a poll leaves behind.
        poll = msgspec.structs.replace(watched.poll, overlap_seconds=0.0, reconcile_seconds=600.0)
        watched = msgspec.structs.replace(watched, poll=poll)
        settings = fixture.configuration(tmp_path, watched)
        daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
        stop = asyncio.Event()
        started: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        living = asyncio.create_task(daemon.run(stop, on_started=started.set_result))
        face = Face((await started).server_port)
        await eventually(lambda: face.is_following("acme"), why="not followed")
        # Slow enough that the list is always under way when the reload comes.
        workspace.world.options.latency = 0.15
        for turn, flow in enumerate(list(workspace.world.flows.live())[:5]):
            workspace.engine.start_flow_run(flow, by=11)
            requested.clear()
            await asyncio.wait_for(requested.wait(), timeout=10)
            poll = msgspec.structs.replace(poll, names_seconds=100.0 + turn)
            changed = msgspec.structs.replace(watched, poll=poll)
            await daemon.reload(msgspec.structs.replace(settings, workspaces=(changed,)))
        workspace.world.options.latency = 0.0
        await until_counted(face, "acme", workspace)
        assert await face.metric("dataprep_monitor_contradictions_total", workspace="acme") == 0
        stop.set()
        await living
