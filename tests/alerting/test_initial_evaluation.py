"""Failures before a rule's first evaluation fire once, as preexisting."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.alerts.pending_step import FIRST, RULE, FirstEvaluated
from monitor.alerting.engine.committed_state import CONSUMER
from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Start, Step
from monitor.model.alerts import Alert
from monitor.model.events import AlertEvent, EventType, run_event_id
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from tests.alerting.earlier_failures import had_ended, stand
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.run_samples import at, key, state

FAILED, FLOW_RUN, PLAN_RUN = RuleKind.RUN_FAILED, RunKind.FLOW_RUN, RunKind.PLAN_RUN
OK, BAD = Status.SUCCEEDED, Status.FAILED
FIRED, RESOLVED = "run_failed fired", "run_failed resolved"


class CountedRuns:
    """A store that counts how often it is asked for runs."""

    def __init__(self, fixture: Fixture) -> None:
        self.asked = 0
        self._runs = fixture.bus.runs
        fixture.bus.runs = self.runs  # type: ignore[method-assign]  # this one store's

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        self.asked += 1
        return await self._runs(keys)


def of_flow(run: RunState, flow: int, *, workspace: str = "acme") -> RunState:
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"flow {flow}")
    named = RunKey(workspace, run.key.kind, run.key.id)
    return msgspec.structs.replace(run, key=named, pipeline=pipeline)


def family(*, plan: Status = BAD, flow: Status = BAD) -> tuple[RunState, RunState, RunState]:
    """Return a failed job group inside a flow run inside a plan run, all of them over."""
    return (
        state(1, BAD, parents=Parents(flow_run="2", plan_run="3"), finished_at=at(0), error="boom"),
        state(2, flow, kind=FLOW_RUN, parents=Parents(plan_run="3"), finished_at=at(1)),
        state(3, plan, kind=PLAN_RUN, finished_at=at(2)),
    )


def only(alerts: list[Alert]) -> Alert:
    assert len(alerts) == 1
    return alerts[0]


async def events(fixture: Fixture) -> list[AlertEvent]:
    rows = await fixture.bus.events(after=0, limit=1_000)
    return [row.event for row in rows if isinstance(row.event, AlertEvent)]


async def test_an_earlier_failure_fires_once_from_the_stored_run(tmp_path: Path) -> None:
    """Start, error, run and mark are those of the run; no event is named that cannot be read."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD, error="no such table"))
        alert = only(await fixture.evaluate(60))
        for seconds in (120, 180):
            await fixture.evaluate(seconds)

        assert await fixture.told() == [FIRED]
        assert alert.preexisting
        assert (alert.starts_at, alert.run) == (at(0), key(1))
        assert (alert.facts["error"], alert.facts["run"]) == ("no such table", "1")
        assert (alert.evidence, alert.evidence_count) == ((), 0)
        assert (await events(fixture))[0].alert.preexisting


async def test_each_failed_pipeline_of_many_fires_and_no_other(tmp_path: Path) -> None:
    """Eight had failed last and eight had succeeded: eight alerts, from one question."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        runs = [of_flow(state(number, BAD if number % 2 else OK), number) for number in range(16)]
        await had_ended(fixture.bus, fixture.live_state, *runs)
        counted = CountedRuns(fixture)
        fired = await fixture.evaluate(60)
        assert counted.asked == 1
        assert {run.pipeline.id for run in fired if run.pipeline} == {
            str(i) for i in range(1, 16, 2)
        }
        await fixture.evaluate(120)

        assert counted.asked == 1
        assert await fixture.told() == [FIRED] * 8


async def test_the_next_success_ends_it_and_a_failure_is_its_evidence(tmp_path: Path) -> None:
    """It goes on as if the failure had been an event, and a later one begins another alert."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        await fixture.evaluate(60)
        await fixture.emit(state(2, BAD, finished_at=at(70)))
        alert = only(fixture.firing())
        assert alert.evidence == (run_event_id(key(2), EventType.RUN_FAILED),)
        await fixture.emit(state(3, OK, finished_at=at(80)))
        assert await fixture.told() == [FIRED, RESOLVED]
        await fixture.emit(state(4, BAD, finished_at=at(90)))

        assert await fixture.told() == [FIRED, RESOLVED, FIRED]
        assert not only(fixture.firing()).preexisting


async def test_each_recipe_that_had_failed_has_to_succeed(tmp_path: Path) -> None:
    """Two recipes of one flow are one alert, which the success of one of them does not end."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        runs = [state(1, BAD, recipe="a"), state(2, BAD, recipe="b", finished_at=at(5))]
        await had_ended(fixture.bus, fixture.live_state, *runs)
        assert only(await fixture.evaluate(60)).starts_at == at(0)
        await fixture.emit(state(3, OK, recipe="a", finished_at=at(70)))
        assert await fixture.told() == [FIRED]
        await fixture.emit(state(4, OK, recipe="b", finished_at=at(80)))

        assert await fixture.told() == [FIRED, RESOLVED]


async def test_a_failure_inside_fires_for_the_root_run(tmp_path: Path) -> None:
    """A job group in a flow run in a plan run, all failed: one alert, the plan's."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, *family())
        alert = only(await fixture.evaluate(60))
        assert (alert.kind, alert.run, alert.facts["error"]) == (PLAN_RUN, key(3, PLAN_RUN), "boom")
        await fixture.emit(state(9, OK, kind=PLAN_RUN, finished_at=at(90)))

        assert await fixture.told() == [FIRED, RESOLVED]


async def test_a_part_whose_plan_is_not_linked_yet_belongs_to_its_alert(tmp_path: Path) -> None:
    """The workspace says that a plan started it, and one plan run that failed fits in time."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        inner, _, outer = family()
        inner = msgspec.structs.replace(
            inner, parents=Parents(), ran_for="plan", created_at=at(-50), error="boom"
        )
        outer = msgspec.structs.replace(outer, created_at=at(-60))
        await had_ended(fixture.bus, fixture.live_state, inner, outer)
        alert = only(await fixture.evaluate(60))

        assert (alert.kind, alert.facts["error"]) == (PLAN_RUN, "boom")
        assert await fixture.told() == [FIRED]


async def test_the_plan_of_a_failed_part_has_succeeded_since(tmp_path: Path) -> None:
    """The plan has run again and succeeded without that flow: nothing fires."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        later = state(9, OK, kind=PLAN_RUN, finished_at=at(30))
        await had_ended(fixture.bus, fixture.live_state, *family())
        await had_ended(fixture.bus, fixture.live_state, later)
        await fixture.evaluate(60)

        assert await fixture.told() == []


async def test_a_rule_that_names_a_kind_is_about_its_own_runs(tmp_path: Path) -> None:
    """Also of a job group inside a plan run that has succeeded."""
    rule = msgspec.structs.replace(default_rule(FAILED), match=Match(kind=("job_group",)))
    async with engine_fixture(tmp_path, rule) as fixture:
        await had_ended(fixture.bus, fixture.live_state, *family(plan=OK, flow=OK))
        alert = only(await fixture.evaluate(60))

        assert (alert.kind, alert.run) == (RunKind.JOB_GROUP, key(1))


async def test_kinds_of_run_wait_for_each_other_with_a_limit(tmp_path: Path) -> None:
    """Job groups are known first; plan runs, which cannot be read, are waited for a minute."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        for kind in (RunKind.JOB_GROUP, FLOW_RUN):
            fixture.live_state.confirm("acme", kind, at(60), complete_at=at(60))
        for _ in range(2):
            assert await fixture.look_again() == []
            await fixture.clock.advance(25)
        await fixture.clock.advance(15)
        await fixture.look_again()

        assert await fixture.told() == [FIRED]


async def test_a_plan_that_is_known_late_has_no_alert_beside_its_part(tmp_path: Path) -> None:
    """Its flow run fired when waiting for plan runs took too long, and ends it as well."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        _, inner, outer = family()
        await had_ended(fixture.bus, fixture.live_state, inner)
        for kind in (RunKind.JOB_GROUP, FLOW_RUN):
            fixture.live_state.confirm("acme", kind, at(60), complete_at=at(60))
        await fixture.look_again()
        await fixture.clock.advance(61)
        assert only(await fixture.look_again()).run == inner.key
        await had_ended(fixture.bus, fixture.live_state, outer)
        await fixture.evaluate(120)
        assert await fixture.told() == [FIRED]
        await fixture.emit(state(9, OK, kind=FLOW_RUN, finished_at=at(130)))

        assert await fixture.told() == [FIRED, RESOLVED]


@pytest.mark.parametrize(
    ("match", "told"),
    [
        (Match(pipeline=("orders",)), [FIRED]),
        (Match(pipeline=("billing",)), []),
        (Match(owner=("ann@x",)), [FIRED]),
        (Match(trigger=("schedule",)), []),
        (Match(workspace=("other",)), []),
    ],
)
async def test_match_decides_as_for_any_failure(
    tmp_path: Path, match: Match, told: list[str]
) -> None:
    """Of the pipeline and of the run itself."""
    rule = msgspec.structs.replace(default_rule(FAILED), match=match)
    async with engine_fixture(tmp_path, rule) as fixture:
        run = msgspec.structs.replace(state(1, BAD), owner="ann@x")
        await had_ended(fixture.bus, fixture.live_state, run)
        await fixture.evaluate(60)

        assert await fixture.told() == told


async def test_for_seconds_and_severity_hold_as_for_any_failure(tmp_path: Path) -> None:
    """An old failure still waits for its time by our clock."""
    changed = msgspec.structs.replace(default_rule(FAILED), for_seconds=120.0)
    rule = msgspec.structs.replace(changed, severity=default_rule(RuleKind.CANCELED).severity)
    async with engine_fixture(tmp_path, rule) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        assert await fixture.evaluate(600) == []
        await fixture.clock.advance(121)
        alert = only(await fixture.evaluate(721))

        assert (alert.severity, alert.preexisting) == (rule.severity, True)
        assert await fixture.told() == [FIRED]


async def test_a_restart_and_a_reload_publish_nothing_again(tmp_path: Path) -> None:
    """Also after it was over, while what stands has not caught up."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        await fixture.evaluate(60)
        repeated = msgspec.structs.replace(default_rule(FAILED), repeat_seconds=9_999.0)
        await fixture.engine.reconfigure(AlertingSettings(rules=(repeated,)))
        await fixture.evaluate(70)
        await fixture.emit(state(2, OK, finished_at=at(80)))
    async with engine_fixture(tmp_path, FAILED) as fixture:
        stand(fixture.live_state, state(1, BAD))
        await fixture.evaluate(90)

        assert await fixture.told() == [FIRED, RESOLVED]


async def test_a_later_workspace_has_a_first_evaluation_of_its_own(tmp_path: Path) -> None:
    """Its earlier failures fire once they are known; those of the first workspace do not again."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        await fixture.evaluate(60)
        fixture.live_state.add_workspace("second")
        await had_ended(
            fixture.bus, fixture.live_state, of_flow(state(5, BAD), 5, workspace="second")
        )
        await fixture.evaluate(70)
        assert await fixture.told() == [FIRED]
        fixture.live_state.confirm("second", RunKind.JOB_GROUP, at(80), complete_at=at(80))
        await fixture.evaluate(90)

        told = [(event.alert.workspace, event.alert.preexisting) for event in await events(fixture)]
        assert told == [("acme", True), ("second", True)]


async def test_a_rule_that_comes_later_shows_what_stands_with_its_event(tmp_path: Path) -> None:
    """It fires for a failure before it, with its event; what it has handled does not fire again."""
    async with engine_fixture(tmp_path, RuleKind.CANCELED) as fixture:
        failed = state(1, BAD)
        stand(fixture.live_state, failed)
        await fixture.emit(failed)
        await fixture.evaluate(60)
        await fixture.engine.reconfigure(AlertingSettings(rules=(default_rule(FAILED),)))
        alert = only(await fixture.evaluate(70))
        await fixture.evaluate(80)

        assert alert.preexisting
        assert alert.evidence == (run_event_id(key(1), EventType.RUN_FAILED),)
        assert await fixture.told() == [FIRED]


async def test_an_event_before_the_first_evaluation_is_not_preexisting(
    tmp_path: Path,
) -> None:
    """A run fails between the start and the first complete evaluation."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        failed = state(1, BAD)
        stand(fixture.live_state, failed)
        await fixture.emit(failed)
        alert = only(await fixture.evaluate(60))

        assert not alert.preexisting
        assert await fixture.told() == [FIRED]


async def as_left_by_an_older_daemon(folder: Path, *judged: str) -> None:
    """Let the store hold what a daemon has left that did not consider the past."""
    rows: dict[str, bytes | None] = {
        f"{RULE}:run_failed": msgspec.json.encode({"rule": FAILED}),
    }
    for name in judged:
        first = FirstEvaluated(at=at(0) - timedelta(days=1))
        rows[f"{FIRST}:run_overdue:{name}:job_group"] = msgspec.json.encode(first)
    async with engine_fixture(folder) as fixture:
        position = await fixture.bus.subscribe(CONSUMER, start=Start.NEWEST)
        step = Step(consumer=CONSUMER, position=position, state=rows)
        await fixture.bus.advance(step, timeout_seconds=5)


@pytest.mark.parametrize(
    ("judged", "told"), [(("acme", "bridge"), []), ((), []), (("other", "bridge"), [FIRED])]
)
async def test_an_upgraded_daemon_publishes_nothing_again(
    tmp_path: Path, judged: tuple[str, ...], told: list[str]
) -> None:
    """A workspace that it never evaluated before has its first evaluation."""
    await as_left_by_an_older_daemon(tmp_path, *judged)
    rules = (FAILED, RuleKind.RUN_OVERDUE) if judged else (FAILED,)
    for _ in range(2):  # the life after the upgrade, and the one after that
        async with engine_fixture(tmp_path, *rules) as fixture:
            await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
            await fixture.evaluate(60)

            assert await fixture.told() == told


async def test_a_daemon_killed_before_its_first_evaluation_does_it_later(
    tmp_path: Path,
) -> None:
    """The rows that a start leaves in the store do not count as an evaluation."""
    async with engine_fixture(tmp_path, FAILED) as fixture:
        await had_ended(fixture.bus, fixture.live_state, state(1, BAD))
        await fixture.look_again()
    async with engine_fixture(tmp_path, FAILED) as fixture:
        stand(fixture.live_state, state(1, BAD))
        await fixture.evaluate(60)

        assert await fixture.told() == [FIRED]
