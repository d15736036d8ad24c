"""The time by which retention judges ages, of a clock that is set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.bus.trusted_time import TrustedTime
from tests.clocks import ManualClock

_DAY = 86_400.0
STEPS = (1, 3_600, 3_601, 40 * 86_400)


class Judged:
    """Asks once a minute, as retention does; ``true`` is what a clock shows that nobody sets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.time = TrustedTime(self.clock.monotonic)
        self._began = self.clock.now()

    def ahead(self) -> float | None:
        """Return by how much the judged time is ahead of the true one; None: it waits."""
        judged = self.time.judge(self.clock.now(), judged_at=None)
        true = self._began + timedelta(seconds=self.clock.monotonic())
        return None if judged is None else (judged - true).total_seconds()

    async def after(self, seconds: float) -> list[float | None]:
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
    assert judged.ahead() == 0
    for seconds in (step, -step):
        judged.set_by(seconds)
        assert all(ahead is None or ahead <= 0 for ahead in await judged.after(6_000))


@pytest.mark.parametrize("step", [3_601, -3_601])
async def test_a_step_of_more_than_an_hour_stops_for_a_day(judged: Judged, step: int) -> None:
    """Then the clock has confirmed itself by going on, and ages are judged by it."""
    judged.ahead()
    judged.set_by(step)
    assert set(await judged.after(_DAY)) == {None}
    assert judged.time.step is not None
    assert judged.time.step.seconds == pytest.approx(step)
    assert await judged.after(600) == [pytest.approx(step)]
    assert judged.time.step is None


async def test_a_small_step_ahead_counts_when_it_has_lasted(judged: Judged) -> None:
    """It stops nothing; the judged time follows within two days."""
    judged.ahead()
    judged.set_by(3_000)
    assert set(await judged.after(_DAY / 2)) == {0.0}
    assert (await judged.after(2 * _DAY))[-1] == pytest.approx(3_000)


async def test_many_small_steps_are_no_way_around(judged: Judged) -> None:
    """A clock that is set ahead by almost an hour again and again makes nothing old at once."""
    judged.ahead()
    for _ in range(100):
        judged.set_by(3_500)
        assert judged.ahead() == 0


@pytest.mark.parametrize(("ago", "waits"), [(3_000.0, False), (3_700.0, True), (-3_700.0, True)])
async def test_a_start_compares_the_clock_with_what_was_judged_before(
    judged: Judged, ago: float, *, waits: bool
) -> None:
    """A store that was judged hours ago, or later than now, waits a day."""
    before = judged.clock.now() - timedelta(seconds=ago)
    assert (judged.time.judge(judged.clock.now(), judged_at=before) is None) is waits
    assert (judged.time.step is not None) is waits
    if judged.time.step is not None:
        assert judged.time.step.at_start
        await judged.clock.advance(_DAY)
        assert judged.ahead() == 0
