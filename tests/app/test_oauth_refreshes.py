"""Access tokens are refreshed ahead of their end, stored first, and every outcome is said."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from monitor.logs import Redactor
from monitor.model.errors import UnauthorizedError
from monitor.model.secrets import Secret
from monitor.workspace.access.stored_tokens import TokenMemory
from tests.app.eventually import pause
from tests.app.oauth_scenario import ACCESS_SECONDS, OauthScenario, oauth_scenario
from tests.clocks import ManualClock


@pytest.fixture(name="scenario")
async def _scenario(tmp_path: Path) -> AsyncIterator[OauthScenario]:
    async with oauth_scenario(tmp_path) as scenario:
        yield scenario


async def test_tokens_are_refreshed_ahead_of_their_end(scenario: OauthScenario) -> None:
    """Over an hour every request has a token that is alive, and none is refused."""
    async with scenario.running() as daemon:
        for _ in range(120):
            assert await daemon.can_read()
            await daemon.cycle()
        # At two thirds of each life, seen up to one step of this test later.
        assert 3_600 / (ACCESS_SECONDS * 2 / 3 + 30) < daemon.count("refreshed") <= 19
        assert daemon.refused_requests() == 0
        assert daemon.trouble is None


@pytest.mark.parametrize("hours", [-5, 5])
async def test_our_wall_clock_is_set(scenario: OauthScenario, hours: int) -> None:
    """Access tokens live for a duration: nothing notices, and what is shown moves along."""
    daemon = scenario.refresher()
    daemon.clock = ManualClock()
    await daemon.start()
    await daemon.begun()
    await daemon.clock.advance(10)  # longer than the least time between two refreshes
    daemon.clock.set_wall(daemon.clock.now() + timedelta(hours=hours))
    for number in range(1, 10):
        await scenario.clock.advance(30)
        await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.count("refreshed") == (1 if number < 7 else 2)
        assert daemon.status.expires_at is not None
        assert timedelta(0) < daemon.status.expires_at - daemon.clock.now() < timedelta(seconds=301)
        assert daemon.status.refreshed_at is not None
        age = daemon.clock.now() - daemon.status.refreshed_at
        assert timedelta(seconds=-1) < age < timedelta(seconds=301)
    assert daemon.refused_requests() == 0
    await daemon.stop()
    # What is stored is by the clock as it was set before: at most a life is believed.
    daemon.clock.set_wall(daemon.clock.now() - timedelta(hours=hours))
    await daemon.start()
    for _ in range(10):
        await scenario.clock.advance(30)
        await daemon.cycle()
        assert await daemon.can_read()
    assert daemon.trouble is None
    await daemon.stop()


async def test_a_restart_goes_on_with_the_stored_pair(scenario: OauthScenario) -> None:
    """The access token is used to its end, then the stored refresh token, not that of the file."""
    async with scenario.running() as daemon:
        assert daemon.count("refreshed") == 1
    async with scenario.running() as daemon:
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 0
        for _ in range(10):
            await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 1


async def test_a_401_refreshes_once_and_repeats_the_request(scenario: OauthScenario) -> None:
    """An access token that is revoked early costs one refused request that no face shows."""
    async with scenario.running() as daemon:
        scenario.revoke_access_tokens()
        await scenario.clock.advance(5)
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 2


async def test_a_workspace_that_refuses_every_token_causes_no_storm(
    scenario: OauthScenario,
) -> None:
    """Only one refresh a minute is made because of 401s."""
    async with scenario.running() as daemon:
        refused = 0
        for _ in range(20):
            scenario.revoke_access_tokens()
            try:
                await daemon.can_read()
            except UnauthorizedError:
                refused += 1
            await scenario.clock.advance(6)
        assert 2 <= daemon.count("refreshed") <= 1 + 2
        assert refused >= 15


async def test_a_lost_answer_locks_out_and_is_said(scenario: OauthScenario) -> None:
    """The old refresh token is tried again; once it is refused, the reason names the lost one."""
    async with scenario.running() as daemon:
        scenario.sandbox.world.options.token_answer_lost = 1.0
        await scenario.clock.advance(ACCESS_SECONDS * 2 / 3)
        await daemon.until(lambda: daemon.trouble is not None)
        assert daemon.count("unanswered") == 1
        assert daemon.trouble is not None
        assert "its answer is lost" in daemon.trouble.reason
        assert await daemon.can_read()  # the old access token lives on
        scenario.sandbox.world.options.token_answer_lost = 0.0
        await daemon.cycle(10)
        await daemon.until(lambda: daemon.count("refused") == 1)
        await daemon.cycle()
        assert daemon.trouble.reason.startswith("locked out")
        assert "its answer was never stored" in daemon.trouble.reason
        assert "generate a new token pair" in daemon.trouble.advice
        await scenario.clock.advance(ACCESS_SECONDS)
        with pytest.raises(UnauthorizedError, match="locked out") as refused:
            await daemon.can_read()
        assert Redactor().text(str(refused.value)) == str(refused.value)  # the log shows all of it


async def test_a_refused_token_is_not_sent_again_and_again(scenario: OauthScenario) -> None:
    """Locked out, one refresh an hour is tried, also over restarts; a new token ends it."""
    scenario.revoke_pair()
    async with scenario.running() as daemon:
        for _ in range(60):
            await daemon.cycle()
        assert daemon.count("refused") == 1
    async with scenario.running() as daemon:
        for _ in range(10):
            await daemon.cycle()
        assert daemon.count("refused") == 0
        scenario.generate_pair()
        await daemon.cycle()
        await daemon.until(lambda: daemon.trouble is None)
        assert await daemon.can_read()


async def test_a_restored_backup_is_said(scenario: OauthScenario) -> None:
    """An older pair in the store is refused, and the reason names an older copy."""
    async with scenario.running():
        pass
    shutil.copy(scenario.folder / "state.db", scenario.folder / "backup.db")
    async with scenario.running() as daemon:
        for _ in range(20):
            await daemon.cycle()
    async with scenario.running("backup.db") as daemon:
        await daemon.until(lambda: daemon.trouble is not None)
        assert daemon.trouble is not None
        assert "the store is an older copy" in daemon.trouble.reason
        with pytest.raises(UnauthorizedError, match="older copy"):
            await daemon.can_read()


async def test_two_daemons_with_one_pair(scenario: OauthScenario) -> None:
    """The second one is locked out and says that another program uses the pair."""
    async with scenario.running("one.db") as first, scenario.running("two.db") as second:
        assert second.trouble is not None
        assert "another program or daemon has used it" in second.trouble.reason
        await first.cycle(ACCESS_SECONDS)
        assert await first.can_read()
        assert first.trouble is None


async def test_a_new_token_in_the_file_wins(scenario: OauthScenario) -> None:
    """A person's new pair replaces one that works, within a minute and without SIGHUP."""
    async with scenario.running() as daemon:
        before = (await daemon.load()).pair
        scenario.generate_pair()
        await daemon.cycle()
        after = (await daemon.load()).pair
        assert before is not None
        assert after is not None
        assert after.configured != before.configured
        assert await daemon.can_read()


async def test_every_token_is_registered_before_it_is_used(scenario: OauthScenario) -> None:
    """The list of masked texts grows with each refresh, start and new file, and stays short."""
    daemon, redactor = scenario.refresher(), Redactor()
    daemon.memory = TokenMemory(redactor.register)
    await daemon.start()
    await daemon.begun()
    pair = (await daemon.load()).pair
    assert pair is not None
    scenario.generate_pair()
    await daemon.cycle()
    for _ in range(40):
        await daemon.cycle(60)
        newest = (await daemon.load()).pair
        assert newest is not None
        secrets = (newest.access_token, newest.refresh_token, Secret(scenario.file.text))
        assert redactor.text(" ".join(secret.reveal() for secret in secrets)) == "*** *** ***"
    first = pair.access_token.reveal()
    assert redactor.text(first) == first  # dead for long
    await daemon.stop()
    daemon, after = scenario.refresher(), Redactor()
    daemon.memory = TokenMemory(after.register)
    await daemon.start()
    await daemon.begun()
    assert newest is not None
    assert after.text(newest.access_token.reveal()) == "***"
    await daemon.stop()


async def test_a_wrong_token_in_the_file_costs_nothing(scenario: OauthScenario) -> None:
    """It is refused and reported, and the pair before it stays in use."""
    async with scenario.running() as daemon:
        scenario.file.text = "mistyped"
        await daemon.cycle()
        await daemon.cycle()
        assert daemon.trouble is not None
        assert "the pair before it stays in use" in daemon.trouble.reason
        for _ in range(30):
            await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.count("refused") == 1


async def test_an_empty_file_keeps_the_former_token(scenario: OauthScenario) -> None:
    """It is logged once, and refreshes go on."""
    with structlog.testing.capture_logs() as logged:
        async with scenario.running() as daemon:
            scenario.file.text = ""
            for _ in range(30):
                await daemon.cycle()
            assert await daemon.can_read()
    assert sum("cannot be read again" in line["event"] for line in logged) == 1


async def test_no_text_shows_a_token(scenario: OauthScenario) -> None:
    """Neither the status nor what is stored shows one in its `repr`."""
    async with scenario.running() as daemon:
        stored = await daemon.load()
        assert stored.pair is not None
        secrets = [stored.pair.refresh_token.reveal(), stored.pair.access_token.reveal()]
        texts = [repr(stored), repr(daemon.status), repr(daemon.tokens)]
        assert not [text for text in texts for secret in secrets if secret in text]


async def test_a_stop_waits_for_the_answer(scenario: OauthScenario) -> None:
    """A reload, a handover or SIGTERM within a refresh stores its answer first, cancelled twice."""
    assert scenario.sandbox.pair is not None
    daemon = scenario.refresher()
    await daemon.start()
    await daemon.begun()
    scenario.sandbox.world.options.token_answer_latency = 10.0
    await scenario.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(
        lambda: scenario.sandbox.pair is not None and scenario.sandbox.pair.refreshes == 2
    )
    stopping = asyncio.create_task(daemon.stop())
    await scenario.clock.advance(5)
    daemon.task.cancel()
    await scenario.clock.advance(1)
    assert not stopping.done()
    await scenario.clock.advance(10)
    await stopping
    async with scenario.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0
        assert await daemon.can_read()


async def test_without_the_store_nothing_is_sent(scenario: OauthScenario) -> None:
    """The old access token goes on, the reason is said, and a store that is back ends it."""
    async with scenario.running() as daemon:
        daemon.refuses_all = True
        for _ in range(9):
            await daemon.cycle()
            assert await daemon.can_read()
        await daemon.cycle()
        assert scenario.sandbox.pair is not None
        assert scenario.sandbox.pair.refreshes == 1
        assert daemon.trouble is not None
        assert "disk full" in daemon.trouble.reason
        daemon.refuses_all = False
        await daemon.recovered()


async def test_a_pair_is_not_used_before_it_is_stored(scenario: OauthScenario) -> None:
    """While the store refuses it, the old access token is used and storing is tried again."""
    async with scenario.running() as daemon:
        assert scenario.sandbox.pair is not None
        before = await daemon.tokens.current()
        daemon.refuses_pairs = True
        await scenario.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
        pair = scenario.sandbox.pair
        await daemon.until(lambda: pair.refreshes == 2)
        for _ in range(9):
            await scenario.clock.advance(10)
            await pause(0.01)
            assert await daemon.tokens.current() == before
        await daemon.until(lambda: daemon.trouble is not None)
        assert daemon.trouble is not None
        assert "a new token pair waits for the store: disk full" in daemon.trouble.reason
        daemon.refuses_pairs = False
        await daemon.cycle(60)
        await daemon.until(lambda: daemon.count("refreshed") == 2)
        assert await daemon.tokens.current() != before
        assert await daemon.can_read()


async def test_a_stop_stores_a_pair_that_the_store_refused(scenario: OauthScenario) -> None:
    """A daemon that ends tries a few more times, and a store that is back takes the pair."""
    daemon = scenario.refresher()
    await daemon.start()
    await daemon.begun()
    daemon.refuses_pairs = True
    await scenario.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(
        lambda: scenario.sandbox.pair is not None and scenario.sandbox.pair.refreshes == 2
    )
    stopping = asyncio.create_task(daemon.stop())
    await scenario.clock.advance(0.5)
    daemon.refuses_pairs = False
    while not stopping.done():
        await scenario.clock.advance(0.5)
        await pause(0.01)
    async with scenario.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0


async def test_an_endpoint_that_revokes_at_reuse(scenario: OauthScenario) -> None:
    """Of two daemons with one pair, the second then costs the first its pair too, which says so."""
    scenario.sandbox.world.options.token_reuse_revokes = True
    async with scenario.running("one.db") as first, scenario.running("two.db") as second:
        assert second.trouble is not None
        await scenario.clock.advance(ACCESS_SECONDS)
        await first.until(lambda: first.trouble is not None)
        assert first.trouble is not None
        assert first.trouble.reason.startswith("locked out")


async def test_a_store_holds_no_configured_token(scenario: OauthScenario) -> None:
    """Of the token that a person gave there is only a hash, once it has been used."""
    async with scenario.running() as daemon:
        given = scenario.file.text
        entries = await daemon.bus.state_entries("acme", "oauth")
    assert len(entries) == 1
    assert not [value for value in entries.values() if given.encode() in value]


async def test_requests_refused_together_wait_for_one_refresh(scenario: OauthScenario) -> None:
    """One refresh is made because of their 401s, and each of them is repeated after it."""
    async with scenario.running() as daemon:
        await scenario.clock.advance(10)
        pair = scenario.sandbox.pair
        assert pair is not None
        scenario.revoke_access_tokens()
        scenario.sandbox.world.options.token_answer_latency = 10.0
        reads = [asyncio.create_task(daemon.can_read()) for _ in range(3)]
        await daemon.until(lambda: daemon.refused_requests() == 3 and pair.refreshes == 2)
        scenario.sandbox.world.options.token_answer_latency = 0.0
        await scenario.clock.advance(11)
        assert await asyncio.gather(*reads, return_exceptions=True) == [True] * 3
        assert daemon.count("refreshed") == 2
