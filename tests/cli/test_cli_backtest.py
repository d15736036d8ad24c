"""``alerts backtest``: other rules on what a daemon has recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.bus.contract import Change
from monitor.model.alerts import Alert, AlertState, Severity, alert_event_id
from monitor.model.events import AlertEvent, EventType, RunEvent, run_event_id
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from monitor.model.triggers import HourlyTrigger
from monitor.web.settings import ServerSettings
from tests.cli.command_process import CommandProcess, CommandResult
from tests.web.serving import serving
from tests.web.site import Site

BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
SINCE = ("--since", "2026-11-19T00:00:00Z")
ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
MONTH_END = Pipeline(kind=PipelineKind.PLAN, id="5", name="month end")
LAG = timedelta(seconds=3)  # from happening to recording


@dataclass
class Past:
    """A server with recorded events, and the command that backtests rules on them."""

    site: Site
    folder: Path
    run_command: CommandProcess

    async def run(
        self,
        number: int,
        *,
        at: timedelta,
        lasts: timedelta,
        ends: Status,
        lag: timedelta = LAG,
        trigger: Trigger = Trigger.MANUAL,
        kind: RunKind = RunKind.JOB_GROUP,
        pipeline: Pipeline | None = None,
    ) -> None:
        """Record a run: its start and its end."""
        started = BEGIN + at
        run = RunState(
            key=RunKey("acme", kind, str(number)),
            status=Status.RUNNING,
            created_at=started,
            started_at=started,
            pipeline=pipeline or ORDERS,
            trigger=trigger,
            confirmed_at=started + lag,
            confirmed_by=Source.POLL,
        )
        ended = RunState(
            **{
                **{name: getattr(run, name) for name in run.__struct_fields__},
                "status": ends,
                "finished_at": started + lasts,
                "confirmed_at": started + lasts + lag,
            }
        )
        kinds = {Status.FAILED: EventType.RUN_FAILED, Status.SUCCEEDED: EventType.RUN_SUCCEEDED}
        for state, event_type in ((run, EventType.RUN_STARTED), (ended, kinds[ends])):
            event = RunEvent(
                id=run_event_id(run.key, event_type),
                type=event_type,
                run=state,
                before=None,
                occurred_at=state.confirmed_at - lag,
                recorded_at=state.confirmed_at,
                observed_by=Source.POLL,
            )
            await self.site.bus.commit(Change(events=(event,)), timeout_seconds=5)
        # The workspace goes on to answer, and nothing more happens.
        known_at = ended.confirmed_at + timedelta(hours=1)
        self.site.live_state.update_workspace("acme", known_at=known_at)

    async def fired(
        self,
        name: str,
        *,
        at: timedelta,
        key: str = "9f86d081884c7d65",
        transition: EventType = EventType.ALERT_FIRED,
    ) -> None:
        """Record an alert that fired, or another transition of it."""
        alert = Alert(
            fingerprint=key,
            name=name,
            rule="run_failed",
            severity=Severity.CRITICAL,
            state=AlertState.FIRING,
            labels={"pipeline": "orders"},
            templates={},
            starts_at=BEGIN + at,
            workspace="acme",
        )
        event = AlertEvent(
            id=alert_event_id(key, alert.starts_at, transition.removeprefix("alert.")),
            type=transition,
            alert=alert,
            occurred_at=alert.starts_at,
            recorded_at=alert.starts_at + LAG,
        )
        await self.site.bus.commit(Change(events=(event,)), timeout_seconds=5)

    async def test(self, *rules: str, arguments: Sequence[str] = SINCE) -> CommandResult:
        """Run the backtest with these rules."""
        config = self.folder / "new.toml"
        config.write_text(
            '[[workspaces]]\nname = "acme"\nurl = "http://127.0.0.1:9"\ntoken_file = "token"\n'
            f'[server]\nlisten = "{self.site.url.removeprefix("http://")}"\n'
            + "\n".join(["[alerting]", "defaults = false", *rules])
        )
        return await self.run_command("alerts", "backtest", *arguments, config=config)

    async def rows(self, *rules: str) -> dict[str, Any]:
        done = await self.test(*rules, arguments=(*SINCE, "--json"))
        assert done.code == 0, done.err
        return {load["rule"]: load for load in json.loads(done.out)}


@pytest.fixture
async def past(tmp_path: Path, run_command: CommandProcess) -> AsyncIterator[Past]:
    (tmp_path / "token").write_text("a token")
    async with serving(tmp_path, ServerSettings(listen="127.0.0.1:0")) as site:
        yield Past(site, tmp_path, run_command)


FAILED = '[[alerts]]\nrule = "run_failed"'
MINUTE = timedelta(minutes=1)


async def test_replayed_alerts_stand_beside_recorded_ones(past: Past) -> None:
    """One failure fired on both sides, one only with the new rules, one alert only before."""
    for number, hour in enumerate((1, 5)):
        at = timedelta(hours=hour)
        await past.run(2 * number, at=at, lasts=MINUTE, ends=Status.FAILED)
        await past.run(2 * number + 1, at=at + 9 * MINUTE, lasts=MINUTE, ends=Status.SUCCEEDED)
    rows = await past.rows(FAILED)
    (row,) = rows.values()
    first, second = row["only_new"]
    assert (row["would_fire"], row["did_fire"], row["only_old"]) == (2, 0, [])
    assert first["starts_at"] == "2026-11-20T11:01:00Z"
    await past.fired("run_failed", at=timedelta(hours=1, minutes=1), key=first["fingerprint"])
    await past.fired("gone", at=timedelta(hours=2))
    rows = await past.rows(FAILED)
    assert [firing["starts_at"] for firing in rows["run_failed"]["only_new"]] == [
        second["starts_at"]
    ]
    assert (rows["run_failed"]["would_fire"], rows["run_failed"]["did_fire"]) == (2, 1)
    assert (rows["gone"]["would_fire"], len(rows["gone"]["only_old"])) == (0, 1)


async def test_the_table_names_each_difference(past: Past) -> None:
    """People get a line for each rule, and one for each start that only one side has."""
    await past.run(1, at=MINUTE, lasts=MINUTE, ends=Status.FAILED)
    done = await past.test(FAILED, '[[alerts]]\nrule = "run_stuck"')
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0][:3] == ["rule", "would", "fire"]
    assert lines[0][3:] == ["did", "fire", "only", "new", "only", "old", "undecided"]
    assert lines[1] == ["run_failed", "1", "0", "1", "0", "0"]
    assert lines[2] == ["run_stuck", "not", "recorded", "0", "-", "-", "-"]
    assert lines[5][:4] == ["new", "2026-11-20T10:02:00+00:00", "run_failed", "acme"]


async def test_an_undecided_alert_says_why(past: Past) -> None:
    """It is neither only new nor only old, for people and for programs."""
    await past.run(1, at=MINUTE, lasts=MINUTE, ends=Status.FAILED)
    (firing,) = (await past.rows(FAILED))["run_failed"]["only_new"]
    silenced = EventType.ALERT_SILENCED
    key = firing["fingerprint"]
    await past.fired("run_failed", at=2 * MINUTE, key=key, transition=silenced)
    row = (await past.rows(FAILED))["run_failed"]
    why = "a silence held it back, and silences are not replayed"
    assert (row["only_new"], row["only_old"]) == ([], [])
    assert row["undecided"] == [{"firing": firing, "side": "new", "why": why}]
    _, counts, _, head, line = (await past.test(FAILED)).out.splitlines()
    assert counts.split() == ["run_failed", "1", "0", "0", "0", "1"]
    assert head.split() == [
        "undecided",
        "since",
        "rule",
        "workspace",
        "pipeline",
        "not",
        "recorded",
    ]
    assert line.startswith("new        2026-11-20T10:02:00+00:00  run_failed  acme")
    assert line.endswith(why)


async def test_the_parts_of_plan_runs_are_read_from_the_daemon(past: Past) -> None:
    """A part that no event links to its plan run is linked in the replay: one alert, not two."""
    past.site.live_state.update_workspace(
        "acme", capabilities=frozenset({"follow_flow_runs", "list_plan_runs"})
    )
    failed, flow_run, plan = Status.FAILED, RunKind.FLOW_RUN, Trigger.PLAN
    await past.run(7, at=2 * MINUTE, lasts=MINUTE, ends=failed, kind=flow_run, trigger=plan)
    plan_run = RunKind.PLAN_RUN
    await past.run(5, at=MINUTE, lasts=3 * MINUTE, ends=failed, kind=plan_run, pipeline=MONTH_END)
    await past.run(1, at=20 * MINUTE, lasts=MINUTE, ends=Status.SUCCEEDED)
    assert (await past.rows(FAILED))["run_failed"]["would_fire"] == 2
    part = RunState(
        key=RunKey("acme", flow_run, "7"),
        status=failed,
        parents=Parents(plan_run="5"),
        confirmed_at=BEGIN,
        confirmed_by=Source.POLL,
    )
    whole = msgspec.structs.replace(
        part, key=RunKey("acme", plan_run, "5"), parents=Parents(), pipeline=MONTH_END
    )
    await past.site.bus.commit(Change(runs=(part, whole)), timeout_seconds=5)
    assert (await past.rows(FAILED))["run_failed"]["would_fire"] == 1


async def test_time_passes_between_events(past: Past) -> None:
    """A run is overdue when its limit is over, not at the next event."""
    await past.run(1, at=MINUTE, lasts=60 * MINUTE, ends=Status.SUCCEEDED)
    await past.run(2, at=70 * MINUTE, lasts=5 * MINUTE, ends=Status.SUCCEEDED)
    rule = '[[alerts]]\nrule = "run_overdue"\nthreshold = 1200'
    row = (await past.rows(rule))["run_overdue"]
    assert [firing["starts_at"] for firing in row["only_new"]] == ["2026-11-20T10:21:00Z"]


async def test_an_outage_of_the_daemon_makes_nothing_overdue(past: Past) -> None:
    """A run observed an hour late is evaluated from then on, not before."""
    late = timedelta(hours=1)
    await past.run(1, at=MINUTE, lasts=5 * MINUTE, ends=Status.SUCCEEDED)
    # Begun in time, ended within the outage: its end was recorded an hour late.
    await past.run(2, at=20 * MINUTE, lasts=5 * MINUTE, ends=Status.SUCCEEDED, lag=late)
    await past.run(3, at=120 * MINUTE, lasts=5 * MINUTE, ends=Status.SUCCEEDED)
    rule = '[[alerts]]\nrule = "run_overdue"\nthreshold = 1200'
    assert (await past.rows(rule))["run_overdue"]["would_fire"] == 0


async def test_a_rule_with_for_seconds_is_tested(past: Past) -> None:
    """An alert that ends while it is pending would not have fired."""
    await past.run(1, at=MINUTE, lasts=MINUTE, ends=Status.FAILED)
    await past.run(2, at=3 * MINUTE, lasts=MINUTE, ends=Status.SUCCEEDED)
    await past.run(3, at=60 * MINUTE, lasts=MINUTE, ends=Status.FAILED)
    row = (await past.rows(f"{FAILED}\nfor_seconds = 600"))["run_failed"]
    assert [firing["starts_at"] for firing in row["only_new"]] == ["2026-11-20T11:01:00Z"]


async def test_schedules_are_used_as_they_are_today(past: Past) -> None:
    """A start that did not come is missed, and those that came are not."""
    schedule = ScheduleKnown(
        id="3",
        name="hourly",
        is_enabled=True,
        triggers=(HourlyTrigger(minute_of_hour=30),),
        pipelines=(ORDERS,),
    )
    past.site.live_state.update_workspace("acme", schedules=(schedule,), followed_since=BEGIN)
    for number, hour in enumerate((0, 1, 2, 4, 5)):
        at = timedelta(hours=hour, minutes=30, seconds=2)
        await past.run(number, at=at, lasts=MINUTE, ends=Status.SUCCEEDED, trigger=Trigger.SCHEDULE)
    row = (await past.rows('[[alerts]]\nrule = "schedule_missed"'))["schedule_missed"]
    assert [firing["starts_at"] for firing in row["only_new"]] == ["2026-11-20T13:30:00Z"]


async def test_limits_of_the_replay_are_reported(past: Past) -> None:
    """A log that begins later than `--since`, and limits that must be learned first, are named."""
    await past.run(1, at=MINUTE, lasts=MINUTE, ends=Status.SUCCEEDED)
    begins = "the log begins at 2026-11-20T10:01:03Z: nothing before is evaluated\n"
    assert (await past.test(FAILED)).err == begins
    done = await past.test('[[alerts]]\nrule = "not_fresh"')
    assert done.err.startswith(f"{begins}not_fresh: limits are learned again from the first of")
    later = ("--since", "2026-11-20T10:02:00Z")
    done = await past.test('[[alerts]]\nrule = "not_fresh"\nthreshold = 60', arguments=later)
    assert (done.code, done.err) == (0, "")


async def test_nothing_is_evaluated_after_the_last_read_of_the_workspace(past: Past) -> None:
    """Starts that are due after the log was read are not missed, and runs not overdue."""
    schedule = ScheduleKnown(
        id="3",
        name="hourly",
        is_enabled=True,
        triggers=(HourlyTrigger(minute_of_hour=30),),
        pipelines=(ORDERS,),
    )
    past.site.live_state.update_workspace("acme", schedules=(schedule,), followed_since=BEGIN)
    at = timedelta(minutes=30, seconds=2)
    await past.run(1, at=at, lasts=MINUTE, ends=Status.SUCCEEDED, trigger=Trigger.SCHEDULE)
    rule = '[[alerts]]\nrule = "schedule_missed"'
    for minutes, missed in ((99, 0), (101, 1)):
        known_at = BEGIN + minutes * MINUTE
        past.site.live_state.update_workspace("acme", known_at=known_at)
        assert (await past.rows(rule))["schedule_missed"]["would_fire"] == missed


async def test_an_empty_log_is_reported(past: Past) -> None:
    """An empty log is no proof that rules would not fire."""
    done = await past.test(FAILED)
    assert (done.code, done.out) == (1, "")
    assert "has recorded no events since then" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("--since", "thirty"), 2, "--since: 'thirty' is not an ISO 8601 instant"),
        (("--since", "2026-11-20T10:00:00"), 2, "names no time zone"),
        (("--since", "30d", "--daemon", "/nowhere.toml"), 2, "there is no such file"),
    ],
)
async def test_wrong_options_are_refused(
    past: Past, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    """No instant and no configuration of the daemon: one line on stderr."""
    done = await past.test(FAILED, arguments=arguments)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err


async def test_the_new_file_need_not_name_the_daemon(past: Past) -> None:
    """Another file gives the daemon's address; secrets of the new one are not read."""
    await past.run(1, at=MINUTE, lasts=MINUTE, ends=Status.FAILED)
    await past.test(FAILED)
    running = past.folder / "running.toml"
    (past.folder / "new.toml").rename(running)
    new = past.folder / "elsewhere.toml"
    new.write_text(
        '[[workspaces]]\nname = "acme"\nurl = "http://127.0.0.1:9"\ntoken_file = "nowhere"\n'
        '[webhook]\nurl = "https://example.com/"\nsecret_file = "nowhere"\n'
    )
    done = await past.run_command(
        "alerts", "backtest", *SINCE, "--daemon", str(running), config=new
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split() == ["run_failed", "1", "0", "1", "0", "0"]


async def test_wrong_rules_are_reported_as_check_does(past: Past) -> None:
    """The new file is validated first, and all its problems are reported."""
    done = await past.test('[[alerts]]\nrule = "run_faild"')
    assert (done.code, done.out) == (2, "")
    assert "run_failed" in done.err
