"""The rules beside a pipeline: which apply, and from when on they fire, in words."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.alerting.explain.applied_rules import applied_rules, starts_days_off, threshold_words
from monitor.alerting.rules.baselines import Baseline, Learned, with_value
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.runs import Pipeline, PipelineKind, Status
from tests.alerting.engine_scenario import WORKSPACE, engine_scenario

ORDERS = Pipeline(kind=PipelineKind.FLOW, id="1", name="flow 1")


def rule(kind: RuleKind, **changes: object) -> RuleSettings:
    return msgspec.structs.replace(default_rule(kind), **changes)


def learned(count: int, seconds: float) -> Learned:
    """Return what so many runs of equal length teach."""
    baseline: Baseline | None = None
    for _ in range(count):
        baseline = with_value(baseline, seconds)
    return Learned(durations=baseline, gaps=baseline)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (rule(RuleKind.RUN_FAILED), "each failure, until the next success"),
        (rule(RuleKind.RUN_OVERDUE), "longer than 3 h 10 min (learned from 24 runs)"),
        (rule(RuleKind.RUN_OVERDUE, threshold=90.0), "longer than 1 min 30 s"),
        (
            rule(RuleKind.RUN_OVERDUE, minimum=30),
            "longer than usual; not learned yet, from 24 of 30 runs so far",
        ),
        (rule(RuleKind.FAILING_REPEATEDLY), "3 failures in a row"),
        (
            rule(RuleKind.FAILING_REPEATEDLY, threshold=0.25),
            "more than 25 % of the last runs failed, at least 4",
        ),
        (
            rule(
                RuleKind.DEADLINE_MISSED,
                deadline="07:00",
                deadline_timezone="Europe/Berlin",
                deadline_days="Mon-Fri",
                holidays="DE-BE",
            ),
            "no success by 07:00 Europe/Berlin on Mon-Fri, not on holidays of DE-BE",
        ),
        (
            rule(RuleKind.DEADLINE_AT_RISK, deadline="07:00"),
            "less time left before 07:00 UTC than 1 h 35 min",
        ),
        (rule(RuleKind.SCHEDULE_MISSED), "no start 10 min after the expected time"),
        (
            rule(RuleKind.SCHEDULE_MISSED, holidays="DE-BY", holiday_dates=("2026-12-24",)),
            (
                "no start 10 min after the expected time, not on holidays of DE-BY and days of "
                "its own"
            ),
        ),
        (rule(RuleKind.QUEUE_SLOW), "waits longer than 10 min for its start"),
        (
            rule(RuleKind.QUALITY_DROPPED),
            "10 % fewer valid values than usual, learned from 5 profiles or more",
        ),
        (
            rule(RuleKind.CANCELED, for_seconds=300.0, match=Match(trigger=("!manual",))),
            "each canceled run, once that has lasted 5 min; only runs whose trigger is not manual",
        ),
    ],
)
def test_a_threshold_is_said_with_its_unit(settings: RuleSettings, words: str) -> None:
    """As people compare a run with it; learned ones say of how many runs they come."""
    assert threshold_words(settings, learned(24, 5_700)) == words


@pytest.mark.parametrize("kind", RuleKind)
def test_every_kind_of_rule_has_words(kind: RuleKind) -> None:
    """Nothing is left to be filled in, nor shown as code."""
    words = threshold_words(default_rule(kind), None)

    assert words
    assert not set("{}_") & set(words)


async def test_rules_that_do_not_match_say_what_does_not_fit(tmp_path: Path) -> None:
    """Each rule about runs, pipelines, schedules and outputs, by its ``match``."""
    rules = (
        rule(RuleKind.RUN_FAILED),
        rule(RuleKind.CANCELED, match=Match(pipeline=("daily*",))),
        rule(RuleKind.RUN_LOST, match=Match(workspace=(WORKSPACE,))),
        rule(RuleKind.SCHEDULE_DISABLED),
        rule(RuleKind.TOKEN_EXPIRING),
    )
    async with engine_scenario(tmp_path, AlertingSettings(rules=rules)) as scenario:
        found = applied_rules(scenario.engine, scenario.live_state.view, WORKSPACE, ORDERS)
    by_name = {applied.name: applied for applied in found}

    assert by_name["run_failed"].applies
    assert by_name["run_lost"].applies
    assert by_name["canceled"].why_not == "pipeline: 'flow 1' and '1' fits none of 'daily*'"
    assert by_name["schedule_disabled"].why_not == "no schedule of it is visible to the token"
    assert "token_expiring" not in by_name
    assert all(applied.applies is (applied.why_not is None) for applied in found)


async def test_a_learned_limit_is_that_of_the_pipeline(tmp_path: Path) -> None:
    """As many runs as have succeeded of this pipeline, and none of another one."""
    async with engine_scenario(tmp_path) as scenario:
        for _ in range(3):
            await scenario.end_run(1, Status.SUCCEEDED)
            await scenario.round()
        found = applied_rules(scenario.engine, scenario.live_state.view, WORKSPACE, ORDERS)

    (overdue,) = [applied for applied in found if applied.rule == "run_overdue"]
    assert overdue.threshold == "longer than usual; not learned yet, from 3 of 10 runs so far"


async def test_days_off_are_those_of_the_rules_about_its_schedules(tmp_path: Path) -> None:
    """One for each rule that matches; a rule with times of its own says nothing of schedules."""
    missed = RuleKind.SCHEDULE_MISSED
    other = Match(pipeline=("other",))
    settings = AlertingSettings(
        rules=(
            rule(missed, holidays="DE-BY"),
            rule(missed, name="own", expect="0 0 6 * * ?", match=Match(pipeline=("flow 1",))),
            rule(missed, name="other", holidays="FR", match=other),
            rule(missed, name="always"),
            rule(RuleKind.DEADLINE_MISSED, name="late", deadline="07:00", holidays="AT"),
        )
    )
    async with engine_scenario(tmp_path, settings) as history:
        found = starts_days_off(history.engine, history.live_state.view, WORKSPACE, ORDERS)
    assert [days_off.region for days_off in found] == ["DE-BY", None]
