"""The suggestion for an unknown name."""

from __future__ import annotations

import pytest

from monitor.model.suggestions import did_you_mean, suggestion

KNOWN = ("alert.fired", "alert.resolved", "run.Failed")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alert.fire", "alert.fired"),
        ("ALERT.FIRED", "alert.fired"),
        ("run.failed", "run.Failed"),
        ("nothing like it", None),
        ("", None),
    ],
)
def test_the_nearest_known_name_is_suggested(name: str, expected: str | None) -> None:
    """Case does not count, and a name far from all is not guessed at."""
    assert suggestion(name, KNOWN) == expected


def test_a_suggestion_continues_a_sentence() -> None:
    """Where no name is near, the sentence simply ends."""
    assert did_you_mean("alert.fire", KNOWN) == "; did you mean alert.fired?"
    assert did_you_mean("nothing like it", KNOWN) == ""
    assert did_you_mean("alert.fire", ()) == ""
