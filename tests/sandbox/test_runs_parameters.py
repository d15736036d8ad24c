"""Where the values of run parameters stand in a text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.running.destinations import inserted, text_of
from monitor.sandbox.world.records.runs import JobGroup

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def job_group(**parameters: Any) -> JobGroup:
    return JobGroup(
        id=1,
        created_at=BEGAN,
        updated_at=BEGAN,
        creator_id=1,
        updater_id=1,
        flow_id=1,
        recipe_id=1,
        parameters=parameters,
    )


def variable(value: str) -> dict[str, Any]:
    return {"variable": {"value": value}}


@given(st.lists(st.tuples(st.text("/ab", max_size=4), st.text("xyz", max_size=3)), max_size=5))
def test_each_value_stands_at_its_position(pieces: list[tuple[str, str]]) -> None:
    """A text cut at the positions has the values between the pieces, whatever their order."""
    text, parameters = "", []
    for order, (piece, value) in enumerate(pieces):
        text += piece
        position = {"index": len(text), "order": order}
        parameters.append(
            {"overrideKey": f"k{order}", "insertionIndices": [position], "value": variable(value)}
        )
    expected = "".join(piece + value for piece, value in pieces)

    assert inserted(text, parameters, job_group()) == expected
    assert inserted(text, parameters[::-1], job_group()) == expected


def test_a_value_may_stand_at_several_positions() -> None:
    """One parameter is put in at each of its positions; one after the end is put at the end."""
    positions = [{"index": 0}, {"index": 2}, {"index": 99}]
    parameter = {"overrideKey": "k", "insertionIndices": positions, "value": "x"}

    assert inserted("ab", [parameter], job_group()) == "xabxx"
    assert inserted("ab", [parameter], job_group(k="-")) == "-ab--"


def test_a_long_value_is_cut() -> None:
    """However long a value is, and however often it is inserted, the text stays of a size."""
    parameter = {"overrideKey": "k", "insertionIndices": [{}] * 1_000, "value": "x" * 100_000}

    assert inserted("ab", [parameter], job_group()) == "x" * 1_024 * 100 + "ab"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("8", "8"),
        (8, "8"),
        (1.5, "1.5"),
        (True, "true"),
        (variable("x"), "x"),
        ({"variable": {}}, ""),
        ({"timestamp": {"format": "YYYY"}}, "2026-11-21"),
        ({"dateRange": {}}, "2026-11-21"),
        ({"other": [1, 2]}, '{"other":[1,2]}'),
        ([], "[]"),
    ],
)
def test_any_value_has_a_text(value: Any, text: str) -> None:
    """Whatever JSON a value is, it can stand in a path."""
    assert text_of(value, job_group()) == text


@pytest.mark.parametrize("kind", ["bucket", "host", "userinfo"])
def test_parameters_outside_the_path_are_left_alone(kind: str) -> None:
    """Parameters of a bucket, a host or a user change no path."""
    parameter = {"type": kind, "insertionIndices": [{"index": 1}], "value": "x"}

    assert inserted("ab", [parameter], job_group()) == "ab"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)
PARAMETER = st.fixed_dictionaries(
    {},
    optional={
        "type": JSON,
        "overrideKey": JSON,
        "value": JSON | st.fixed_dictionaries({"variable": JSON}),
        "insertionIndices": JSON
        | st.lists(JSON | st.fixed_dictionaries({}, optional={"index": JSON, "order": JSON})),
    },
)


@given(st.lists(PARAMETER, max_size=4))
def test_no_parameter_stops_a_run(parameters: list[dict[str, Any]]) -> None:
    """Whatever a package gives as parameters, the text around them stays."""
    text = inserted("<>", parameters, job_group(a="x"))

    assert text.index("<") <= text.index(">")
