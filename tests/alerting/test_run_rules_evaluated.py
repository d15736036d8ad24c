"""Rules about runs in the engine: over restarts, in outages, and beside each other."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.model.alert_texts import texts_of
from monitor.model.alerts import fingerprint
from monitor.model.events import EventType
from monitor.model.runs import JobDetails, Parents, RunKind, RunState, Status
from tests.alerting.engine_fixture import engine_fixture
from tests.alerting.run_samples import at, key, state, subject

STUCK, QUEUE, FAILED = RuleKind.RUN_STUCK, RuleKind.QUEUE_SLOW, RuleKind.RUN_FAILED


def working(number: int, *, read: float, beat: float, parents: Parents | None = None) -> RunState:
    """Return a job group at work whose records were read then, with a heartbeat of then."""
    seen = JobDetails(percent_complete=40.0, heartbeat_at=at(beat), read_at=at(read))
    return state(number, Status.RUNNING, created_at=at(0), jobs=seen, parents=parents)


async def test_a_late_error_is_shown_and_not_published_again(tmp_path: Path) -> None:
    """The error that job records show after the alert fired is on the page, in one alert."""
    failed = state(1, Status.FAILED, finished_at=at(10))
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await fixture.emit(failed)
        assert [item.facts["error"] for item in fixture.firing()] == [None]
        detailed = msgspec.structs.replace(failed, error="no such table", detailed=True)
        await fixture.emit(detailed, EventType.RUN_DETAILED)
        (alert,) = fixture.firing()
        assert alert.facts["error"] == "no such table"
        assert "no such table" in texts_of(alert, alert.starts_at)["description"]
        assert await fixture.told() == ["run_failed fired"]


async def test_a_stuck_run_fires_once_over_a_restart(tmp_path: Path) -> None:
    """The next life knows it by the store: it publishes nothing again, and then the end."""
    async with engine_fixture(tmp_path, STUCK) as fixture:
        await fixture.evaluate(60, working(1, read=60, beat=50))
        assert len(await fixture.evaluate(1_000, working(1, read=1_000, beat=50))) == 1
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert len(await fixture.look_again()) == 1
        unread = msgspec.structs.replace(working(1, read=0, beat=0), jobs=None)
        assert len(await fixture.evaluate(1_100, unread)) == 1
        assert len(await fixture.evaluate(1_200, working(1, read=1_200, beat=50))) == 1
        assert await fixture.evaluate(1_300, working(1, read=1_300, beat=1_290)) == []
        assert await fixture.told() == ["run_stuck fired", "run_stuck resolved"]


async def test_an_outage_and_its_end_publish_nothing(tmp_path: Path) -> None:
    """Nothing is observed for an hour, in which the runs start and end as they should."""
    waiting = state(1, Status.PENDING, created_at=at(0))
    async with engine_fixture(tmp_path, STUCK, QUEUE) as fixture:
        await fixture.evaluate(60, waiting, working(2, read=60, beat=50))
        for _ in range(5):
            await fixture.clock.advance(720)
            assert await fixture.look_again() == []
        started = msgspec.structs.replace(waiting, status=Status.RUNNING)
        await fixture.emit(started)
        await fixture.emit(state(2, Status.SUCCEEDED, finished_at=at(900)))
        assert await fixture.evaluate(3_700, started) == []
        assert await fixture.told() == []


async def test_a_job_group_that_waits_fires_for_its_flow_run(tmp_path: Path) -> None:
    """One alert about the flow run, with the job group in its facts; over when that starts."""
    parents = Parents(flow_run="9")
    inner = state(1, Status.PENDING, created_at=at(0), parents=parents)
    outer = state(9, Status.RUNNING, kind=RunKind.FLOW_RUN, created_at=at(0))
    async with engine_fixture(tmp_path, QUEUE) as fixture:
        (alert,) = await fixture.evaluate(700, inner, outer)
        assert (alert.kind, alert.run) == (RunKind.FLOW_RUN, key(9, RunKind.FLOW_RUN))
        assert alert.facts["run"] == "1"
        await fixture.emit(msgspec.structs.replace(inner, status=Status.RUNNING))
        assert fixture.firing() == []
        assert await fixture.told() == ["queue_slow fired", "queue_slow resolved"]


async def test_a_rule_that_names_a_kind_is_about_those_runs(tmp_path: Path) -> None:
    """It fires for the job group itself, beside the alert of the flow run that contains it."""
    of_groups = msgspec.structs.replace(
        default_rule(QUEUE), name="slow-groups", match=Match(kind=("job_group",))
    )
    parents = Parents(flow_run="9")
    inner = state(1, Status.PENDING, created_at=at(0), parents=parents)
    outer = state(9, Status.RUNNING, kind=RunKind.FLOW_RUN, created_at=at(0))
    async with engine_fixture(tmp_path, QUEUE, of_groups) as fixture:
        alerts = await fixture.evaluate(700, inner, outer)
        assert {(alert.name, alert.kind, alert.run) for alert in alerts} == {
            ("queue_slow", RunKind.FLOW_RUN, key(9, RunKind.FLOW_RUN)),
            ("slow-groups", RunKind.JOB_GROUP, key(1)),
        }
        await fixture.emit(msgspec.structs.replace(inner, status=Status.RUNNING))
        assert sorted(await fixture.told()) == [
            "queue_slow fired",
            "queue_slow resolved",
            "slow-groups fired",
            "slow-groups resolved",
        ]


async def test_a_parent_that_is_known_late_leaves_no_alert_open(tmp_path: Path) -> None:
    """A silent job group turns out to be a part of a flow run: its own alert ends."""
    alone = working(1, read=1_000, beat=50)
    inside = working(1, read=1_100, beat=50, parents=Parents(flow_run="9"))
    outer = state(9, Status.RUNNING, kind=RunKind.FLOW_RUN, created_at=at(0))
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert [item.kind for item in await fixture.evaluate(1_000, alone)] == [RunKind.JOB_GROUP]
        assert [item.kind for item in await fixture.evaluate(1_100, inside, outer)] == [
            RunKind.FLOW_RUN
        ]
        await fixture.emit(state(1, Status.CANCELED, finished_at=at(1_200), parents=inside.parents))
        assert await fixture.evaluate(1_210, outer) == []


async def test_lateness_at_the_first_evaluation_is_preexisting(tmp_path: Path) -> None:
    """A daemon that starts with a stuck queue fires once, as preexisting."""
    async with engine_fixture(tmp_path, QUEUE) as fixture:
        (alert,) = await fixture.evaluate(9_000, state(1, Status.PENDING, created_at=at(0)))
        assert alert.preexisting
        assert alert.starts_at == at(600)
    async with engine_fixture(tmp_path, QUEUE) as fixture:
        await fixture.evaluate(9_100, state(1, Status.PENDING, created_at=at(0)))
        assert await fixture.told() == ["queue_slow fired"]


async def test_a_jump_of_our_clock_makes_nothing_late(tmp_path: Path) -> None:
    """Runs are evaluated by the workspace's clock: ours may jump by a day and back."""
    async with engine_fixture(tmp_path, QUEUE, STUCK) as fixture:
        for days in (1, -1, 0):
            fixture.clock.set_wall(at(days * 86_400.0))
            run = state(1, Status.PENDING, created_at=at(0))
            assert await fixture.evaluate(100, run, working(2, read=100, beat=90)) == []
        assert await fixture.told() == []


async def test_an_unchanged_run_is_evaluated_when_it_is_due(tmp_path: Path) -> None:
    """Cycles pass over a run that is as it was, and come to it when it would be late."""
    waiting = state(1, Status.PENDING, created_at=at(0))
    fp = fingerprint("queue_slow", subject().identity())
    async with engine_fixture(tmp_path, QUEUE) as fixture:
        looked_at = set()
        for seconds in range(0, 700, 50):
            assert bool(await fixture.evaluate(seconds, waiting)) == (seconds >= 600)
            last = fixture.engine.history.last_of_state(fp)
            assert last is not None
            looked_at.add(round((last.at - at(0)).total_seconds()))
            await fixture.clock.advance(50)
        assert looked_at == {0, 600, 650}
