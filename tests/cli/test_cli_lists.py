"""``status``, ``pipelines``, ``workspaces``, ``schedules`` and ``runs`` against servers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.model.live_state import (
    Authentication,
    Reachability,
    ScheduleKnown,
    TokenStatus,
    TokenTrouble,
    TokenTroubleKind,
    UnlistedRuns,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.model.triggers import DailyTrigger
from tests.cli.canned_server import always, in_pages, other_server
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        yield scenario


async def test_the_state_of_everything_is_a_sentence(client: DaemonClientScenario) -> None:
    """It is the page's own sentence; a script gets its level and counts."""
    done = await client.type("status")
    state = json.loads((await client.type("status", "--json")).out)
    assert done.out.startswith(state["sentence"])
    assert len(done.out.splitlines()) == 1
    _, row = csv.reader(io.StringIO((await client.type("status", "-o", "csv")).out))
    assert row[:2] == [state["level"], state["sentence"]]


@pytest.mark.parametrize(
    ("level", "code"), [("ok", 0), ("warning", 1), ("critical", 1), ("unknown", 3)]
)
async def test_the_level_is_the_exit_code(
    run_command: CommandProcess, level: str, code: int
) -> None:
    """0 needs no action, 1 needs people, 3 is unknown; the sentence is printed in any case."""
    state = {"level": level, "sentence": "2 pipelines failing", "confirmed_at": None}
    async with other_server(always(state)) as url:
        done = await run_command("status", "--url", url, config=None)
    assert (done.code, done.out, done.err) == (code, "2 pipelines failing\n", "")


async def test_a_daemon_that_does_not_answer_has_no_state(run_command: CommandProcess) -> None:
    """Its exit code is that of an unknown state, with the reason on stderr."""
    done = await run_command("status", "--url", "http://127.0.0.1:9", config=None)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("error: no daemon answers at http://127.0.0.1:9 ")
    async with other_server(always({"status": "up"})) as url:
        stranger = await run_command("status", "--url", url, config=None)
    assert (stranger.code, stranger.out) == (3, "")


def pipelines(count: int) -> list[dict[str, Any]]:
    return [
        {"workspace": "acme", "kind": "flow", "pipeline_id": str(number), "pipeline": "a",
         "state": "healthy", "run_kind": "flow_run", "last_run_id": None, "success_ratio": 0.9}
        for number in range(count)
    ]  # fmt: skip


async def test_a_table_that_is_cut_says_so(run_command: CommandProcess) -> None:
    """It shows fifty, how many there are, and how to get them; --limit 0 and programs get all."""
    async with other_server(in_pages(pipelines(412), most=200, total=412)) as url:
        short = await run_command("pipelines", "--url", url, config=None)
        whole = await run_command("pipelines", "--url", url, "--limit", "0", config=None)
        listed = await run_command("pipelines", "--url", url, "--json", config=None)
    assert short.err == "showing 50 of 412; --limit 0 for all\n"
    assert len(short.out.splitlines()) == 52
    assert (len(whole.out.splitlines()), whole.err) == (414, "")
    assert (len(json.loads(listed.out)), listed.err) == (412, "")


async def test_a_table_whose_whole_is_not_counted_is_cut_too(run_command: CommandProcess) -> None:
    """Where only the next page is known, it says that there is more."""
    async with other_server(in_pages(pipelines(60), most=200, total=None)) as url:
        short = await run_command("pipelines", "--url", url, "--limit", "59", config=None)
        exact = await run_command("pipelines", "--url", url, "--limit", "60", config=None)
    assert short.err == "showing the first 59; --limit 0 for all\n"
    assert exact.err == ""


async def test_a_pipeline_can_be_copied(client: DaemonClientScenario) -> None:
    """Its row has what `explain` takes, beside the name."""
    client.site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    client.site.stand(ORDERS, Status.FAILED)
    done = await client.type("pipelines", "--output", "wide")
    assert (done.code, done.err) == (0, "")
    head, row = done.out.splitlines()
    assert "orders" in row
    assert row[head.index("id ") :].split()[0].endswith("/7")


async def test_workspaces_are_listed_with_their_reason(client: DaemonClientScenario) -> None:
    """A workspace that cannot be seen says since when, and why."""
    client.site.live_state.update_workspace(
        "acme",
        reachability=Reachability.UNREACHABLE,
        since=_before(client),
        reason="401: the token was revoked",
    )
    done = await client.type("workspaces")
    assert (done.code, done.err) == (0, "")
    assert "unreachable" in done.out
    assert "401: the token was revoked" in done.out
    fields = next(csv.reader(io.StringIO((await client.type("workspaces", "-o", "csv")).out)))
    assert fields[:2] == ["workspace", "reachability"]


async def test_outages_are_listed_with_their_reason(client: DaemonClientScenario) -> None:
    """How long each lasted and why, in words; where there was none, that is said."""
    none = await client.type("outages")
    assert (none.code, none.out, none.err) == (0, "", "no outage in the last seven days\n")
    client.site.live_state.update_workspace(
        "acme",
        reachability=Reachability.UNREACHABLE,
        since=_before(client),
        known_at=client.site.clock.now(),
        is_remembered=False,
        reason="changes: no connection: connection refused: Cannot connect to host acme:443",
    )
    done = await client.type("outages", "--workspace", "acme")
    assert (done.code, done.err) == (0, "")
    assert "workspace did not answer: connection refused" in done.out
    assert "lasts" in done.out
    (row,) = await client.rows("outages")
    assert row["is_over"] is False


async def test_workspaces_say_what_no_list_shows_beside_another_reason(
    client: DaemonClientScenario,
) -> None:
    """One reason hides no other."""
    unlisted = UnlistedRuns(kind=RunKind.JOB_GROUP, ids=("17",), count=1)
    client.site.live_state.update_workspace(
        "acme",
        reachability=Reachability.DEGRADED,
        reason="names cannot be read",
        unlisted=(unlisted,),
    )
    done = await client.type("workspaces", "--output", "wide")
    assert "unlisted_job_group" in done.out
    assert "names cannot be read; " in done.out
    assert "no list shows run 17" in done.out


async def test_workspaces_are_listed_with_their_tokens(client: DaemonClientScenario) -> None:
    """How each is authenticated, when a refreshed token ends, and what endangers it."""
    trouble = TokenTrouble(
        kind=TokenTroubleKind.LOCKED_OUT,
        since=_before(client),
        reason="locked out: invalid_grant",
        advice="generate a new pair",
    )
    client.site.live_state.update_workspace(
        "acme",
        authentication=Authentication.REFRESHED_TOKEN,
        token=TokenStatus(refreshed_at=_before(client), trouble=trouble),
    )
    done = await client.type("workspaces")
    assert (done.code, done.err) == (0, "")
    assert "refreshed token, in danger" in done.out
    assert "locked out: invalid_grant" in done.out
    wide = await client.type("workspaces", "--output", "wide")
    assert "token refreshed" in wide.out
    rows = list(csv.DictReader(io.StringIO((await client.type("workspaces", "-o", "csv")).out)))
    assert rows[0]["authentication"] == "refreshed_token"
    assert rows[0]["refreshed_token.refreshed_at"]
    assert rows[0]["refreshed_token.trouble.reason"] == "locked out: invalid_grant"


async def test_schedules_name_what_they_start(client: DaemonClientScenario) -> None:
    """One row a schedule; a disabled one says who switched it off."""
    trigger = DailyTrigger(timezone="Europe/Berlin", hour_of_day=6, minute_of_hour=30)
    daily = ScheduleKnown(
        id="74", name="before work", is_enabled=True, triggers=(trigger,), pipelines=(ORDERS,)
    )
    switched_off = msgspec.structs.replace(daily, id="75", is_enabled=False, disable_reason="off")
    client.site.live_state.update_workspace(
        "acme", schedules=(daily, switched_off), schedules_read_at=_before(client)
    )
    done = await client.type("schedules")
    assert (done.code, done.err) == (0, "")
    first, second = [line.split() for line in done.out.splitlines()[1:3]]
    assert (first[0], second[0]) == ("active", "disabled")
    assert "orders (flow/7)" in done.out
    assert [row["id"] for row in await client.rows("schedules")] == ["74", "75"]


async def test_runs_are_filtered_and_say_why(client: DaemonClientScenario) -> None:
    """A name of `explain`, relative times and the reason; what all share stands below."""
    site = client.site
    await site.observe(
        site.run("1", Status.FAILED, error="no such column"),
        site.run("2", Status.FAILED, error="[Errno 13]\nPermission denied"),
        site.run("3", Status.SUCCEEDED),
    )
    done = await client.type("runs", "--status", "failed")
    head, *rows, common = done.out.splitlines()
    assert head.split() == ["run", "reason"]
    assert sorted(rows) == [
        "job_group/1  no such column",
        "job_group/2  [Errno 13] Permission denied",
    ]
    assert common.startswith("all: status failed, pipeline orders, workspace acme, created ")
    last = await client.type("runs", "--limit", "2")
    assert last.err == "showing the first 2; --limit 0 for all\n"
    none = await client.type("runs", "--status", "lost")
    assert (none.out, none.err.startswith("no run fits; leave out a filter")) == ("", True)


def _before(client: DaemonClientScenario) -> datetime:
    return client.site.clock.now().astimezone(UTC) - timedelta(minutes=5)
