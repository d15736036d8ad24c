"""The token endpoint fails: it is tried again within limits, and said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.model.errors import WorkspaceUnreachableError
from tests.app.oauth_scenario import OauthScenario, oauth_scenario


@pytest.fixture(name="scenario")
async def _scenario(tmp_path: Path) -> AsyncIterator[OauthScenario]:
    async with oauth_scenario(tmp_path) as scenario:
        yield scenario


@pytest.mark.parametrize("days", [0, -3])
async def test_a_failing_endpoint_is_tried_with_a_capped_wait(
    scenario: OauthScenario, days: int
) -> None:
    """The old access token is used to its end; then requests say why there is none.

    Whatever our wall clock shows meanwhile: how long it fails is no question of that.
    """
    async with scenario.running() as daemon:
        scenario.sandbox.world.options.token_status_503 = 1.0
        for number in range(9):
            await daemon.cycle()
            assert await daemon.can_read()
            if number == 7:
                scenario.clock.set_wall(scenario.clock.now() + timedelta(days=days))
        await daemon.cycle()
        assert daemon.trouble is not None
        assert "503" in daemon.trouble.reason
        for _ in range(20):
            await daemon.cycle()
        with pytest.raises(WorkspaceUnreachableError, match="503"):
            await daemon.can_read()
        assert daemon.count("server_error") <= 6 + 13
        scenario.sandbox.world.options.token_status_503 = 0.0
        await daemon.recovered()
        assert await daemon.can_read()


async def test_an_endpoint_that_is_back_is_tried_within_a_minute(scenario: OauthScenario) -> None:
    """However long it was away, the waits between two tries have not grown beyond that."""
    async with scenario.running() as daemon:
        scenario.sandbox.world.options.token_status_503 = 1.0
        for _ in range(120):
            await daemon.cycle()
        with pytest.raises(WorkspaceUnreachableError, match="503"):
            await daemon.can_read()
        scenario.sandbox.world.options.token_status_503 = 0.0
        for _ in range(2):
            await daemon.cycle(30.0)
        assert daemon.trouble is None
        assert await daemon.can_read()
