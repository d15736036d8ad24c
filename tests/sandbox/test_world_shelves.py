"""A shelf's look-up by value finds what a scan of everything finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.world.records.objects import WriteSetting
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock

OUTPUTS = st.integers(1, 3)
# What is done, to which of the settings that there are, and the output that is named by it.
STEPS = st.lists(
    st.tuples(st.sampled_from(["make", "move", "delete", "forget"]), st.integers(0, 5), OUTPUTS),
    max_size=30,
)


@given(steps=STEPS, is_indexed_first=st.booleans())
def test_things_are_found_by_a_value(
    steps: list[tuple[str, int, int]],
    is_indexed_first: bool,  # noqa: FBT001 - drawn
) -> None:
    """Made, moved, deleted or forgotten, before and after the first look-up."""
    world = World(clock=ManualClock())
    shelf = world.shelf(WriteSetting)
    if is_indexed_first:
        assert shelf.having("output_object_id", 1) == []
    for what, place, output in steps:
        settings = list(shelf)
        if what == "make":
            world.create(WriteSetting, by=1, output_object_id=output, path="/a", format="csv")
        elif place < len(settings) and what == "move":
            world.update(settings[place], output_object_id=output)
        elif place < len(settings) and what == "delete":
            world.delete(settings[place])
        elif place < len(settings):
            shelf.forget(settings[place].id)
        for number in (1, 2, 3):
            expected = [live for live in shelf.live() if live.output_object_id == number]
            assert shelf.having("output_object_id", number) == expected
