"""A template is refused with one sentence, or filling it in always gives a text."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.alerting.rules.templates import (
    COMMON_FIELDS,
    LONGEST_TEMPLATE,
    LONGEST_TEXT,
    Value,
    parse_template,
)
from monitor.model.errors import ConfigurationError

FIELDS = (*COMMON_FIELDS, "error", "seconds", "ratio", "notified_at")


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
        ("{seconds:.2f}", "there is no form :.2f; there are duration, time, percent"),
        (
            "{seconds:{ratio}}",
            "there is no form :{ratio}; did you mean duration?",
        ),
        ("{starts_at:duration}", ":duration does not fit starts_at; write {starts_at:time}"),
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
        ("x" * (LONGEST_TEMPLATE + 1), "must be at most 2,000 characters"),
    ],
)
def test_a_bad_template_is_explained_in_one_sentence(text: str, sentence: str) -> None:
    """It says what is wrong, and the nearest valid name."""
    with pytest.raises(ConfigurationError) as raised:
        parse_template(text, FIELDS)
    assert raised.value.problems == [sentence]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("{seconds}", 5.0, "5"),
        ("{seconds}", 1.25, "1.25"),
        ("{seconds}", 3, "3"),
        ("{seconds}", None, "-"),
        ("{seconds}", "", "-"),
        ("{seconds:duration}", 7.4, "7s"),
        ("{seconds:duration}", 0.2, "0s"),
        ("{seconds:duration}", 250, "4m 10s"),
        ("{seconds:duration}", 3_600, "1h"),
        ("{seconds:duration}", 3_965, "1h 6m"),
        ("{seconds:duration}", 2 * 86_400 + 3 * 3_600 + 59, "2d 3h"),
        ("{seconds:duration}", -61, "-1m 1s"),
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
    assert parse_template(text, FIELDS).fill(dict.fromkeys(FIELDS, value)) == expected


def test_a_field_without_value_is_a_dash() -> None:
    """An alert may know less than its template asks for."""
    assert parse_template("{pipeline}: {error}", FIELDS).fill({"pipeline": "Orders"}) == "Orders: -"


def test_a_long_text_is_cut() -> None:
    """An error message of megabytes does not become an annotation of megabytes."""
    text = parse_template("{error}{error}", FIELDS).fill({"error": "x" * 1_999})
    assert len(text) == LONGEST_TEXT
    assert text.endswith("x...")


def test_a_value_is_not_read_as_a_template() -> None:
    """Braces in the message of a job stay braces."""
    assert parse_template("{error}", FIELDS).fill({"error": "{pipeline}"}) == "{pipeline}"


TEXTS = st.text(st.sampled_from("{}[]!:.eror seconds-timdup0_atl\n"), max_size=30)
VALUES = (
    st.none()
    | st.text()
    | st.floats()
    | st.integers(-(2**63), 2**63)
    | st.datetimes(timezones=st.just(UTC))
)


@given(text=TEXTS, value=VALUES)
@example(
    text="{notified_at:time}", value=datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
)
def test_what_is_read_can_be_filled_in(text: str, value: Value) -> None:
    """Any template is refused in one sentence, or makes a text whatever the values are."""
    try:
        read = parse_template(text, FIELDS)
    except ConfigurationError as exc:
        problems = exc.problems
    else:
        problems = ["none"]
        assert read.fields <= set(FIELDS)
        assert len(read.fill(dict.fromkeys(FIELDS, value))) <= LONGEST_TEXT
    assert len(problems) == 1
