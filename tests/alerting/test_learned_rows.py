"""What was learned comes back from a file: whatever stands there, no rule is stopped by it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.engine.context import read_learned
from monitor.alerting.rules.baselines import age_seconds, limit_seconds

PAIR = [400.0, 30]


def row(pairs: list[list[float]]) -> bytes:
    """Return a stored row with one sketch of these pairs for durations and gaps."""
    sketch = {"newer": {"pairs": pairs, "least": 1.0, "most": 900.0}}
    return json.dumps({"durations": sketch, "gaps": sketch}).encode()


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", row([[400.0, -3]]), row([[400.0, 0]]), row([[400.0]])],
    ids=["empty", "cut", "a list", "negative count", "no count", "no pair"],
)
def test_a_row_that_cannot_be_is_learned_anew(value: bytes) -> None:
    """A count below one stood in the way of every rule once, since no sketch accepts it."""
    assert read_learned(row([PAIR])) is not None
    assert read_learned(value) is None


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(min_value=1, max_value=2**40),
        ),
        max_size=60,
    )
)
def test_what_is_decoded_can_be_used(pairs: list[tuple[float, int]]) -> None:
    """Odd means and huge counts give some limit or none, never an error."""
    learned = read_learned(row([list(pair) for pair in pairs]))
    assert learned is not None
    for limit in (limit_seconds(learned, minimum_runs=10), age_seconds(learned, minimum_runs=10)):
        assert limit is None or limit >= 300
