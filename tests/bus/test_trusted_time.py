"""The time by which retention judges ages, of a clock that is set, and over restarts."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.bus.trusted_time import JudgedTime, TrustedTime
from tests.clocks import ManualClock

_DAY = 86_400.0
STEPS = (1, 3_600, 3_601, 40 * 86_400)


class Judged:
    """Asks once a minute, as retention does; ``true`` is what a clock shows that is never set."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.time = TrustedTime(self.clock.monotonic)
        self.before: JudgedTime | None = None
        self._began = self.clock.now()

    def restart(self) -> None:
        """Go on from what was judged last, in a process whose monotonic clock begins again."""
        assert self.before is not None
        began = self.clock.monotonic()
        self.time = TrustedTime(lambda: self.clock.monotonic() - began)
        self.before = msgspec.json.decode(msgspec.json.encode(self.before), type=JudgedTime)

    def ahead(self) -> float:
        """Return by how much the judged time is ahead of the true one."""
        self.before = self.time.judge(self.clock.now(), before=self.before)
        true = self._began + timedelta(seconds=self.clock.monotonic())
        return (self.before.at - true).total_seconds()

    async def after(self, seconds: float) -> list[float]:
        """Return all answers of so many seconds."""
        answers = []
        for _ in range(int(seconds // 600)):
            await self.clock.advance(600)
            answers.append(self.ahead())
        return answers

    def set_by(self, seconds: float) -> None:
        self.clock.set_wall(self.clock.now() + timedelta(seconds=seconds))


@pytest.fixture
def judged() -> Judged:
    return Judged()


@pytest.mark.parametrize("step", [*STEPS, *(-step for step in STEPS)])
async def test_no_step_makes_anything_older_within_a_day(judged: Judged, step: int) -> None:
    """Whichever way the clock is set, and set right again, the judged time never runs ahead."""
    assert judged.ahead() == pytest.approx(0, abs=0.001)
    for seconds in (step, -step):
        judged.set_by(seconds)
        assert all(ahead <= 0.001 for ahead in await judged.after(6_000))


@pytest.mark.parametrize("step", [3_000, 3_601, 40 * 86_400])
async def test_a_step_ahead_counts_when_it_has_lasted(judged: Judged, step: int) -> None:
    """For a day not at all; the judged time follows within two."""
    judged.ahead()
    judged.set_by(step)
    assert await judged.after(_DAY) == [pytest.approx(0, abs=0.001)] * 144
    assert (await judged.after(_DAY))[-1] == pytest.approx(step)


@pytest.mark.parametrize("step", [3_601, -3_601, 3_599, -3_599])
async def test_a_step_of_more_than_an_hour_is_noticed_once(judged: Judged, step: int) -> None:
    """As what it was; a smaller one is what time services do."""
    judged.ahead()
    judged.set_by(step)
    judged.ahead()
    noticed = judged.time.step_seconds
    assert (noticed == pytest.approx(step)) if abs(step) > 3_600 else (noticed is None)
    judged.ahead()
    assert judged.time.step_seconds is None


async def test_many_small_steps_are_no_way_around(judged: Judged) -> None:
    """A clock that is set ahead by almost an hour again and again makes nothing old at once."""
    judged.ahead()
    for _ in range(100):
        judged.set_by(3_500)
        assert judged.ahead() == pytest.approx(0, abs=0.001)


@pytest.mark.parametrize("hours_on", [1, 12, 23])
async def test_pauses_and_steps_are_the_same_over_restarts(judged: Judged, hours_on: int) -> None:
    """The time without a daemon counts after a day of running, and within two."""
    judged.ahead()
    for _ in range(24 // hours_on + 1):
        judged.set_by(_DAY)
        judged.restart()
        assert judged.ahead() == pytest.approx(0, abs=0.001)
        await judged.after(hours_on * 3_600)
    for _ in range(48 // hours_on):
        judged.restart()
        judged.ahead()
        last = await judged.after(hours_on * 3_600)
    assert last[-1] == pytest.approx((24 // hours_on + 1) * _DAY)


async def test_a_clock_that_is_back_after_a_restart_counts_at_once(judged: Judged) -> None:
    """Whatever was judged before: the earlier time deletes less."""
    judged.ahead()
    judged.set_by(-40 * _DAY)
    judged.restart()
    assert judged.ahead() == pytest.approx(-40 * _DAY)
    assert judged.time.step_seconds is None  # it was not observed
