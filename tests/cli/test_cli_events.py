"""``events`` and ``runs``: which time of an event or run is whose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.bus.contract import Change
from monitor.cli.main import main
from monitor.model.events import EventType, RunEvent, WorkspaceEvent, run_event_id
from monitor.model.runs import RunState, Status
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scene import DaemonClientScene, daemon_client

ENDED = datetime(2026, 11, 21, 10, tzinfo=UTC)
RECORDED = ENDED + timedelta(seconds=2)


@pytest.fixture
async def client(tmp_path: Path, run_command: CommandProcess) -> AsyncIterator[DaemonClientScene]:
    async with daemon_client(tmp_path, run_command) as scene:
        yield scene


async def _record(
    client: DaemonClientScene, run: RunState, event_type: EventType, at: datetime | None
) -> None:
    event = RunEvent(
        id=run_event_id(run.key, event_type),
        type=event_type,
        run=run,
        before=None,
        occurred_at=at,
        recorded_at=RECORDED,
        observed_by=run.confirmed_by,
    )
    await client.site.bus.commit(Change(runs=(run,), events=(event,)), timeout_seconds=5)


async def _a_run_noticed_at_its_end(client: DaemonClientScene) -> None:
    """Let the poll that shows a run for the first time show its end; its start is not reported."""
    started = client.site.run("1")
    ended = client.site.run("1", Status.SUCCEEDED, approximate=("finished_at",))
    other = client.site.run("2", Status.FAILED)
    await _record(client, started, EventType.RUN_STARTED, None)
    await _record(client, ended, EventType.RUN_SUCCEEDED, ENDED)
    await _record(client, other, EventType.RUN_FAILED, ENDED)
    changed = WorkspaceEvent(
        id="acme:edition:1",
        type=EventType.WORKSPACE_CHANGED,
        workspace="acme",
        what="edition",
        number=1,
        before=None,
        after="RL",
        occurred_at=None,
        recorded_at=RECORDED,
    )
    await client.site.bus.commit(Change(events=(changed,)), timeout_seconds=5)


async def test_the_time_of_recording_is_not_printed_as_reported(client: DaemonClientScene) -> None:
    """A start that nobody reported is marked as recorded, or it would come after its own end."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "--output", "wide")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:2] for line in done.out.splitlines()] == [
        ["recorded:2026-11-21T10:00:02Z", "run.started"],
        ["~2026-11-21T10:00:00Z", "run.succeeded"],
        ["2026-11-21T10:00:00Z", "run.failed"],
        ["recorded:2026-11-21T10:00:02Z", "workspace.changed"],
    ]


async def test_both_times_are_in_json_under_their_names(client: DaemonClientScene) -> None:
    """A program gets what the workspace reported, null where that is nothing, and our own time."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [(event["occurred_at"], event["recorded_at"]) for event in events] == [
        (None, "2026-11-21T10:00:02Z"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z"),
        (None, "2026-11-21T10:00:02Z"),
    ]


async def test_an_approximate_end_is_marked_among_runs_too(client: DaemonClientScene) -> None:
    """The table marks it; the field of the JSON document is the plain instant."""
    await _a_run_noticed_at_its_end(client)
    head, *rows = (await client.type("runs", "--output", "wide")).out.splitlines()
    begin = head.index("ended")
    assert sorted(row[begin:].split()[0] for row in rows) == [
        "2026-11-21T10:00:00Z",
        "~2026-11-21T10:00:00Z",
    ]
    found = await client.rows("runs")
    assert {run["finished_at"] for run in found} == {"2026-11-21T10:00:00Z"}
    assert [run["approximate"] for run in found if run["id"] == "1"] == [["finished_at"]]


@pytest.mark.parametrize("command", ["events", "runs"])
def test_help_explains_the_marks(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Whoever meets a mark finds it in the help of the command."""
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "~ before a time: approximate" in text
    assert ("recorded: before a time" in text) is (command == "events")
