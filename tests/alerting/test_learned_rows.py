"""What was learned comes back from a file: whatever stands there, no rule is stopped by it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.engine.context import read_learned
from monitor.alerting.engine.learned_rows import with_learned
from monitor.alerting.rules.baselines import Learned, age_seconds, learn, limit_seconds
from monitor.model.runs import Status
from tests.alerting.run_samples import at, run_event, state

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


@given(counts=st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=12))
def test_a_row_that_is_added_to_is_what_is_learned(counts: list[int]) -> None:
    """However many successes come at once, and whether or not their sketches were decoded."""
    stored: bytes | None = None
    learned: Learned | None = None
    number = 0
    for count in counts:
        runs = [
            state(
                n,
                Status.SUCCEEDED,
                finished_at=at(3_600 * n),
                seconds=300 + n % 7,
                recipe="ab"[n % 2],
            )
            for n in range(number, number + count)
        ]
        number += count
        events = [run_event(run) for run in runs]
        stored = with_learned(stored, events)
        for event in events:
            learned = learn(learned, event)
    assert read_learned(stored) == learned
    assert with_learned(stored, []) is stored
