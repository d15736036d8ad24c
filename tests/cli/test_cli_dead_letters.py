"""``dead-letters list`` and ``show`` against a server."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client
from tests.web.sample_letters import refused

FIRST = "acme:job_group:1:started"


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as made:
        yield made


async def test_dead_letters_name_output_and_reason(client: DaemonClientScenario) -> None:
    """Of all outputs or one; more than are shown are counted, and an unknown output refused."""
    await refused(client.site, "webhook", runs=3)
    done = await client.type("dead-letters", "list", "--limit", "2")
    head, *rows, common = done.out.splitlines()
    assert head.split() == ["output", "run"]
    assert [row.split()[-2:] for row in rows] == [
        ["webhook", "job_group/3"],
        ["webhook", "job_group/2"],
    ]
    assert common.startswith("all: refused ")
    assert common.endswith("event run.started, workspace acme, reason 413: too large")
    assert done.err == "showing the newest 2 of 3; --limit 3 for more\n"
    whole = await client.type("dead-letters", "--for", "webhook", "--output", "wide")
    assert (whole.err, FIRST in whole.out) == ("", True)
    none = await client.type("dead-letters", "--for", "mqtt")
    assert (none.code, none.out, none.err) == (0, "", "no output has dead letters\n")
    wrong = await client.type("dead-letters", "--for", "webhok")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'webhok' is not known; did you mean webhook?" in wrong.err


async def test_programs_get_the_letters_as_they_are(client: DaemonClientScenario) -> None:
    """A list as JSON and as CSV, with the same rows."""
    await refused(client.site, "webhook", runs=3)
    rows = await client.rows("dead-letters", "list", "--limit", "3")
    assert [(row["output"], row["run_id"]) for row in rows] == [
        ("webhook", "3"),
        ("webhook", "2"),
        ("webhook", "1"),
    ]
    listed = await client.type("dead-letters", "list", "--output", "csv")
    head, *lines = listed.out.splitlines()
    assert head.startswith('"output","refused_at","reason","event_type","event_id",')
    assert [next(csv.reader([line]))[4] for line in lines] == [row["event_id"] for row in rows]


async def test_a_dead_letter_is_shown_with_its_event(client: DaemonClientScenario) -> None:
    """For people the reason and the event below; as JSON both in one document."""
    await refused(client.site, "webhook", runs=2, reason="413: \x1b[2Jtoo large")
    done = await client.type("dead-letters", "show", FIRST)
    assert (done.code, done.err) == (0, "")
    table, _, event = done.out.partition("\n\n")
    assert "webhook" in table.splitlines()[1].split()
    assert "too large" in table
    assert "\x1b" not in done.out
    assert json.loads(event)["id"] == FIRST
    document = await client.rows("dead-letters", "show", FIRST)
    assert document["event"] == json.loads(event)
    assert [row["output"] for row in document["data"]] == ["webhook"]


async def test_an_event_without_a_dead_letter_is_not_shown(client: DaemonClientScenario) -> None:
    """An id that no output has refused is one line on stderr and 1."""
    done = await client.type("dead-letters", "show", "a/b ?%2F..")
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert "no output has a dead letter of that event" in done.err
