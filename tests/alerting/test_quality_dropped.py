"""The rule about what the data is like: usual is what an output's own profiles were like."""

from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.contract import OutputFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.inventory import OutputQuality, ValueCounts
from monitor.model.runs import Pipeline, PipelineKind
from tests.alerting.rule_evaluation import EvaluatedRule, at

DAY = 86_400.0


def profile(run: int, valid: float) -> OutputFacts:
    """Return an output whose run ``run`` made so many valid ones of 1,000 values."""
    return OutputFacts(
        quality=OutputQuality(
            pipeline=Pipeline(kind=PipelineKind.FLOW, id="3", name="Daily"),
            id="31",
            name="orders",
            run_id=str(run),
            counts=ValueCounts(valid=round(1_000 * valid), missing=1_000 - round(1_000 * valid)),
        )
    )


def quality_rule() -> EvaluatedRule:
    return EvaluatedRule(RuleKind.QUALITY_DROPPED, thing="31")


def usual(rule: EvaluatedRule, *, runs: int = 5, valid: float = 0.9) -> None:
    """Let an output be as usual for some runs, one an hour."""
    for run in range(runs):
        assert rule.evaluate(profile(run, valid), 3_600 * run) == "ok"


def test_a_drop_fires_once_and_ends_with_a_good_profile() -> None:
    """It fires from the profile that fell on, and resolves with the first that is as usual."""
    rule = quality_rule()
    usual(rule)
    fell = 5 * 3_600.0
    assert rule.evaluate(profile(5, 0.85), fell) == "ok"
    assert rule.evaluate(profile(6, 0.7), fell + 10) == "firing"
    assert rule.evaluate(profile(6, 0.7), fell + 20) == "firing"
    assert rule.evaluate(profile(7, 0.6), fell + 30) == "firing"
    assert rule.firing.since == at(fell + 10)
    assert rule.firing.facts == {"output": "orders", "valid_ratio": 0.6, "usual_ratio": 0.9}
    assert rule.firing.evidence == ("marketing:job_group:7:succeeded",)
    assert rule.evaluate(profile(8, 0.88), fell + 40) == "ok"


def test_few_profiles_decide_nothing() -> None:
    """After four runs it is unknown what is usual."""
    rule = quality_rule()
    usual(rule, runs=4)
    assert rule.evaluate(profile(9, 0.1), 20_000) == "ok"


def test_one_profile_counts_once() -> None:
    """However often it is seen, one profile is one of those that usual is learned from."""
    rule = quality_rule()
    for _ in range(10):
        assert rule.evaluate(profile(1, 0.9), 0) == "ok"
    assert rule.evaluate(profile(2, 0.1), 60) == "ok"


def test_a_run_without_values_decides_nothing() -> None:
    """Of no values at all no part is valid, which is no drop."""
    rule = quality_rule()
    empty = OutputFacts(
        quality=OutputQuality(
            pipeline=Pipeline(kind=PipelineKind.FLOW, id="3", name=None),
            id="31",
            name=None,
            run_id="1",
            counts=ValueCounts(),
        )
    )
    assert rule.evaluate(empty, 0) == "none"


def test_a_quality_that_stays_low_becomes_usual() -> None:
    """After twenty profiles at another level that level is what is usual."""
    rule = quality_rule()
    usual(rule)
    words = [rule.evaluate(profile(10 + run, 0.5), 20_000 + run) for run in range(25)]
    assert words == ["firing"] * 19 + ["ok"] * 6
    assert rule.evaluate(profile(90, 0.3), 30_000) == "firing"


def test_an_output_that_is_not_known_now_stays_as_it_was() -> None:
    """A restart decides nothing; an output that stays away for a week is no more."""
    rule = quality_rule()
    usual(rule)
    assert rule.evaluate(profile(6, 0.5), 20_000) == "firing"
    gone = OutputFacts(quality=None)
    assert rule.evaluate(gone, 20_010) == "unknown"
    assert rule.evaluate(profile(6, 0.5), 20_020) == "firing"
    assert rule.firing.since == at(20_000)
    assert rule.evaluate(gone, 20_030) == "unknown"
    assert rule.again_at == at(20_030 + 7 * DAY)
    assert rule.evaluate(gone, 20_030 + 7 * DAY) == "ok"
    assert rule.memory_bytes == b""


@given(st.lists(st.floats(0, 1), max_size=80))
def test_it_agrees_with_the_median_of_all_that_was_usual(ratios: list[float]) -> None:
    """Every result is that of a plain list of the usual ones, and its memory stays small."""
    rule = quality_rule()
    held: list[float] = []
    low: list[float] = []
    for run, wanted in enumerate(ratios):
        ratio = round(1_000 * wanted) / 1_000
        is_low = len(held) >= 5 and ratio < median(held[-20:]) - 0.1
        if is_low:
            low.append(ratio)
            if len(low) == 20:
                held, low, is_low = low, [], False
        else:
            held, low = [*held, ratio], []
        assert rule.evaluate(profile(run, wanted), run) == ("firing" if is_low else "ok")
    assert len(rule.memory_bytes) < 1_500
