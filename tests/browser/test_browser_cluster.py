"""The page of a cluster that has trouble, in a real browser."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser

from monitor.web.health import ClusterProblems
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import Mirrored
from tests.browser.screens import DESKTOP, PHONE, TABLET, WIDE, screen
from tests.browser.views import LIVE
from tests.web.served_cluster import served_cluster, shard, two_daemons

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "a-workspace-with-a-name-that-is-as-long-as-a-name-may-be-" + 6 * "x"


async def test_everybody_can_read_who_holds_what(browser: Browser, tmp_path: Path) -> None:
    """axe-core finds nothing in light, in dark and on a phone, and nothing sticks out."""
    settings = ServerSettings(listen="127.0.0.1:0")
    async with served_cluster(tmp_path, settings, "acme", LONG) as cluster:
        clock = cluster.clock
        cluster.status = two_daemons(
            clock,
            shard("acme", "node-1", clock),
            shard(LONG, "node-2", clock, backlog=12_345, inbox=7),
            shard("gamma", None, clock, held_since=None),
            is_alive=False,
        )
        read_at = clock.now() - timedelta(seconds=12)
        url = "https://node-2.example.com:8080"
        cluster.mirror(LONG, Mirrored(holder="node-2", url=url, read_at=read_at))
        cluster.problems = ClusterProblems(words=("1 shard is held by no daemon: gamma",))
        for path in ("/cluster", "/workspaces", f"/workspaces/{LONG}"):
            async with screen(browser) as shown:
                await shown.page.goto(cluster.url + path)
                await shown.until(LIVE)
                assert shown.console == []
                assert await shown.page.locator(".failed-box").all_inner_texts() == []
                for width in (WIDE, TABLET, DESKTOP, PHONE):
                    await shown.resize(width)
                    assert await shown.sticking_out() == []
                assert await shown.violations() == []
                await shown.resize(DESKTOP)
                assert await shown.violations() == []
                await shown.page.emulate_media(color_scheme="dark")
                assert await shown.violations("color-contrast") == []
