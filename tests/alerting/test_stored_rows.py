"""Rows come back from a file, decoded once: whatever stands there, no rule is stopped by it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.alerts.pending_step import LEARNED, PendingStep, Tables, tables_of
from monitor.alerting.rules.baselines import Learned, age_seconds, learn, limit_seconds
from monitor.model.runs import Status
from tests.alerting.run_samples import at, run_event, state

PAIR = [400.0, 30]


def row(pairs: list[list[float]]) -> bytes:
    """Return a stored row with one sketch of these pairs for durations and gaps."""
    sketch = {"newer": {"pairs": pairs, "least": 1.0, "most": 900.0}}
    return json.dumps({"durations": sketch, "gaps": sketch}).encode()


def learned_of(value: bytes) -> Learned | None:
    """Return what is learned of a pipeline by the row that a file holds."""
    tables = Tables()
    tables[LEARNED]["a"] = value
    return tables.decoded(LEARNED, "a", Learned)


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", row([[400.0, -3]]), row([[400.0, 0]]), row([[400.0]])],
    ids=["empty", "cut", "a list", "negative count", "no count", "no pair"],
)
def test_a_row_that_cannot_be_is_learned_again(value: bytes) -> None:
    """A count below one stood in the way of every rule once, since no sketch accepts it."""
    assert learned_of(row([PAIR])) is not None
    assert learned_of(value) is None


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(min_value=1, max_value=2**40),
        ),
        max_size=60,
    )
)
def test_decoded_baselines_can_be_used(pairs: list[tuple[float, int]]) -> None:
    """Odd means and huge counts give some limit or none, never an error."""
    learned = learned_of(row([list(pair) for pair in pairs]))
    assert learned is not None
    for limit in (limit_seconds(learned, minimum_runs=10), age_seconds(learned, minimum_runs=10)):
        assert limit is None or limit >= 300


@given(
    counts=st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=12),
    restarts=st.sets(st.integers(min_value=0, max_value=11)),
)
async def test_a_row_that_is_added_to_is_what_is_learned(
    counts: list[int], restarts: set[int]
) -> None:
    """However many successes are stored at once, and wherever the process starts again."""
    tables, stored = Tables(), dict[str, bytes | None]()
    learned: Learned | None = None
    number = 0
    for step, count in enumerate(counts):
        if step in restarts:
            tables = await tables_of({key: row for key, row in stored.items() if row is not None})
        pending = PendingStep(tables, wall_now=at(0))
        for _ in range(count):
            run = state(
                number,
                Status.SUCCEEDED,
                finished_at=at(3_600 * number),
                seconds=300 + number % 7,
                recipe="ab"[number % 2],
            )
            event = run_event(run)
            pending.put(LEARNED, "a", learn(pending.decoded(LEARNED, "a", Learned), event))
            learned = learn(learned, event)
            number += 1
        stored |= await pending.state()
        pending.apply()
        assert tables.decoded(LEARNED, "a", Learned) == learned
    row_of_file = stored[f"{LEARNED}:a"]
    assert row_of_file is not None
    assert learned_of(row_of_file) == learned


async def test_a_row_is_decoded_once() -> None:
    """Until another one is stored in its place, and for as long as few others are used."""
    tables = await tables_of({f"{LEARNED}:{n}": row([PAIR]) for n in range(3_000)})
    first = tables.decoded(LEARNED, "0", Learned)
    assert first is not None
    assert tables.decoded(LEARNED, "0", Learned) is first

    pending = PendingStep(tables, wall_now=at(0))
    after = msgspec.structs.replace(first, newest_at=at(7))
    pending.put(LEARNED, "0", after)
    assert pending.decoded(LEARNED, "0", Learned) is after
    assert tables.decoded(LEARNED, "0", Learned) is first
    await pending.state()
    assert tables.decoded(LEARNED, "0", Learned) == first  # not before the step is durable
    pending.apply()
    assert tables.decoded(LEARNED, "0", Learned) == after

    for number in range(1, 3_000):
        tables.decoded(LEARNED, f"{number}", Learned)
    assert tables.decoded(LEARNED, "0", Learned) is not after
    assert tables.decoded(LEARNED, "0", Learned) == after
