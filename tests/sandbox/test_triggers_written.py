"""What the sandbox writes of a trigger is what the client reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.triggers import CronTrigger, OneTimeTrigger, ScheduleTrigger, UnsupportedTrigger
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.schedules.triggers import read_trigger, trigger_document
from monitor.schedules import next_after
from monitor.workspace.trigger_parsing import TRIGGER
from tests.schedules.drawn import rhythms, within

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"])
INSTANTS = st.integers(-(10**6), 10**6).map(lambda minutes: NOW + timedelta(minutes=minutes))


@st.composite
def triggers(draw: st.DrawFn) -> ScheduleTrigger:
    """A trigger of any kind."""
    zone = draw(ZONES)
    other: st.SearchStrategy[ScheduleTrigger] = st.sampled_from(
        [
            CronTrigger(expression="0 15 10 ? * 6#3", timezone=zone),
            OneTimeTrigger(at=draw(INSTANTS), timezone=zone),
            UnsupportedTrigger(kind="fileWatcher"),
        ]
    )
    limits = {"valid_from": draw(st.none() | INSTANTS), "valid_until": draw(st.none() | INSTANTS)}
    return draw(other | rhythms().map(lambda item: within(item, timezone=zone, **limits)))


@given(triggers())
def test_a_trigger_is_read_as_it_was_written(trigger: ScheduleTrigger) -> None:
    """The client has the very trigger, and the sandbox too where it has a time to come."""
    document = trigger_document(trigger)

    assert TRIGGER.decode(msgspec.json.encode(document)) == trigger
    if isinstance(trigger, UnsupportedTrigger) or next_after(trigger, NOW) is not None:
        assert read_trigger(Body(document), now=NOW) == trigger
