"""The judge of warnings before deadlines: silent where all is true, and not where it is not."""

from __future__ import annotations

import msgspec
import pytest

from tests.worlds.deadline_examples import (
    DEADLINE,
    example_world,
    run_of,
    said_alert,
    said_met,
    texts_of,
)
from tests.worlds.impairments import Span
from tests.worlds.received import Arrival
from tests.worlds.script import World

_RISK_AT = 140.0  # a run takes 100 seconds, and the deadline is at 240
_WATCHED = msgspec.structs.replace(DEADLINE, usual_seconds=100.0)
_IDLE = example_world(deadlines=(_WATCHED,))
_LATE_AND_BRIEF = example_world(run_of(200), deadlines=(_WATCHED,))
_IN_TIME = example_world(run_of(200, seconds=100), deadlines=(_WATCHED,))


def _warned(at: float, word: str = "fired", *, since: float = _RISK_AT, number: int = 1) -> Arrival:
    return said_alert(at, word, deadline=since, number=number, rule=_WATCHED.risk_rule)


_MISSED = said_alert(255, "fired")
_OVER = _warned(255, "resolved")
_AGAIN = _warned(160, number=2)


def test_true_warnings_have_no_findings() -> None:
    """Warned and missed, warned and met after all, and not warned of what works in time."""
    assert texts_of(_IDLE, _warned(145), _OVER, _MISSED) == []
    met = said_met(205)
    assert texts_of(_LATE_AND_BRIEF, _warned(145), _warned(205, "resolved"), met) == []
    assert texts_of(_LATE_AND_BRIEF, _warned(185, since=180), _warned(206, "resolved"), met) == []
    assert texts_of(_IN_TIME, met) == []


BROKEN = [
    (_IDLE, (_MISSED,), "is not at risk by 215.0"),
    (_IDLE, (_warned(130), _OVER, _MISSED), "is at risk at 130.0, before that"),
    (_IDLE, (_warned(145), _MISSED), "is at risk until 700.0"),
    (_IDLE, (_warned(145), _warned(190, "resolved"), _MISSED), "is no longer at risk at 190.0"),
    (_IDLE, (_warned(145), _AGAIN, _OVER, _MISSED), "is reported at [145, 160]"),
    (_IDLE, (_warned(145, since=170), _OVER, _MISSED), "is at risk as of 170.0, and no run"),
    (_IDLE, (_warned(145, since=90), _OVER, _MISSED), "is reported at 145.0 as of"),
    (_IDLE, (_warned(145), _OVER, _warned(350, number=2), _MISSED), "350.0, and it is decided"),
    (_IN_TIME, (_warned(150), _warned(205, "resolved"), said_met(205)), "200 began in time"),
]


@pytest.mark.parametrize(("world", "arrivals", "text"), BROKEN)
def test_a_broken_warning_is_found(world: World, arrivals: tuple[Arrival, ...], text: str) -> None:
    """None, early, late, twice, not over, over too soon, without a reason: all is found."""
    assert any(text in found for found in texts_of(world, *arrivals)), texts_of(world, *arrivals)


def test_who_is_blind_warns_of_nothing() -> None:
    """In an outage no run that works is seen; after it, it may be too late to warn."""
    span = Span(100, 300)
    world = msgspec.structs.replace(_IDLE, outages=(span,))
    missed = said_alert(330, "fired")
    early = texts_of(world, _warned(150), _warned(330, "resolved"), missed, blind=[span])
    assert any("nothing is read since 100" in text for text in early)
    assert texts_of(world, missed, blind=[span]) == []
