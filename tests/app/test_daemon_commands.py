"""The commands that query and control a daemon which runs as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.processes import (
    DaemonProcess,
    Done,
    Settings,
    Watched,
    command,
    daemon_process,
    running,
)


@dataclass
class Steered:
    """A workspace in which only the test starts runs, and the daemon that follows it."""

    workspace: Sandbox
    daemon: DaemonProcess

    async def type(self, *arguments: str) -> Done:
        return await command(*arguments, config=self.daemon.settings.path)

    async def rows(self, *arguments: str) -> list[dict[str, Any]]:
        done = await self.type(*arguments, "--json")
        assert done.code == 0, done.err
        rows: list[dict[str, Any]] = json.loads(done.out)
        return rows

    async def registered(self, *arguments: str) -> set[str]:
        """Return the flows that have their task once the command has run."""
        rows = await self.rows(*arguments)
        return {row["flow_id"] for row in rows if row["state"] == "registered"}

    def start_job_group(self, outcome: Outcome) -> str:
        world = self.workspace.world
        recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
        self.workspace.engine.order(Order(outcome=outcome, work_seconds=1, queue_seconds=1))
        job_group = self.workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        return str(job_group.id)

    async def is_known(self, run_id: str, status: str) -> bool:
        rows = (await self.daemon.face.json("/api/v1/runs"))["data"]
        return any((row["id"], row["status"]) == (run_id, status) for row in rows)

    def our_tasks(self) -> list[int]:
        return [task.id for task in self.workspace.world.webhook_tasks.live()]


@contextlib.asynccontextmanager
async def a_steered_daemon(folder: Path) -> AsyncIterator[Steered]:
    workspace = fixture.sandbox()
    async with fixture.started(workspace) as url:
        settings = Settings(folder, Watched("acme", url, workspace.token), with_callbacks=True)
        async with daemon_process(settings) as daemon:
            await eventually(lambda: daemon.face.is_following("acme"), why="not followed")
            yield Steered(workspace, daemon)


async def test_runs_and_events_are_printed_and_followed(tmp_path: Path) -> None:
    """Reported runs and events are printed, for people and for programs, as they happen."""
    async with a_steered_daemon(tmp_path) as steered:
        first = steered.start_job_group(Outcome.FAILED)
        await eventually(lambda: steered.is_known(first, "failed"), why="not published")

        assert [row["id"] for row in await steered.rows("runs", "--status", "failed")] == [first]
        assert await steered.rows("runs", "--kind", "plan_run") == []
        table = await steered.type("runs")
        assert table.code == 0
        assert f"job_group/{first}" in table.out

        listed = await steered.type("events", "--json")
        events = [json.loads(line) for line in listed.out.splitlines()]
        received = [
            event["id"].rpartition(":")[2] for event in events if f":{first}:" in event["id"]
        ]
        assert received[:3] == ["queued", "started", "failed"]

        for_people = (await steered.type("events")).out
        assert f" run.failed acme job_group/{first} " in " ".join(for_people.split())

        config = steered.daemon.settings.path
        now = datetime.now(UTC).isoformat()
        async with running("events", "--follow", "--since", now, config=config) as following:
            assert following.stdout is not None
            second = steered.start_job_group(Outcome.COMPLETE)
            printed = await _until_printed(
                following.stdout, f"run.succeeded acme job_group/{second}"
            )
            assert first not in printed
            following.send_signal(signal.SIGINT)
            assert await following.wait() == 130


async def _until_printed(stream: asyncio.StreamReader, expected: str) -> str:
    printed = ""
    async with asyncio.timeout(20):
        async for line in stream:
            printed += line.decode()
            if expected in " ".join(printed.split()):
                return printed
    pytest.fail(f"{expected!r} was not printed, but {printed!r}")


async def test_a_run_is_tracked_by_its_id(tmp_path: Path) -> None:
    """A run that exists is followed; one that the workspace denies is reported and exits 1."""
    async with a_steered_daemon(tmp_path) as steered:
        run_id = steered.start_job_group(Outcome.HANG)
        tracked = await steered.type("track", "job_group", run_id)
        assert (tracked.code, tracked.out) == (0, f"following acme:job_group:{run_id}\n")

        denied = await steered.type("track", "job_group", "999999")
        assert denied.code == 1
        assert "acme:job_group:999999 is denied by the workspace" in denied.err

        wrong = await steered.type("track", "job_group", run_id, "--workspace", "other")
        assert wrong.code == 1
        assert "workspace 'other' is not configured; known: acme" in wrong.err
        near = await steered.type("webhooks", "list", "-w", "acm")
        assert (near.code, near.out) == (1, "")
        assert "workspace 'acm' is not configured; did you mean acme?" in near.err


async def test_webhook_tasks_are_listed_tested_made_and_removed(tmp_path: Path) -> None:
    """``webhooks`` registers tasks in the workspace and prints the state of each flow."""
    async with a_steered_daemon(tmp_path) as steered:
        flows = {str(flow.id) for flow in steered.workspace.world.flows.live()}
        await eventually(steered.daemon.face.has_webhook_tasks, why="no webhook tasks")

        assert await steered.registered("webhooks", "list") == flows
        tested = await steered.type("webhooks", "test")
        assert tested.code == 0, tested.out + tested.err
        assert "204" in tested.out

        flow_id = min(flows)
        assert await steered.registered("webhooks", "delete", "--flow", flow_id) == flows - {
            flow_id
        }
        assert len(steered.our_tasks()) == len(flows) - 1

        assert await steered.registered("webhooks", "sync", "--flow", flow_id) == flows
        assert len(steered.our_tasks()) == len(flows)

        assert await steered.registered("webhooks", "delete") == set()
        assert steered.our_tasks() == []


async def test_a_command_without_a_daemon_reports_so(tmp_path: Path) -> None:
    """No daemon answers at the address of the configuration: exit 1, one line."""
    settings = Settings(tmp_path, Watched("acme", "http://127.0.0.1:9", "a token"))
    done = await command("runs", config=settings.path)
    assert done.code == 1
    assert done.err.startswith(f"error: no daemon answers at http://127.0.0.1:{settings.port}")
    assert done.err.count("\n") == 1
