"""A template is refused with one sentence, or filling it in always gives a text, true then."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.model.alert_texts import (
    COMMON_FIELDS,
    LONGEST_TEMPLATE,
    LONGEST_TEXT,
    Rendering,
    Value,
    check_template,
    fill,
    texts_of,
)
from monitor.model.alerts import Alert, AlertState
from monitor.model.errors import ConfigurationError
from tests.alerting.sample_alerts import an_alert

FIELDS = (*COMMON_FIELDS, "error", "seconds", "ratio", "notified_at", "expires_at")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RENDERING = Rendering(at=NOW)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{pipelin}", "there is no field {pipelin}; did you mean pipeline?"),
        ("{}", f"there is no field {{}}; there are {', '.join(FIELDS)}"),
        ("{0}", f"there is no field {{0}}; there are {', '.join(FIELDS)}"),
        ("{pipeline.name}", "there is no field {pipeline.name}; did you mean pipeline?"),
        ("{error[0]}", "there is no field {error[0]}; did you mean error?"),
        ("{error!r}", "!r is not known; write {error}"),
        ("{seconds:duratoin}", "there is no form :duratoin; did you mean duration?"),
        (
            "{seconds:.2f}",
            (
                "there is no form :.2f; there are duration, time, since, relative, words|words, "
                "percent"
            ),
        ),
        (
            "{seconds:{ratio}}",
            "there is no form :{ratio}; did you mean duration?",
        ),
        ("{starts_at:duration}", ":duration does not fit starts_at; write {starts_at:time}"),
        ("{error:is|was}", ":is|was does not fit error; write {error}"),
        ("{is|was:time}", ":time does not fit is|was; write {is|was}"),
        ("{seconds:percent}", ":percent does not fit seconds; write {seconds:duration}"),
        ("{ratio:time}", ":time does not fit ratio; write {ratio:percent}"),
        ("{error:time}", ":time does not fit error; write {error}"),
        ("{pipeline:duration}", ":duration does not fit pipeline; write {pipeline}"),
        (
            "{evidence_count:duration}",
            ":duration does not fit evidence_count; write {evidence_count}",
        ),
        (
            "{error",
            "has a brace without its other half; write {{ and }} for braces that are meant",
        ),
        (
            "error}",
            "has a brace without its other half; write {{ and }} for braces that are meant",
        ),
        (
            "{seconds:{error}|b}",
            "a form holds no braces; write {seconds:time} or {seconds}",
        ),
        ("x" * (LONGEST_TEMPLATE + 1), "must be at most 2,000 characters"),
    ],
)
def test_a_bad_template_is_explained_in_one_sentence(text: str, sentence: str) -> None:
    """It says what is wrong, and the nearest valid name."""
    with pytest.raises(ConfigurationError) as raised:
        check_template(text, FIELDS)
    assert raised.value.problems == [sentence]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("{seconds}", 5.0, "5"),
        ("{seconds}", 1.25, "1.25"),
        ("{seconds}", 3, "3"),
        ("{seconds}", None, "-"),
        ("{seconds}", "", "-"),
        ("{seconds:duration}", 7.4, "7 s"),
        ("{seconds:duration}", 0.2, "under 1 s"),
        ("{seconds:duration}", 250, "4 min 10 s"),
        ("{seconds:duration}", 3_600, "1 h"),
        ("{seconds:duration}", 3_965, "1 h 6 min"),
        ("{seconds:duration}", 2 * 86_400 + 3 * 3_600 + 59, "2 d 3 h"),
        ("{seconds:duration}", "soon", "soon"),
        ("{seconds:duration}", None, "-"),
        ("{notified_at:time}", 0, "1970-01-01T00:00:00Z"),
        ("{notified_at:time}", 1e300, "1e+300"),
        ("{notified_at:time}", "2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
        ("{ratio:percent}", 0.875, "87.5 %"),
        ("{ratio:percent}", math.nan, "nan"),
        ("{{{seconds}}}", 5, "{5}"),
        (
            "{seconds}",
            datetime(2026, 11, 21, 11, tzinfo=timezone(timedelta(hours=1))),
            "2026-11-21T10:00:00Z",
        ),
        ("{ratio:percent}", datetime(2026, 11, 21, tzinfo=UTC), "2026-11-21T00:00:00Z"),
    ],
)
def test_a_value_is_written_for_people(text: str, value: Value, expected: str) -> None:
    """Numbers without a needless fraction, instants in UTC, and a dash for what is not known."""
    assert fill(text, dict.fromkeys(FIELDS, value), RENDERING) == expected


def test_a_field_without_value_is_a_dash() -> None:
    """An alert may know less than its template asks for."""
    assert fill("{pipeline}: {error}", {"pipeline": "Orders"}, RENDERING) == "Orders: -"


def test_a_long_text_is_cut() -> None:
    """An error message of megabytes does not become an annotation of megabytes."""
    text = fill("{error}{error}", {"error": "x" * 1_999}, RENDERING)
    assert len(text) == LONGEST_TEXT
    assert text.endswith("x...")


def test_a_value_is_not_read_as_a_template() -> None:
    """Braces in the message of a job stay braces."""
    assert fill("{error}", {"error": "{pipeline}"}, RENDERING) == "{pipeline}"


TEXTS = st.text(st.sampled_from("{}[]!:.eror seconds-timdup0_atl\n"), max_size=30)
VALUES = (
    st.none()
    | st.text()
    | st.floats()
    | st.integers(-(2**63), 2**63)
    | st.datetimes(timezones=st.just(UTC))
)


@given(text=TEXTS, value=VALUES, is_kept=st.booleans(), is_over=st.booleans())
@example(
    text="{notified_at:time}",
    value=datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    is_kept=False,
    is_over=False,
)
@example(text="{notified_at:since}", value="0001-01-01T00:00", is_kept=False, is_over=True)
def test_accepted_templates_can_be_filled_in(
    text: str, value: Value, *, is_kept: bool, is_over: bool
) -> None:
    """Any template is refused in one sentence, or makes a text whatever the values are."""
    problems = ["none"]
    try:
        check_template(text, FIELDS)
    except ConfigurationError as exc:
        problems = exc.problems
    assert len(problems) == 1
    # Also one that was refused: what an older version stored is filled in unchecked.
    rendering = Rendering(at=NOW, ended_at=NOW if is_over else None, is_kept=is_kept)
    assert len(fill(text, dict.fromkeys(FIELDS, value), rendering)) <= LONGEST_TEXT


LATER, EARLIER = NOW + timedelta(minutes=11), NOW - timedelta(hours=2, minutes=5)


@pytest.mark.parametrize(
    ("template", "now", "kept", "over"),
    [
        (
            "{expires_at:expires|expired}",
            "expires in 11 min",
            "expires at 2026-11-21T12:11:00Z",
            "expires at 2026-11-21T12:11:00Z",
        ),
        (
            "{notified_at:expires|expired}",
            "expired 2 h ago",
            "expired at 2026-11-21T09:55:00Z",
            "expired at 2026-11-21T09:55:00Z",
        ),
        (
            "{expires_at:expires|expired|has no end}",
            "expires in 11 min",
            "expires at 2026-11-21T12:11:00Z",
            "expires at 2026-11-21T12:11:00Z",
        ),
        ("{absent_at:expires|expired|has no end}", "has no end", "has no end", "has no end"),
        ("{absent_at:expires|expired}", "-", "-", "-"),
        (
            "{expires_at:relative}",
            "in 11 min",
            "at 2026-11-21T12:11:00Z",
            "at 2026-11-21T12:11:00Z",
        ),
        (
            "{has run|ran} {notified_at:since}",
            "has run for 2 h 5 min",
            "has run since 2026-11-21T09:55:00Z",
            "ran for 1 h 5 min",
        ),
        ("{expires_at:since}", "for 0 s", "since 2026-11-21T12:11:00Z", "for 0 s"),
        ("{error:since}", "no such form", "no such form", "no such form"),
    ],
)
def test_ages_are_written_as_of_the_reading(template: str, now: str, kept: str, over: str) -> None:
    """An age where it is read at once, an instant where it stays, the last age where it is over."""
    values: dict[str, Value] = {
        "expires_at": LATER.isoformat(),
        "notified_at": EARLIER,
        "error": "no such form",
    }
    ended_at = NOW - timedelta(hours=1)
    readings = (
        Rendering(at=NOW),
        Rendering(at=NOW, is_kept=True),
        Rendering(at=NOW, ended_at=ended_at),
    )
    assert [fill(template, values, rendering) for rendering in readings] == [now, kept, over]


def test_texts_that_were_stored_as_they_stand_still_read_so() -> None:
    """An alert of an older store is shown as it is, with braces that its error may hold."""
    stored = {
        "summary": "orders failed in acme",
        "description": 'Run 7: {"code": 5} and {x.y} and a brace {',
    }
    row = {
        "fingerprint": "9f86d081884c7d65",
        "name": "run_overdue",
        "rule": "run_overdue",
        "severity": "warning",
        "state": "firing",
        "labels": {"pipeline": "orders"},
        "annotations": stored,
        "starts_at": "2026-11-21T11:00:00Z",
        "workspace": "acme",
        "facts": {"run": "7", "running_seconds": 660.0, "limit_seconds": 600.0},
    }
    alert = msgspec.json.decode(msgspec.json.encode(row), type=Alert)
    assert texts_of(alert, NOW) == stored


def test_the_description_of_an_alert_that_is_over_says_why() -> None:
    """After what its rule says, however long that is, and also where the rule says nothing."""
    facts: dict[str, str | float | None] = {"ended_because": "rule removed", "error": "x" * 3_000}
    alert = msgspec.structs.replace(an_alert(), facts=facts)
    ended = msgspec.structs.replace(alert, state=AlertState.RESOLVED, ends_at=NOW)
    for template, text in (
        (None, "Ended: rule removed."),
        ("It failed.", "It failed. Ended: rule removed."),
        ("{error}", f"{'x' * 1_978}. Ended: rule removed."),
    ):
        templates = {} if template is None else {"description": template}
        shown = texts_of(msgspec.structs.replace(ended, templates=templates), NOW)
        assert shown["description"] == text
        assert len(text) <= LONGEST_TEXT
        firing = msgspec.structs.replace(alert, templates=templates)
        assert "Ended" not in texts_of(firing, NOW).get("description", "")
