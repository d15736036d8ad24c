"""A process that dies between any two steps changes nothing in what a subscriber has at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.alerting.failing_steps import Cut, Scenario, Seen, played
from tests.examples import examples

_HISTORY = (
    Scenario("fails"),
    Scenario("silence"),
    Scenario("fails"),
    Scenario("is silent"),
    Scenario("passes", seconds=130),
    Scenario("fails", flow=2),
    Scenario("answers"),
    Scenario("expire"),
    Scenario("fails"),
    Scenario("succeeds"),
    Scenario("passes", seconds=14_500),
)
_START = (Scenario("had failed"), Scenario("passes"), Scenario("succeeds"), Scenario("fails"))
_LATE = (
    Scenario("fails", seconds=200),
    Scenario("succeeds", seconds=1_900),
    Scenario("failed before"),
    Scenario("succeeds"),
    Scenario("failed before"),
    Scenario("is claimed to fail", flow=2),
    Scenario("is corrected", flow=2),
)
_PLAN = (
    Scenario("part fails", seconds=20),
    Scenario("plan fails"),
    Scenario("link"),
    Scenario("passes", seconds=20),
    Scenario("part succeeds"),
    Scenario("passes"),
)
_SCENARIOS = st.builds(
    Scenario,
    st.sampled_from(
        (
            *("had failed", "fails", "fails", "succeeds", "is silent", "answers"),
            *("silence", "expire", "passes", "failed before", "is claimed to fail"),
            *("is corrected", "part fails", "plan fails", "link", "part succeeds"),
        )
    ),
    st.integers(1, 3),
    st.sampled_from((2.0, 130.0, 1_900.0, 14_500.0)),
)


def differences(seen: Seen, uncut: Seen) -> dict[str, object]:
    """Return what a subscriber can distinguish."""
    found: dict[str, object] = {}
    if seen.ids != uncut.ids:
        found["ids"] = (seen.ids, uncut.ids)
    if two_faced := [content for content, contents in seen.contents.items() if len(contents) > 1]:
        found["contents"] = two_faced
    if seen.states != uncut.states:
        found["states"] = (seen.states, uncut.states)
    return found


async def test_every_cut_of_one_history(tmp_path: Path) -> None:
    """Failures, a silence, an outage, reminders: cut before and after each single step."""
    uncut = await played(tmp_path / "uncut.db", _HISTORY)
    words = [word.partition(" ")[2].removeprefix("alert.") for word in uncut.words]

    assert {"fired", "silenced", "reminded", "resolved"} <= set(words)
    for cut in range(1, uncut.steps + 1):
        for is_taken in (False, True):
            store = tmp_path / f"{cut}-{is_taken}.db"
            seen = await played(store, _HISTORY, Cut(cut, is_taken))
            assert differences(seen, uncut) == {}, f"cut at {cut}, taken: {is_taken}"


async def test_every_cut_of_a_first_evaluation(tmp_path: Path) -> None:
    """A failure before the start fires once, cut before and after each single step."""
    uncut = await played(tmp_path / "uncut.db", _START)
    words = [word.partition(" ")[2].removeprefix("alert.") for word in uncut.words]

    assert words == ["fired", "resolved", "fired"]
    for cut in range(1, uncut.steps + 1):
        for is_taken in (False, True):
            store = tmp_path / f"{cut}-{is_taken}.db"
            seen = await played(store, _START, Cut(cut, is_taken))
            assert differences(seen, uncut) == {}, f"cut at {cut}, taken: {is_taken}"


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (_LATE, ["fired", "resolved"] * 3),
        (_PLAN, ["fired", "resolved", "fired"]),
    ],
    ids=["late and corrected", "after a part"],
)
async def test_every_cut_of_ends_out_of_order(
    tmp_path: Path, history: tuple[Scenario, ...], expected: list[str]
) -> None:
    """Ends that were over when seen, a corrected callback, and a plan after its part."""
    uncut = await played(tmp_path / "uncut.db", history)
    words = [word.partition(" ")[2].removeprefix("alert.") for word in uncut.words]
    assert words == expected
    for cut in range(1, uncut.steps + 1):
        for is_taken in (False, True):
            store = tmp_path / f"{cut}-{is_taken}.db"
            seen = await played(store, history, Cut(cut, is_taken))
            assert differences(seen, uncut) == {}, f"cut at {cut}, taken: {is_taken}"


@given(
    history=st.lists(_SCENARIOS, min_size=3, max_size=12),
    cut=st.builds(Cut, st.integers(1, 40), st.booleans(), st.booleans()),
)
@settings(max_examples=examples(20))
async def test_any_cut_of_any_history(history: list[Scenario], cut: Cut) -> None:
    """Whatever happens outside: dying once, or a store that fails once, is not seen."""
    with tempfile.TemporaryDirectory() as folder:
        uncut = await played(Path(folder) / "uncut.db", history)
        cut = msgspec.structs.replace(cut, at=1 + cut.at % uncut.steps)
        seen = await played(Path(folder) / "cut.db", history, cut)
        assert differences(seen, uncut) == {}
