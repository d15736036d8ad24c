"""One browser and one living workspace for all tests of a worker: they take seconds to start."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.living_workspace import LivingWorkspace, living_workspace
from tests.browser.screens import launched


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def living(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LivingWorkspace]:
    async with living_workspace(tmp_path_factory.mktemp("living")) as living:
        yield living
