"""Changes of a workspace itself: each published once, whatever happened in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.events import WorkspaceEvent
from monitor.tracking.workspace_changes import TrackedValue, WorkspaceChanges
from tests.clocks import ManualClock
from tests.examples import examples

Change = tuple[str, str | None, str | None]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


def changes_of(bus: SqliteBus, clock: ManualClock) -> WorkspaceChanges:
    """Return what compares, as after a start."""
    return WorkspaceChanges(bus=bus, clock=clock, commit_timeout_seconds=5)


def tracked(things: Mapping[str, str]) -> dict[str, TrackedValue]:
    return {name: TrackedValue(stored=value, shown=value) for name, value in things.items()}


async def events(bus: SqliteBus) -> list[WorkspaceEvent]:
    recorded = [event.event for event in await bus.events(after=0, limit=10_000)]
    return [event for event in recorded if isinstance(event, WorkspaceEvent)]


async def changes_published(bus: SqliteBus) -> list[Change]:
    return [(event.what, event.before, event.after) for event in await events(bus)]


async def test_the_first_reading_publishes_nothing_and_a_change_is_published_once(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """Also when the monitor was not there between the two observations."""
    for things in ({"5": "enabled", "6": "enabled"}, {"5": "disabled", "6": "enabled"}):
        await changes_of(bus, clock).learn_many("acme", "schedule", tracked(things))
    await changes_of(bus, clock).learn_many(
        "acme", "schedule", tracked({"5": "disabled", "6": "enabled"})
    )

    assert await changes_published(bus) == [("schedule:5", "enabled", "disabled")]


async def test_additions_are_published_only_on_request(bus: SqliteBus, clock: ManualClock) -> None:
    """A new setting is a change of the settings; a new connection is no change of its state."""
    changes = changes_of(bus, clock)
    for kind, reports in (("setting", True), ("connection", False)):
        for things in ({"a": "1"}, {"b": "2"}):
            await changes.learn_many("acme", kind, tracked(things), reports_additions=reports)

    assert await changes_published(bus) == [("setting:a", "1", None), ("setting:b", None, "2")]


async def test_values_that_could_not_be_read_stay_as_they_were(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A read that missed something neither shows that it went nor that it came back."""
    changes = changes_of(bus, clock)
    await changes.learn_many("acme", "connection", tracked({"7": "up", "8": "up"}))
    await changes.learn_many("acme", "connection", tracked({"8": "up"}), unread=["7"])
    await changes.learn_many("acme", "connection", tracked({"7": "down", "8": "up"}))

    assert await changes_published(bus) == [("connection:7", "up", "down")]


async def test_a_value_that_is_hidden_now_was_never_shown(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """The event hides the old value of a setting that has become a secret."""
    changes = changes_of(bus, clock)
    hidden = {"a": TrackedValue(stored="digest", shown="***", is_hidden=True)}
    await changes.learn_many("acme", "setting", tracked({"a": "plain"}), reports_additions=True)
    await changes.learn_many("acme", "setting", hidden, reports_additions=True)

    assert await changes_published(bus) == [("setting:a", "***", "***")]


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    readings=st.lists(
        st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y"]), max_size=3),
        min_size=1,
        max_size=8,
    )
)
async def test_published_changes_lead_from_the_first_reading_to_the_last(
    readings: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Replaying the events over the first reading gives the last one, and no id comes twice."""
    clock = ManualClock()
    bus = await SqliteBus.open(
        tmp_path_factory.mktemp("readings") / "state.db",
        clock=clock,
        registry=CollectorRegistry(),
    )
    try:
        for reading in readings:
            await changes_of(bus, clock).learn_many(
                "acme", "setting", tracked(reading), reports_additions=True
            )
        published = await events(bus)
    finally:
        await bus.close()
    state: dict[str, str | None] = dict(readings[0])
    for event in published:
        name = event.what.removeprefix("setting:")
        assert state.get(name) == event.before
        state[name] = event.after
    assert {name: value for name, value in state.items() if value is not None} == readings[-1]
    assert len({event.id for event in published}) == len(published)
