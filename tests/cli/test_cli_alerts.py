"""``alerts``, ``silence``, ``explain``, ``replay`` and ``dead-letters`` against a server."""

from __future__ import annotations

import getpass
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.cli.main import main
from monitor.model.alerts import AlertState, Severity
from monitor.model.notifying import MessagePreview
from monitor.model.runs import PipelineKind
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from tests.cli.command_process import CommandProcess
from tests.cli.daemon_scenario import DaemonClientScenario, daemon_client

NOWHERE = ("-c", "/nowhere/monitor.toml")


@pytest.fixture
async def client(
    tmp_path: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    async with daemon_client(tmp_path, run_command) as scenario:
        yield scenario


async def test_alerts_are_listed_and_chosen(client: DaemonClientScenario) -> None:
    """A table for people and JSON for programs, filtered by state or rule."""
    alert = client.alerting.alert
    client.alerting.show(
        alert("aa", muted_by=("mute", "silence:5d3c")),
        alert("bb", state=AlertState.PENDING, name="queue_slow"),
        rules=(("run_failed", Severity.CRITICAL), ("queue_slow", Severity.WARNING)),
    )
    table = await client.type("alerts")
    assert (table.code, table.err) == (0, "")
    head, first, second, common = table.out.splitlines()
    assert head.split() == ["state", "alert", "not", "notified", "fingerprint"]
    assert "mute time, silence 5d3c" in first
    assert second.split()[0] == "pending"
    assert "reason orders has failed" in common
    assert [row["fingerprint"] for row in await client.rows("alerts", "--state", "firing")] == [
        "aa"
    ]
    assert len(await client.rows("alerts", "--rule", "queue_slow")) == 1
    unknown = await client.type("alerts", "--rule", "queue_slo")
    assert unknown.code == 2
    assert "did you mean queue_slow?" in unknown.err


async def test_ended_alerts_are_listed_on_request(client: DaemonClientScenario) -> None:
    """Without a state only open ones are; --since adds those that ended since then."""
    alert, now = client.alerting.alert, client.site.clock.now()
    ended = alert("cc", state=AlertState.RESOLVED, ends_at=now)
    client.alerting.show(alert("aa"))
    client.alerting.over["cc"] = [ended]
    chosen = {
        options: [row["fingerprint"] for row in await client.rows("alerts", *options)]
        for options in ((), ("--state", "resolved"), ("--state", "all"))
    }
    since = (now - timedelta(hours=1)).isoformat()
    assert list(chosen.values()) == [["aa"], ["cc"], ["aa", "cc"]]
    assert len(await client.rows("alerts", "--since", since)) == 2
    later = (now + timedelta(hours=1)).isoformat()
    assert len(await client.rows("alerts", "--since", later)) == 1
    fitting = await client.type("alerts", "--pipeline", "nothing")
    assert (fitting.out, fitting.err) == ("", "no alert fits; leave out a filter\n")


async def test_an_alert_is_acknowledged(client: DaemonClientScenario) -> None:
    """By its fingerprint, with who and why; the list shows it, and an ended one is refused."""
    client.alerting.show(client.alerting.alert("aa"))
    words = ("acknowledge", "aa", "--author", "ann", "--comment", "on it")
    done = await client.type(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out == "alert aa is acknowledged; no more reminders of it go out\n"
    (row,) = await client.rows("alerts")
    assert (row["acknowledged"]["author"], row["acknowledged"]["comment"]) == ("ann", "on it")
    assert "acknowledged by ann" in (await client.type("alerts")).out
    lasting = await client.type(*words, "--for", "4h")
    assert lasting.out == "alert aa is acknowledged; no more reminders of it go out for 4h\n"
    (row,) = await client.rows("alerts")
    assert row["acknowledged"]["until"] == "2026-11-21T14:00:00Z"
    wrong = await client.type(*words, "--for", "soon")
    assert (wrong.code, "--for: 'soon' is no length of time" in wrong.err) == (2, True)
    unknown = await client.type("acknowledge", "ab")
    assert (unknown.code, "'ab' is not known" in unknown.err) == (1, True)
    over = client.alerting.alert("aa", state=AlertState.RESOLVED, ends_at=client.site.clock.now())
    client.alerting.show()
    client.alerting.over["aa"] = [over]
    gone = await client.type(*words)
    assert (gone.code, gone.out) == (1, "")
    assert gone.err == "error: alert aa is over; nothing is left to acknowledge\n"


@pytest.mark.parametrize(
    "words",
    [
        ("alerts", "-w", "acm"),
        ("alerts", "-w", "acm", "--state", "firing", "--json"),
        ("runs", "-w", "acm"),
        ("explain", "job_group", "17", "-w", "acm"),
        ("explain", "flow", "7", "-w", "acm"),
        ("explain", "acm:job_group:17"),
    ],
)
async def test_a_workspace_that_is_not_known_is_wrong_usage(
    client: DaemonClientScenario, words: tuple[str, ...]
) -> None:
    """An empty table would read as if all were well: the nearest name is reported, exit 2."""
    client.alerting.show(client.alerting.alert())
    done = await client.type(*words)
    assert (done.code, done.out) == (2, "")
    assert "workspace: 'acm' is not known; did you mean acme?" in done.err


async def test_a_silence_is_added_listed_and_expired(client: DaemonClientScenario) -> None:
    """Matchers, length and reason reach the daemon, with the user's name as the author."""
    added = await client.type(
        "silence", "add", "workspace=acme", "pipeline=daily*", "--for", "1h30m", "--comment", "why"
    )
    assert (added.code, added.err) == (0, "")
    (made,) = await client.rows("silence", "list")
    assert made["matchers"] == ["workspace=acme", "pipeline=daily*"]
    assert (made["author"], made["comment"]) == (getpass.getuser(), "why")
    assert made["ends_at"] == "2026-11-21T11:30:00Z"
    assert made["id"] in added.out
    over = await client.type("silence", "expire", made["id"])
    assert (over.code, over.out) == (0, f"silence {made['id']} has expired\n")
    again = await client.type("silence", "expire", made["id"])
    assert (again.code, "is not known" in again.err) == (1, True)


async def test_a_silence_until_an_instant(client: DaemonClientScenario) -> None:
    """Start and end may be named with their zones, and another author too."""
    words = ("silence", "add", "pipeline=a", "--comment", "why", "--author", "ann")
    done = await client.type(
        *words, "--from", "2026-11-21T13:00:00+02:00", "--until", "2026-11-21T14:00:00+02:00"
    )
    assert done.code == 0
    (made,) = await client.rows("silence", "list")
    assert (made["starts_at"], made["ends_at"]) == ("2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z")
    assert made["author"] == "ann"
    label = await client.type("silence", "add", "pipelin=a", "--comment", "why", "--for", "2h")
    assert (label.code, "did you mean pipeline?" in label.err) == (2, True)
    words = ("silence", "add", "workspace=nope", "--comment", "why", "--for", "2h")
    workspace = await client.type(*words)
    assert workspace.code == 2
    assert "no workspace fits 'nope'; there are acme, other, bridge" in workspace.err


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (["add", "pipeline=a", "--comment", "why"], ["--for: a silence needs an end"]),
        (["add"], ["MATCHER: name what is", "--for: a silence needs", "--comment: say why"]),
        (["add", "a=b", "--comment", "why", "--for", "2h", "--until", "2026-11-21T10:00:00Z"],
         ["--until: --for is given too"]),
        (["add", "a=b", "--comment", "why", "--for", "2 hours"],
         ["--for: '2 hours' is no length of time; write one as 90s, 30m, 2h, 7d or 1h30m"]),
        (["add", "a=b", "--comment", "why", "--for", "0s"], ["--for: '0s' is no length of time"]),
        (["add", "a=b", "--comment", "why", "--until", "tomorrow"],
         ["--until: 'tomorrow' is not an ISO 8601 instant"]),
        (["add", "a=b", "--comment", "why", "--until", "2026-11-21"], ["names no time zone"]),
    ],
)  # fmt: skip
def test_a_silence_that_cannot_be_meant_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problems: list[str]
) -> None:
    """Exit 2 and one line for each problem, without a request."""
    assert main(["silence", *arguments, *NOWHERE]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == len(problems)
    for problem, line in zip(problems, err.splitlines(), strict=True):
        assert problem in line


@pytest.mark.parametrize(
    ("arguments", "shell_output"),
    [
        (["silence", "mute"], "'mute' is none of add, list, expire"),
        (["silence", "list", "a"], "list takes no further words"),
        (["silence", "expire"], "expire takes the id of one silence"),
        (["silence", "list", "--for", "2h"], "belong to add"),
        (["explain", "flows", "1"], "and an id; did you mean flow?"),
        (["explain", "job_group", "1", "2"], "name an alert's fingerprint, a flow or plan by its"),
        (["explain", "Month", "end"], "a flow or plan by its name in quotes, or one of flow_run"),
        (["explain", "job_group"], "job_group is named without an id; write explain job_group 11"),
        (["explain", "plan"], "plan is named without an id; write explain plan 11"),
        (["replay", "--to", "mqtt"], "Missing option '--since'"),
        (["replay", "--to", "mqtt", "--since", "today"], "is not an ISO 8601 instant"),
        (["notify", "preview"], "preview takes the fingerprint of an alert"),
        (["notify", "send"], "'send' is none of test, list, preview"),
        (
            ["notify", "test", "--url", "http://localhost:1"],
            "belongs to preview; test reads a conf",
        ),
        (["dead-letters", "purge"], "'purge' is none of list, show, resend, drop"),
        (["dead-letters", "list", "mqtt"], "list takes no further words, only --for OUTPUT"),
        (["dead-letters", "list", "--limit", "0"], "Input should be greater than or equal to 1"),
        (["dead-letters", "show"], "show takes the id of one event"),
        (["dead-letters", "show", "mqtt", "id"], "show takes the id of one event"),
        (["dead-letters", "show", "id", "--for", "mqtt"], "show takes the id of one event"),
        (["dead-letters", "show", "id", "--limit", "1"], "--limit belongs to list"),
        (["dead-letters", "resend"], "name the output, and ids of events or --all: resend mqtt"),
        (["dead-letters", "drop", "mqtt"], "name the output, and ids of events or --all"),
        (["dead-letters", "drop", "mqtt", "id", "--all"], "ids of events or --all: drop mqtt"),
        (["dead-letters", "drop", "--for", "mqtt", "--all"], "belongs to list; write drop mqtt"),
    ],
)
def test_wrong_usage_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], shell_output: str
) -> None:
    """A request that no daemon could answer is refused without being sent."""
    assert main([*arguments, *NOWHERE]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert shell_output in " ".join(err.split())


@pytest.mark.parametrize(
    "words",
    [
        ["9f86d081884c7d65"],
        ["run_failed/9f86d081884c7d65"],
        ["job_group", "17"],
        ["job_group", "17", "-w", "acme"],
        ["job_group/17"],
        ["acme:job_group:17"],
        ["flow", "7"],
        ["flow/7", "-w", "acme"],
        ["month end"],
        ["flow", "month end"],
    ],
)
async def test_alerts_and_runs_are_explained(
    client: DaemonClientScenario, words: list[str]
) -> None:
    """By fingerprint, topic, kind and id, key or name: the answer first, then its steps."""
    client.alerting.show(client.alerting.alert())
    client.site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "month end")
    done = await client.type("explain", *words)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].endswith("was not notified")
    assert lines[2].split() == ["stage", "outcome", "rule", "about", "detail"]
    assert lines[3].split()[:5] == ["rule", "pending", "x", "job_group", "orders"]
    assert (await client.rows("explain", *words))["reason"] == "pending"


async def test_an_unknown_run_is_not_explained(client: DaemonClientScenario) -> None:
    """An unknown run, pipeline or alert is one line on stderr and 1."""
    for words in (["job_group", "9"], ["plan", "7"], ["0000"]):
        done = await client.type("explain", *words)
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
        assert "the daemon answered 404" in done.err


async def test_a_name_of_several_is_wrong_usage(client: DaemonClientScenario) -> None:
    """The names that are clear stand in the message, and each of them is understood."""
    for kind, pipeline_id in ((PipelineKind.FLOW, "7"), (PipelineKind.PLAN, "3")):
        client.site.live_state.name_pipeline("acme", kind, pipeline_id, "month end")
    done = await client.type("explain", "month end")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("'month end' is ambiguous: name one of flow/7, plan/3\n")
    assert (await client.type("explain", "flow/7")).code == 0
    assert (await client.type("explain", "flow", "month end")).code == 0


async def test_an_output_is_sent_the_past_again(client: DaemonClientScenario) -> None:
    """The instant reaches the daemon as it was meant, and what became of it is printed."""
    done = await client.type("replay", "--since", "2026-11-21T11:00:00+01:00", "--to", "mqtt")
    head, row = (line.split() for line in done.out.splitlines())
    assert (done.code, dict(zip(head, row, strict=True))["sent"]) == (0, "3")
    assert client.alerting.replayed == [("mqtt", client.site.clock.now())]
    before = datetime.now(UTC) - timedelta(hours=2)
    assert (await client.type("replay", "--since", "2h", "--to", "webhook")).code == 0
    output, since = client.alerting.replayed[-1]
    assert (output, abs(since - before) < timedelta(minutes=1)) == ("webhook", True)
    wrong = await client.type("replay", "--since", "2026-11-21T11:00:00Z", "--to", "mqt")
    assert (wrong.code, "did you mean mqtt?" in wrong.err) == (1, True)


async def test_dead_letters_are_resent_and_dropped(client: DaemonClientScenario) -> None:
    """By the ids of events, or all; what became of them is printed."""
    done = await client.type("dead-letters", "resend", "mqtt", "a", "b")
    head, row = (line.split() for line in done.out.splitlines())
    assert (done.code, dict(zip(head, row, strict=False))["sent"]) == (0, "2")
    assert (await client.rows("dead-letters", "drop", "webhook", "--all"))[0]["left"] == 1
    assert client.alerting.processed_letters == [
        ("mqtt", LetterAction.RESEND, ("a", "b")),
        ("webhook", LetterAction.DROP, None),
    ]


@pytest.mark.parametrize(
    "letters",
    [
        LettersProcessed(output="mqtt", sent=1, refused=1, left=1),
        LettersProcessed(output="mqtt", left=1, reason="cannot be reached"),
    ],
)
async def test_a_resend_that_was_not_accepted_exits_1(
    client: DaemonClientScenario, letters: LettersProcessed
) -> None:
    """What became of the letters is printed all the same."""
    client.alerting.letters = letters
    done = await client.type("dead-letters", "resend", "mqtt", "--all", "--json")
    assert (done.code, json.loads(done.out)[0]["left"]) == (1, 1)


async def test_messages_are_previewed_as_they_would_be_read(client: DaemonClientScenario) -> None:
    """Subject and text of each channel, or why it sends none; escape sequences do nothing."""
    client.alerting.show(client.alerting.alert("9f86"))
    client.alerting.previews = (
        MessagePreview(
            channel="team",
            to="ann@example.com",
            form="text",
            subject="FAILED",
            text="a\n\n\x1b[2Jb\n",
        ),
        MessagePreview(channel="night", why_not="the channel is muted now: Sat UTC"),
    )
    done = await client.type("notify", "preview", "9f86")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "team to ann@example.com: FAILED\n  a\n\n  \\x1b[2Jb\n\n"
        "night: sends nothing: the channel is muted now: Sat UTC\n"
    )
    rows = await client.rows("notify", "preview", "9f86")
    assert [row["subject"] for row in rows] == ["FAILED", None]
    assert (await client.type("notify", "preview", "9f8")).code == 1
    client.alerting.previews = ()
    none = await client.type("notify", "preview", "9f86")
    assert (none.code, none.out, "no channel is configured" in none.err) == (0, "", True)


async def test_a_mail_is_previewed_without_its_markup(client: DaemonClientScenario) -> None:
    """People see the lines of a mail, with names as they are; JSON has the mail as it is."""
    client.alerting.show(client.alerting.alert("9f86"))
    html = (
        "<html><head><style>p { color: red; }</style></head><body><h1>FAILED: a &lt;b&gt;</h1>"
        "<p>no such\nfile \x1b[2J</p><table><tr><th>Since</th><td>07:10</td></tr></table>"
        '<a href="http://m/r">Run</a><span class="url">: http://m/r<br></span></body></html>'
    )
    client.alerting.previews = (
        MessagePreview(channel="team", form="message.html", subject="FAILED", text=html),
    )
    done = await client.type("notify", "preview", "9f86")
    assert done.out == (
        "team: FAILED\n  FAILED: a <b>\n  no such\n  file \\x1b[2J\n  Since: 07:10\n"
        "  Run: http://m/r\n"
    )
    assert [row["text"] for row in await client.rows("notify", "preview", "9f86")] == [html]
