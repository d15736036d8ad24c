"""Silences: what may be one, what it holds back, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.alerts.silences import (
    LONGEST_WORDS,
    MOST_MATCHERS,
    SHOWN_LABELS,
    SilenceSettings,
    configured_silence,
    labels_to_match,
    matcher,
    new_silence,
    parse_instant,
    silence_problems,
)
from monitor.alerting.engine.suppression import Suppression
from monitor.model.alerts import Silence
from monitor.model.errors import ConfigurationError
from monitor.model.silencing import fits
from tests.alerting.sample_alerts import an_alert

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def a_silence(*matchers: str, starts_at: datetime = NOW, hours: float = 1.0) -> Silence:
    """Return a silence as a user requests one."""
    return new_silence(
        matchers=matchers or ("workspace=marketing",),
        author="eve",
        comment="the warehouse moves",
        starts_at=starts_at,
        ends_at=starts_at + hours * HOUR,
        now=NOW,
        longest_seconds=30 * 86_400,
    )


def faults_of(**changed: object) -> list[str]:
    """Return what is wrong with a good silence in which something was changed."""
    asked: dict[str, object] = {
        "matchers": ["workspace=marketing"],
        "author": "eve",
        "comment": "the warehouse moves",
        "starts_at": None,
        "ends_at": NOW + HOUR,
        "now": NOW,
        "longest_seconds": 30 * 86_400,
    }
    with pytest.raises(ConfigurationError) as refused:
        new_silence(**{**asked, **changed})  # type: ignore[arg-type]  # wrong on purpose
    return refused.value.problems


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ends_at": None}, "ends_at: is needed: a silence without an end is forgotten"),
        ({"ends_at": NOW}, "ends_at: 2026-11-21T10:00:00Z is over; give a time to come"),
        (
            {"ends_at": NOW + HOUR, "starts_at": NOW + HOUR},
            "ends_at: 2026-11-21T11:00:00Z is not after the start",
        ),
        ({"ends_at": NOW - HOUR, "starts_at": NOW - 2 * HOUR}, "is over; give a time to come"),
        ({"matchers": []}, "matchers: name what is to be silent"),
        ({"matchers": ["marketing"]}, "'marketing' is no matcher: write it as"),
        ({"matchers": ["workspace=~a|b"], "comment": " "}, "comment: is needed"),
        ({"matchers": ["pipelin=daily"]}, "no alert has a label 'pipelin'; did you mean pipeline?"),
        ({"matchers": ["qqq!=daily"]}, "no alert has a label 'qqq': there are alertname, rule"),
        ({"matchers": ["a=" + "x" * 600]}, "is no matcher"),
        ({"matchers": ["pipeline=!daily*"]}, "'pipeline=!daily*': write 'pipeline!=daily*'"),
        ({"matchers": ["kind=x"] * (MOST_MATCHERS + 1)}, "at most 20 are taken"),
        ({"author": ""}, "author: is needed"),
        ({"comment": "x" * (LONGEST_WORDS + 1)}, "comment: is longer than 1,000 characters"),
    ],
)
def test_an_impossible_silence_is_refused(changed: dict[str, object], told: str) -> None:
    """No end, no matcher, a label that no alert has, no author: one sentence each."""
    assert [told in problem for problem in faults_of(**changed)].count(True) == 1


def test_an_end_that_is_past_is_one_problem() -> None:
    """That it lies before the start too, which is now, adds nothing."""
    assert faults_of(ends_at=NOW - HOUR) == [
        "ends_at: 2026-11-21T09:00:00Z is over; give a time to come"
    ]


def test_all_problems_are_reported_at_once() -> None:
    """Five mistakes are five sentences."""
    problems = faults_of(matchers=["kin=x", "label"], author="", comment="", ends_at=None)
    assert [problem.split(":")[0] for problem in problems] == [
        "matchers",
        "matchers",
        "author",
        "comment",
        "ends_at",
    ]


LABELS = labels_to_match(
    ["team"], rules=["run_failed", "sales_failed"], workspaces=["marketing", "sales"]
)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("workspace=marketting", "no workspace fits 'marketting'; did you mean marketing?"),
        ("workspace!=x", "no workspace fits 'x'; there are marketing, sales, bridge"),
        ("workspace=x*", "no workspace fits 'x*'; there are marketing, sales, bridge"),
        ("workspace=Sales", "no workspace fits 'Sales'; did you mean sales?"),
        ("workspace=", "no workspace fits ''; there are"),
        ("alertname=run_faild", "no alertname fits 'run_faild'; did you mean run_failed?"),
        ("rule=sales_failed", "no rule fits 'sales_failed'; did you mean"),
        ("severity=critcal", "no severity fits 'critcal'; did you mean critical?"),
        ("severity=page", "no severity fits 'page'; there are critical, warning, info"),
        ("kind=flow", "no kind fits 'flow'; did you mean flow_run?"),
    ],
)
def test_a_word_that_no_alert_has_is_refused(written: str, told: str) -> None:
    """A matcher that would hold back nothing, or everything, names the nearest known word."""
    (problem,) = faults_of(matchers=[written], labels=LABELS)
    assert problem.startswith(f"matchers: {written!r}: {told}")


@pytest.mark.parametrize(
    "written",
    ["workspace=sales", "workspace=bridge", "workspace!=mark*", "alertname=*_failed",
     "rule=quality_dropped", "severity!=info", "kind=", "kind!=plan_run", "team=x", "pipeline=x"],
)  # fmt: skip
def test_a_word_that_alerts_have_is_accepted(written: str) -> None:
    """The daemon's own alerts and those of no kind are meant too; names of pipelines are free."""
    asked = {"author": "eve", "comment": "why", "starts_at": NOW, "ends_at": NOW + HOUR}
    assert silence_problems(matchers=[written], labels=LABELS, **asked) == []  # type: ignore[arg-type]


def test_a_rules_own_label_may_be_named() -> None:
    """Labels that rules add are as good as those that every alert carries."""
    asked = {"author": "eve", "comment": "why", "starts_at": NOW, "ends_at": NOW + HOUR}
    own = dict.fromkeys((*SHOWN_LABELS, "team"), ())
    assert silence_problems(matchers=["team=data"], labels=own, **asked) == []  # type: ignore[arg-type]
    assert silence_problems(matchers=["team=data"], **asked) != []  # type: ignore[arg-type]


def test_a_silence_works_from_its_first_instant_to_before_its_last() -> None:
    """It begins and ends exactly when it says."""
    silence = a_silence(starts_at=NOW + HOUR)
    held = Suppression.of((silence,), ())
    alert = an_alert(workspace="marketing")
    tick = timedelta(microseconds=1)
    reasons = [
        held.reasons(alert, (), at=at)
        for at in (NOW + HOUR - tick, NOW + HOUR, NOW + 2 * HOUR - tick, NOW + 2 * HOUR)
    ]
    assert reasons == [(), (f"silence:{silence.id}",), (f"silence:{silence.id}",), ()]


@pytest.mark.parametrize(
    ("matchers", "is_silent"),
    [
        (("workspace=marketing",), True),
        (("workspace=sales",), False),
        (("workspace=mark*", "rule=run_*"), True),
        (("workspace=mark*", "rule=not_*"), False),
        (("workspace!=sales",), True),
        (("workspace!=marketing",), False),
        (("pipeline = Daily [ab] ",), True),
        (("pipeline=daily a",), False),
        (("token_id=",), True),
        (("token_id=?*",), False),
        (("token_id!=",), False),
        (("alertname=*",), True),
    ],
)
def test_all_matchers_must_fit(matchers: tuple[str, ...], *, is_silent: bool) -> None:
    """Matchers are globs over labels; upper and lower case differ, what is absent is empty."""
    silence = a_silence(*matchers)
    alert = an_alert(workspace="marketing", labels={"pipeline": "Daily a"})
    held = Suppression.of((silence,), ()).reasons(alert, (), at=NOW)
    assert held == ((f"silence:{silence.id}",) if is_silent else ())


@given(
    value=st.text(alphabet="ab*?[]!-=\n", max_size=12),
    glob=st.text(alphabet="ab*?[]!-=\n", max_size=12),
)
def test_a_matcher_and_its_opposite_never_agree(value: str, glob: str) -> None:
    """Of ``label=x`` and ``label!=x`` exactly one fits, whatever is written in them."""
    labels = {"pipeline": value}
    wants = matcher(f"pipeline={glob}", labels=None)
    refuses = matcher(f"pipeline!={glob}", labels=None)
    assert fits((wants,), labels) is not fits((refuses,), labels)


def test_a_configured_silence_keeps_its_id() -> None:
    """A reload that changes nothing about a silence does not make it another one."""
    settings = SilenceSettings(matchers=("kind=plan_run",), comment="why", ends_at=NOW + HOUR)
    first = configured_silence(settings, now=NOW)
    again = configured_silence(settings, now=NOW + HOUR / 2)
    other = configured_silence(
        SilenceSettings(matchers=("kind=flow_run",), comment="why", ends_at=NOW + HOUR), now=NOW
    )
    assert first.id == again.id != other.id
    assert first.origin == "config"


def test_two_that_ask_for_the_same_get_two() -> None:
    """Taking back one's own silence leaves those of others."""
    assert a_silence().id != a_silence().id


@pytest.mark.parametrize(
    ("text", "told"),
    [("tomorrow", "is no time"), ("2026-11-21T18:00:00", "has no time zone")],
)
def test_an_instant_names_its_zone(text: str, told: str) -> None:
    """A time that may mean several instants is refused."""
    with pytest.raises(ConfigurationError, match=told):
        parse_instant(text)


def test_an_instant_is_read_in_any_zone() -> None:
    """An instant with an offset is the same instant in UTC."""
    assert parse_instant("2026-11-21T11:00:00+01:00") == NOW


@given(
    globs=st.lists(
        st.tuples(
            st.sampled_from(["pipeline", "kind", "token_id"]),
            st.sampled_from(["=", "!="]),
            st.text(alphabet="ab*?[]", max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    pipeline=st.text(alphabet="ab*?[]", max_size=3),
)
def test_no_silence_is_overlooked(globs: list[tuple[str, str, str]], pipeline: str) -> None:
    """Beside many others each silence is found by every alert that fits it, in their order."""
    silences = [
        a_silence(*("".join(glob) for glob in globs[place : place + 2]))
        for place in range(len(globs))
    ]
    alert = an_alert(labels={"pipeline": pipeline, "kind": "a"})
    fitting = [
        f"silence:{silence.id}"
        for silence in silences
        if fits([matcher(text, labels=None) for text in silence.matchers], alert.labels)
    ]
    assert list(Suppression.of(silences, ()).reasons(alert, (), at=NOW)) == fitting
