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
from tests.app.oauth_scene import ACCESS_SECONDS, OauthScene, oauth_scene
from tests.clocks import ManualClock


@pytest.fixture(name="scene")
async def _scene(tmp_path: Path) -> AsyncIterator[OauthScene]:
    async with oauth_scene(tmp_path) as scene:
        yield scene


async def test_tokens_are_refreshed_ahead_of_their_end(scene: OauthScene) -> None:
    """Over an hour every request has a token that is alive, and none is refused."""
    async with scene.running() as daemon:
        for _ in range(120):
            assert await daemon.can_read()
            await daemon.cycle()
        # At two thirds of each life, seen up to one step of this test later.
        assert 3_600 / (ACCESS_SECONDS * 2 / 3 + 30) < daemon.count("refreshed") <= 19
        assert daemon.refused_requests() == 0
        assert daemon.trouble is None


@pytest.mark.parametrize("hours", [-5, 5])
async def test_our_wall_clock_is_set(scene: OauthScene, hours: int) -> None:
    """Access tokens live for a duration: nothing notices, and what is shown moves along."""
    daemon = scene.refresher()
    daemon.clock = ManualClock()
    await daemon.start()
    await daemon.begun()
    await daemon.clock.advance(10)  # longer than the least time between two refreshes
    daemon.clock.set_wall(daemon.clock.now() + timedelta(hours=hours))
    for number in range(1, 10):
        await scene.clock.advance(30)
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
        await scene.clock.advance(30)
        await daemon.cycle()
        assert await daemon.can_read()
    assert daemon.trouble is None
    await daemon.stop()


async def test_a_restart_goes_on_with_the_stored_pair(scene: OauthScene) -> None:
    """The access token is used to its end, then the stored refresh token, not that of the file."""
    async with scene.running() as daemon:
        assert daemon.count("refreshed") == 1
    async with scene.running() as daemon:
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 0
        for _ in range(10):
            await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 1


async def test_a_401_refreshes_once_and_repeats_the_request(scene: OauthScene) -> None:
    """An access token that is revoked early costs one refused request that nobody sees."""
    async with scene.running() as daemon:
        scene.revoke_access_tokens()
        await scene.clock.advance(5)
        assert await daemon.can_read()
        assert daemon.count("refreshed") == 2


async def test_a_workspace_that_refuses_every_token_causes_no_storm(scene: OauthScene) -> None:
    """Only one refresh a minute is made because of 401s."""
    async with scene.running() as daemon:
        refused = 0
        for _ in range(20):
            scene.revoke_access_tokens()
            try:
                await daemon.can_read()
            except UnauthorizedError:
                refused += 1
            await scene.clock.advance(6)
        assert 2 <= daemon.count("refreshed") <= 1 + 2
        assert refused >= 15


async def test_a_lost_answer_locks_out_and_is_said(scene: OauthScene) -> None:
    """The old refresh token is tried again; once it is refused, the reason names the lost one."""
    async with scene.running() as daemon:
        scene.sandbox.world.options.token_answer_lost = 1.0
        await scene.clock.advance(ACCESS_SECONDS * 2 / 3)
        await daemon.until(lambda: daemon.trouble is not None)
        assert daemon.count("unanswered") == 1
        assert daemon.trouble is not None
        assert "its answer is lost" in daemon.trouble.reason
        assert await daemon.can_read()  # the old access token lives on
        scene.sandbox.world.options.token_answer_lost = 0.0
        await daemon.cycle(10)
        await daemon.until(lambda: daemon.count("refused") == 1)
        await daemon.cycle()
        assert daemon.trouble.reason.startswith("locked out")
        assert "its answer was never stored" in daemon.trouble.reason
        assert "generate a new token pair" in daemon.trouble.advice
        await scene.clock.advance(ACCESS_SECONDS)
        with pytest.raises(UnauthorizedError, match="locked out") as refused:
            await daemon.can_read()
        assert Redactor().text(str(refused.value)) == str(refused.value)  # the log shows all of it


async def test_a_refused_token_is_not_sent_again_and_again(scene: OauthScene) -> None:
    """Locked out, one refresh an hour is tried, also over restarts; a new token ends it."""
    scene.revoke_pair()
    async with scene.running() as daemon:
        for _ in range(60):
            await daemon.cycle()
        assert daemon.count("refused") == 1
    async with scene.running() as daemon:
        for _ in range(10):
            await daemon.cycle()
        assert daemon.count("refused") == 0
        scene.generate_pair()
        await daemon.cycle()
        await daemon.until(lambda: daemon.trouble is None)
        assert await daemon.can_read()


async def test_a_restored_backup_is_said(scene: OauthScene) -> None:
    """An older pair in the store is refused, and the reason names an older copy."""
    async with scene.running():
        pass
    shutil.copy(scene.folder / "state.db", scene.folder / "backup.db")
    async with scene.running() as daemon:
        for _ in range(20):
            await daemon.cycle()
    async with scene.running("backup.db") as daemon:
        await daemon.until(lambda: daemon.trouble is not None)
        assert daemon.trouble is not None
        assert "the store is an older copy" in daemon.trouble.reason
        with pytest.raises(UnauthorizedError, match="older copy"):
            await daemon.can_read()


async def test_two_daemons_with_one_pair(scene: OauthScene) -> None:
    """The second one is locked out and says that another program uses the pair."""
    async with scene.running("one.db") as first, scene.running("two.db") as second:
        assert second.trouble is not None
        assert "another program or daemon has used it" in second.trouble.reason
        await first.cycle(ACCESS_SECONDS)
        assert await first.can_read()
        assert first.trouble is None


async def test_a_new_token_in_the_file_wins(scene: OauthScene) -> None:
    """A person's new pair replaces one that works, within a minute and without SIGHUP."""
    async with scene.running() as daemon:
        before = (await daemon.load()).pair
        scene.generate_pair()
        await daemon.cycle()
        after = (await daemon.load()).pair
        assert before is not None
        assert after is not None
        assert after.configured != before.configured
        assert await daemon.can_read()


async def test_every_token_is_registered_before_it_is_used(scene: OauthScene) -> None:
    """What the log masks grows with each refresh, each start and each new file, and stays few."""
    daemon, redactor = scene.refresher(), Redactor()
    daemon.memory = TokenMemory(redactor.register)
    await daemon.start()
    await daemon.begun()
    pair = (await daemon.load()).pair
    assert pair is not None
    scene.generate_pair()
    await daemon.cycle()
    for _ in range(40):
        await daemon.cycle(60)
        newest = (await daemon.load()).pair
        assert newest is not None
        secrets = (newest.access_token, newest.refresh_token, Secret(scene.file.text))
        assert redactor.text(" ".join(secret.reveal() for secret in secrets)) == "*** *** ***"
    first = pair.access_token.reveal()
    assert redactor.text(first) == first  # dead for long
    await daemon.stop()
    daemon, after = scene.refresher(), Redactor()
    daemon.memory = TokenMemory(after.register)
    await daemon.start()
    await daemon.begun()
    assert newest is not None
    assert after.text(newest.access_token.reveal()) == "***"
    await daemon.stop()


async def test_a_wrong_token_in_the_file_costs_nothing(scene: OauthScene) -> None:
    """It is refused and reported, and the pair before it stays in use."""
    async with scene.running() as daemon:
        scene.file.text = "mistyped"
        await daemon.cycle()
        await daemon.cycle()
        assert daemon.trouble is not None
        assert "the pair before it stays in use" in daemon.trouble.reason
        for _ in range(30):
            await daemon.cycle()
        assert await daemon.can_read()
        assert daemon.count("refused") == 1


async def test_an_empty_file_keeps_the_former_token(scene: OauthScene) -> None:
    """It is logged once, and refreshes go on."""
    with structlog.testing.capture_logs() as logged:
        async with scene.running() as daemon:
            scene.file.text = ""
            for _ in range(30):
                await daemon.cycle()
            assert await daemon.can_read()
    assert sum("cannot be read again" in line["event"] for line in logged) == 1


async def test_no_text_shows_a_token(scene: OauthScene) -> None:
    """Neither the status nor what is stored shows one in its `repr`."""
    async with scene.running() as daemon:
        stored = await daemon.load()
        assert stored.pair is not None
        secrets = [stored.pair.refresh_token.reveal(), stored.pair.access_token.reveal()]
        texts = [repr(stored), repr(daemon.status), repr(daemon.tokens)]
        assert not [text for text in texts for secret in secrets if secret in text]


async def test_a_stop_waits_for_the_answer(scene: OauthScene) -> None:
    """A reload, a handover or SIGTERM within a refresh stores its answer first, cancelled twice."""
    assert scene.sandbox.pair is not None
    daemon = scene.refresher()
    await daemon.start()
    await daemon.begun()
    scene.sandbox.world.options.token_answer_latency = 10.0
    await scene.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(lambda: scene.sandbox.pair is not None and scene.sandbox.pair.refreshes == 2)
    stopping = asyncio.create_task(daemon.stop())
    await scene.clock.advance(5)
    daemon.task.cancel()
    await scene.clock.advance(1)
    assert not stopping.done()
    await scene.clock.advance(10)
    await stopping
    async with scene.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0
        assert await daemon.can_read()


async def test_without_the_store_nothing_is_sent(scene: OauthScene) -> None:
    """The old access token goes on, the reason is said, and a store that is back ends it."""
    async with scene.running() as daemon:
        daemon.refuses_all = True
        for _ in range(9):
            await daemon.cycle()
            assert await daemon.can_read()
        await daemon.cycle()
        assert scene.sandbox.pair is not None
        assert scene.sandbox.pair.refreshes == 1
        assert daemon.trouble is not None
        assert "disk full" in daemon.trouble.reason
        daemon.refuses_all = False
        await daemon.recovered()


async def test_a_pair_is_not_used_before_it_is_stored(scene: OauthScene) -> None:
    """While the store refuses it, the old access token is used and storing is tried again."""
    async with scene.running() as daemon:
        assert scene.sandbox.pair is not None
        before = await daemon.tokens.current()
        daemon.refuses_pairs = True
        await scene.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
        pair = scene.sandbox.pair
        await daemon.until(lambda: pair.refreshes == 2)
        for _ in range(9):
            await scene.clock.advance(10)
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


async def test_a_stop_stores_a_pair_that_the_store_refused(scene: OauthScene) -> None:
    """A daemon that ends tries a few more times, and a store that is back takes the pair."""
    daemon = scene.refresher()
    await daemon.start()
    await daemon.begun()
    daemon.refuses_pairs = True
    await scene.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(lambda: scene.sandbox.pair is not None and scene.sandbox.pair.refreshes == 2)
    stopping = asyncio.create_task(daemon.stop())
    await scene.clock.advance(0.5)
    daemon.refuses_pairs = False
    while not stopping.done():
        await scene.clock.advance(0.5)
        await pause(0.01)
    async with scene.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0


async def test_an_endpoint_that_revokes_at_reuse(scene: OauthScene) -> None:
    """Of two daemons with one pair, the second then costs the first its pair too, which says so."""
    scene.sandbox.world.options.token_reuse_revokes = True
    async with scene.running("one.db") as first, scene.running("two.db") as second:
        assert second.trouble is not None
        await scene.clock.advance(ACCESS_SECONDS)
        await first.until(lambda: first.trouble is not None)
        assert first.trouble is not None
        assert first.trouble.reason.startswith("locked out")


async def test_a_store_holds_no_configured_token(scene: OauthScene) -> None:
    """Of the token that a person gave there is only a hash, once it has been used."""
    async with scene.running() as daemon:
        given = scene.file.text
        entries = await daemon.bus.state_entries("acme", "oauth")
    assert len(entries) == 1
    assert not [value for value in entries.values() if given.encode() in value]


async def test_requests_refused_together_wait_for_one_refresh(scene: OauthScene) -> None:
    """One refresh is made because of their 401s, and each of them is repeated after it."""
    async with scene.running() as daemon:
        await scene.clock.advance(10)
        pair = scene.sandbox.pair
        assert pair is not None
        scene.revoke_access_tokens()
        scene.sandbox.world.options.token_answer_latency = 10.0
        reads = [asyncio.create_task(daemon.can_read()) for _ in range(3)]
        await daemon.until(lambda: daemon.refused_requests() == 3 and pair.refreshes == 2)
        scene.sandbox.world.options.token_answer_latency = 0.0
        await scene.clock.advance(11)
        assert await asyncio.gather(*reads, return_exceptions=True) == [True] * 3
        assert daemon.count("refreshed") == 2
