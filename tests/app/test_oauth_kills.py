"""However a daemon dies within a refresh, it is locked out only where the answer itself was lost.

Real files, real requests to the sandbox's token endpoint, a clock that the test moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from monitor.model.live_state import TokenTroubleKind
from tests.app.oauth_scenario import ACCESS_SECONDS, OauthScenario, Refresher, Step, oauth_scenario
from tests.examples import examples

DUE_SECONDS = ACCESS_SECONDS * 2 / 3


@pytest.fixture(name="scenario")
async def _scenario(tmp_path: Path) -> AsyncIterator[OauthScenario]:
    async with oauth_scenario(tmp_path) as scenario:
        yield scenario


async def die(scenario: OauthScenario, daemon: Refresher, step: Step) -> None:
    """Let a daemon die in its next refresh, which is due now."""
    daemon.dies_at = step
    if step is Step.FENCED_BEFORE_SENDING:
        await scenario.clock.advance(DUE_SECONDS + 30)
        await daemon.until(lambda: daemon.count("not_sent") > 0)
        await daemon.stop()
        return
    await scenario.clock.advance(DUE_SECONDS + 30)
    await daemon.died()


async def said_to_be_lost(daemon: Refresher) -> bool:
    """True where the daemon says that it is locked out, and that the lost answer is why."""
    await daemon.until(lambda: daemon.trouble is not None)
    await daemon.cycle()
    trouble = daemon.trouble
    return (
        trouble is not None
        and trouble.reason.startswith("locked out")
        and "its answer was never stored" in trouble.reason
    )


@pytest.mark.parametrize("step", Step)
async def test_a_death_at_each_step(scenario: OauthScenario, step: Step) -> None:
    """The next daemon goes on, or says what is lost; a new pair in the file ends that."""
    async with scenario.running() as daemon:
        assert daemon.trouble is None
    daemon = scenario.refresher()
    await daemon.start()
    await daemon.begun()
    await die(scenario, daemon, step)
    async with scenario.running() as daemon:
        if step.loses_the_answer:
            assert await said_to_be_lost(daemon)
            scenario.generate_pair()
        await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.trouble is None


@pytest.mark.parametrize("step", [Step.BEFORE_ALL, Step.BEFORE_SENDING, Step.AFTER_STORING])
async def test_a_death_at_the_first_refresh(scenario: OauthScenario, step: Step) -> None:
    """The configured refresh token is not lost either."""
    daemon = scenario.refresher()
    daemon.dies_at = step
    await daemon.start()
    await daemon.died()
    async with scenario.running() as daemon:
        assert await daemon.can_read()
        assert daemon.trouble is None


Life = tuple[int, Step | None]  # how many half minutes a daemon lives, and where it dies
LIVES = st.lists(
    st.tuples(st.integers(0, 20), st.none() | st.sampled_from(Step)), min_size=1, max_size=8
)
FEW = settings(
    max_examples=examples(3),
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),  # each example takes a second: shrinking would take minutes
    suppress_health_check=[HealthCheck.too_slow],
)


@FEW
@given(LIVES)
def test_never_locked_out_by_ourselves(lives: list[Life]) -> None:
    """Over hours with deaths at any step, every daemon reads, or says which answer was lost."""

    async def live_on() -> None:
        with TemporaryDirectory() as folder:
            async with oauth_scenario(Path(folder)) as scenario:
                for half_minutes, step in lives:
                    await one_life(scenario, half_minutes, step)
                await one_life(scenario, 20, None)

    asyncio.run(live_on())


async def one_life(scenario: OauthScenario, half_minutes: int, step: Step | None) -> None:
    """Start a daemon on what the former one left, let it live, and let it end in that way."""
    daemon = scenario.refresher()
    await daemon.start()
    await daemon.begun()
    if scenario.has_lost_an_answer:
        assert await said_to_be_lost(daemon)
        scenario.generate_pair()
        await daemon.cycle()
    for _ in range(half_minutes):
        assert await daemon.can_read()
        await daemon.cycle()
    assert daemon.trouble is None
    assert await daemon.can_read()
    if step is None:
        await daemon.stop()
    else:
        await die(scenario, daemon, step)
    scenario.has_lost_an_answer = step is not None and step.loses_the_answer


@FEW
@given(LIVES, st.lists(st.booleans(), min_size=8, max_size=8))
def test_two_daemons_without_a_common_store(lives: list[Life], turns: list[bool]) -> None:
    """One of them may lock the other out; who cannot read always says why and what to do."""

    async def live_on() -> None:
        with TemporaryDirectory() as folder:
            async with oauth_scenario(Path(folder)) as scenario:
                for (half_minutes, step), turn in zip(lives, turns, strict=False):
                    await life_beside(scenario, half_minutes, step, "one.db" if turn else "two.db")

    asyncio.run(live_on())


async def life_beside(
    scenario: OauthScenario, half_minutes: int, step: Step | None, path: str
) -> None:
    """Live on a store of one's own with the pair of another daemon, which is not running now."""
    daemon = scenario.refresher(path)
    await daemon.start()
    await daemon.begun()
    for _ in range(half_minutes):
        await daemon.cycle()
    if _has_a_pair_left(daemon):
        await daemon.cycle()  # that pair may not have been tried yet
    if daemon.trouble is None or _has_a_pair_left(daemon):
        assert await daemon.can_read()
    else:
        assert daemon.trouble.reason.startswith("locked out")
        assert "generate a new token pair" in daemon.trouble.advice
        scenario.generate_pair()
        await daemon.cycle()
        assert await daemon.can_read()
    if step is None:
        await daemon.stop()
    else:
        await die(scenario, daemon, step)


def _has_a_pair_left(daemon: Refresher) -> bool:
    """True where the new token is refused, and the pair before it is said to stay in use."""
    trouble = daemon.trouble
    return trouble is not None and trouble.kind is TokenTroubleKind.NEW_TOKEN_REFUSED
