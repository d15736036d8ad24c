"""Both listeners behind each of the proxies that ``deploy/proxies`` configures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.deploy.proxies import COMMANDS, Fronted
from tests.deploy.proxies import fronted as front


@pytest.fixture(params=COMMANDS)
def proxy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def fronted(tmp_path: Path, proxy: str) -> AsyncIterator[Fronted]:
    async with front(tmp_path, proxy) as made:
        yield made


@pytest.fixture
async def with_users(tmp_path: Path, proxy: str) -> AsyncIterator[Fronted]:
    """The proxy authenticates its users, and the daemon believes it."""
    async with front(tmp_path, proxy, with_users=True) as made:
        yield made
