"""The server over a real store and knowledge that a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.web.settings import ServerSettings
from tests.web.form_client import Browser
from tests.web.serving import serving
from tests.web.site import Site


@pytest.fixture
def settings() -> ServerSettings:
    """Override in a test's parameters where it needs others."""
    # The clock stands still, and some tests write hundreds of times.
    return ServerSettings(listen="127.0.0.1:0", stale_after_seconds=600, writes_per_minute=100_000)


@pytest.fixture
async def site(tmp_path: Path, settings: ServerSettings) -> AsyncIterator[Site]:
    async with serving(tmp_path, settings) as made:
        yield made


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[Browser]:
    """Return what keeps cookies and sends forms as browsers do."""
    made = Browser(site)
    yield made
    await made.close()
