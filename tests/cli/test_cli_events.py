"""``events`` and ``runs``: which time of an event or run is whose."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.bus.contract import Change
from monitor.cli.main import main
from monitor.model.events import EventType, RunEvent, WorkspaceEvent, run_event_id
from monitor.model.runs import RunState, Status
from tests.cli.canned_server import always, other_server
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client

ENDED = datetime(2026, 11, 21, 10, tzinfo=UTC)
RECORDED = ENDED + timedelta(seconds=2)


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        yield scenario


async def _record(
    client: DaemonClientScenario, run: RunState, event_type: EventType, at: datetime | None
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


async def _a_run_noticed_at_its_end(client: DaemonClientScenario) -> None:
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


async def test_the_time_of_recording_is_not_printed_as_reported(
    client: DaemonClientScenario,
) -> None:
    """A start that was not reported is marked as recorded, or it would come after its own end."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "--output", "wide")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:2] for line in done.out.splitlines()] == [
        ["recorded:2026-11-21T10:00:02Z", "run.started"],
        ["~2026-11-21T10:00:00Z", "run.succeeded"],
        ["2026-11-21T10:00:00Z", "run.failed"],
        ["recorded:2026-11-21T10:00:02Z", "workspace.changed"],
    ]


async def test_a_table_of_events_is_relative_in_time(client: DaemonClientScenario) -> None:
    """Times that are read at once are words, with the marks of the instants."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "--type", "run.started", "--type", "run.succeeded")
    first, second = done.out.splitlines()
    assert re.match(r"recorded:\d+ (s|min|h|d) ago +run\.started  ", first)
    assert re.match(r"~\d+ (s|min|h|d) ago +run\.succeeded +acme  job_group/1  orders$", second)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--type", "run.failed"), ["2"]),
        (("--pipeline", "orders"), ["1", "1", "2"]),
        (("--pipeline", "7", "--kind", "job_group", "--limit", "1"), ["2"]),
        (("--pipeline", "order"), []),
        (("--kind", "plan_run"), []),
        (("-w", "acme", "--limit", "2"), ["2", ""]),
        (("--since", "2026-11-21T09:00:00Z", "--type", "workspace.changed"), [""]),
        (("--since", "2026-11-21T09:00:00Z", "--limit", "1"), ["1"]),
        (("--limit", "0"), ["1", "1", "2", ""]),
    ],
)
async def test_events_are_filtered(
    client: DaemonClientScenario, options: tuple[str, ...], ids: list[str]
) -> None:
    """By workspace, kind, pipeline, type and instant; a limit is of the newest that fit."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "-o", "csv", *options)
    assert done.code == 0
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["run_id"] for row in rows] == ids
    assert all(row["workspace"] == "acme" for row in rows)


async def test_events_that_fit_are_searched_beyond_the_last_page(
    client: DaemonClientScenario,
) -> None:
    """The newest event of a rare type is found after a thousand others."""
    rare = client.site.run("rare", Status.FAILED)
    await _record(client, rare, EventType.RUN_FAILED, ENDED)
    runs = [client.site.run(str(number), Status.SUCCEEDED) for number in range(1_100)]
    await client.site.observe(*runs)
    done = await client.type("events", "--type", "run.failed")
    assert (done.code, done.err) == (0, "")
    assert done.out.split()[-2:] == ["job_group/rare", "orders"]
    last = await client.type("events", "--limit", "3")
    assert len(last.out.splitlines()) == 3
    assert last.err == "showing the newest 3; --limit 0 for all, or --since 7d\n"


async def test_no_events_of_an_unknown_workspace(client: DaemonClientScenario) -> None:
    """It is refused with the nearest name, not answered with nothing."""
    done = await client.type("events", "-w", "acm")
    assert (done.code, done.out) == (2, "")
    assert done.err == "--workspace: 'acm' is not known; did you mean acme?\n"


async def test_both_times_are_in_json_under_their_names(client: DaemonClientScenario) -> None:
    """A program gets CloudEvents; ``time`` is absent where the workspace reported none."""
    await _a_run_noticed_at_its_end(client)
    done = await client.type("events", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [(event.get("time"), event["recordedtime"]) for event in events] == [
        (None, "2026-11-21T10:00:02Z"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z"),
        (None, "2026-11-21T10:00:02Z"),
    ]


async def test_an_approximate_end_is_marked_among_runs_too(client: DaemonClientScenario) -> None:
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


async def test_runs_and_the_audit_end_where_it_is_said(client: DaemonClientScenario) -> None:
    """--until takes an instant or a span, and is refused before the daemon is asked."""
    await _a_run_noticed_at_its_end(client)
    assert len(await client.rows("runs", "--until", "2100-01-01T00:00:00Z")) == 2
    assert await client.rows("runs", "--until", "2026-11-20T00:00:00Z") == []
    assert await client.rows("audit", "--until", "2026-11-20T00:00:00Z") == []
    for command in ("runs", "audit"):
        wrong = await client.type(command, "--until", "tomorrow")
        assert wrong.code == 2
        assert "--until: 'tomorrow' is not an ISO 8601 instant" in wrong.err


@pytest.mark.parametrize("command", ["events", "runs"])
def test_help_explains_the_marks(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Every mark is explained in the help of the command."""
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "~ before a time: approximate" in text
    assert ("recorded: before a time" in text) is (command == "events")


async def test_an_older_daemon_is_named_as_such(run_command: CommandProcess) -> None:
    """One whose events have another form, as after an upgrade without a restart."""
    row = {"position": 1, "event": {"form": "run", "type": "run.failed"}}
    page = {"data": [row], "next": 1, "has_more": False}
    async with other_server(always(page)) as url:
        done = await run_command("events", "--url", url, config=None)
    assert (done.code, done.out) == (1, "")
    assert "it is older than this command; restart it" in done.err
