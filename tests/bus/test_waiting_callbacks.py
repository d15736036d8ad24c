"""The memory of the callbacks that wait, where other daemons store some too."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.bus.contract import StoredCallback
from monitor.bus.postgres.writing.waiting_callbacks import WaitingCallbacks
from tests.bus.examples import callback


def numbered(id_: int) -> StoredCallback:
    return replace(callback(id_), id=id_)


def ids_behind(waiting: WaitingCallbacks, place: int) -> list[int]:
    return [found.id for found in waiting.after("marketing", place, limit=100)]


def test_a_callback_processed_during_a_query_does_not_come_back() -> None:
    """The query saw it waiting; meanwhile it was processed, whether or not it was known here."""
    waiting = WaitingCallbacks()
    waiting.add([numbered(1)])
    waiting.begin_learning()
    waiting.forget([1, 2])
    for id_ in (1, 2, 3):
        waiting.learn(numbered(id_))
    waiting.learn_unreadable("marketing", 1)

    assert ids_behind(waiting, 0) == [3]


def test_one_that_cannot_be_understood_is_met_by_its_reader() -> None:
    """It has a place, and no contents."""
    waiting = WaitingCallbacks()
    waiting.learn_unreadable("marketing", 7)
    (found,) = waiting.after("marketing", 0, limit=9)

    assert (found.id, found.callback) == (7, None)
    assert waiting.sizes() == {"marketing": 1}


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "learn", "forget"]), st.integers(1, 8)), max_size=30
    )
)
def test_a_reader_that_goes_on_from_a_place_misses_nothing(
    steps: Sequence[tuple[str, int]],
) -> None:
    """Whatever arrives in whatever order of ids comes after the places that were read before."""
    waiting, expected = WaitingCallbacks(), list[int]()
    seen: list[int] = []
    place = 0
    forgotten: set[int] = set()
    for step, id_ in steps:
        if step == "forget":
            waiting.forget([id_])
            forgotten.add(id_)
            expected = [other for other in expected if other != id_]
        elif id_ not in forgotten and id_ not in expected:
            waiting.begin_learning()
            if step == "add":
                waiting.add([numbered(id_)])
            else:
                waiting.learn(numbered(id_))
            expected.append(id_)
        assert ids_behind(waiting, 0) == expected
        for found in waiting.after("marketing", place, limit=2):
            seen.append(found.id)
            place = found.place
    seen += ids_behind(waiting, place)

    assert set(expected) <= set(seen)
    assert len(seen) == len(set(seen))
