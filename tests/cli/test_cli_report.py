"""``report`` against a server: the forms, the options, and an answer that is none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.canned_server import always, other_server
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client
from tests.web.sample_reports import failure, shown


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        scenario.alerting.report = shown(failed_and_still_failing=(failure(),))
        yield scenario


async def test_a_report_is_text_of_eighty_columns(client: DaemonClientScenario) -> None:
    """The last night, with the verdict first."""
    done = await client.type("report")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("Report of ")
    assert "orders is still failing." in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("form", "begin"),
    [("markdown", "# Report of "), ("html", "<!doctype html>\n"), ("json", "{\n")],
)
async def test_a_report_is_printed_in_each_form(
    client: DaemonClientScenario, form: str, begin: str
) -> None:
    """For mails, wikis and programs."""
    done = await client.type("report", "--output", form)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(begin)
    assert "still failing" in done.out.lower()


async def test_json_is_the_answer_of_the_daemon(client: DaemonClientScenario) -> None:
    """--json is short for it."""
    done = await client.type("report", "--json")
    assert json.loads(done.out)["failed_and_still_failing"][0]["run_ids"] == ["17", "16"]


async def test_times_of_day_are_the_last_ones(client: DaemonClientScenario) -> None:
    """By the local clock: the begin lies before the end, at most a day."""
    now = datetime.now(UTC)
    client.site.clock.set_wall(now)
    done = await client.type(
        "report", "--since", "18:00", "--until", "07:00", "-w", "acme", "--pipeline", "orders"
    )
    assert (done.code, done.err) == (0, "")
    query = client.alerting.reports_asked[-1]
    assert query.until - query.since == timedelta(hours=13)
    assert timedelta() <= now - query.until <= timedelta(days=1, minutes=1)
    assert query.match.workspace == ("acme",)
    assert query.match.pipeline == ("orders",)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--since", "yesterday"), "--since: 'yesterday' is not an ISO 8601 instant"),
        (("--until", "25:00"), "--until: '25:00' is not an ISO 8601 instant"),
        (("--name", "weekly"), "name: 'weekly' is not known"),
    ],
)
async def test_what_names_no_stretch_is_refused(
    client: DaemonClientScenario, arguments: tuple[str, ...], error: str
) -> None:
    """With one sentence, and the exit code of wrong usage."""
    done = await client.type("report", *arguments)
    assert done.code == 2
    assert error in done.err


async def test_an_answer_that_is_no_report_is_said(run_command: CommandProcess) -> None:
    """Something else listens there."""
    async with other_server(always({"status": "up"})) as url:
        done = await run_command("report", "--url", url, config=None)
    assert done.code == 1
    assert done.err.startswith("error: ")
