"""A session in a real browser: on two daemons of one store, and from an OpenID provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from monitor.bus.settings import StorageSettings
from monitor.config import Configuration
from monitor.model.secrets import Secret
from monitor.web.settings import OidcSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.browser.screens import Screen, screen
from tests.browser.test_browser_login import SETTINGS, log_in
from tests.postgres_server import PostgresServer
from tests.servers import Relay, free_port
from tests.web.openid_provider import Provider
from tests.web.people import token_of
from tests.web.serving import serving
from tests.web.site import Site

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # The provider's own library warns of its future.
    pytest.mark.filterwarnings("ignore:.*:authlib.deprecate.AuthlibDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    name = await postgres.create_database()
    yield postgres.url(name)
    await postgres.drop_database(name)


def daemon_of(folder: Path, database: str, name: str) -> Configuration:
    made = fixture.configuration(folder, fixture.unreachable("acme"))
    storage = StorageSettings(url=database, daemon=name)
    return msgspec.structs.replace(made, storage=storage, server=SETTINGS)


async def log_out(shown: Screen) -> None:
    await shown.page.get_by_role("link", name="Account").click()
    await shown.page.get_by_role("button", name="Log out").click()
    await shown.page.wait_for_url("**/login")


async def test_a_session_is_one_for_all_daemons(
    tmp_path: Path, database: str, browser: Browser
) -> None:
    """Begun on one daemon behind an address it goes on at the other; ended there it is over."""
    async with (
        fixture.daemon(daemon_of(tmp_path, database, "north")) as north,
        fixture.daemon(daemon_of(tmp_path, database, "south")) as south,
        screen(browser) as shown,
    ):
        ports = [int(face.url.rpartition(":")[2]) for face in (north, south)]
        async with Relay(ports[0]) as address:
            url = f"http://127.0.0.1:{address.port}"
            await shown.page.goto(f"{url}/runs")
            await log_in(shown, token_of("operate-user"))
            await shown.page.wait_for_url("**/runs")
            address.lead_to(ports[1])
            await shown.page.goto(f"{url}/alerts")
            assert shown.page.url == f"{url}/alerts"
            await log_out(shown)
            address.lead_to(ports[0])

            async def is_refused() -> bool:
                await shown.page.goto(f"{url}/runs")
                return "/login?next=%2Fruns" in shown.page.url

            await eventually(is_refused, why="the first daemon still takes the session")


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def single_sign_on(tmp_path: Path, provider: Provider) -> AsyncIterator[Site]:
    port = free_port()
    settings = msgspec.structs.replace(
        SETTINGS,
        listen=f"127.0.0.1:{port}",
        public_url=f"http://127.0.0.1:{port}",
        oidc=OidcSettings(
            issuer=provider.issuer, client_id="dataprep-monitor", client_secret=Secret("any")
        ),
    )
    async with serving(tmp_path, settings) as site:
        site.clock.set_wall(datetime.now(UTC))  # that of the provider
        yield site


async def sign_on(shown: Screen, name: str) -> None:
    """Follow the button to the provider, and say there who it is."""
    await shown.page.get_by_role("link", name="Log in with single sign-on").click()
    await shown.page.get_by_placeholder("sub").fill(name)
    await shown.page.get_by_role("button", name="Authorize").click()


async def test_a_person_logs_in_at_a_provider_and_out(
    single_sign_on: Site, browser: Browser
) -> None:
    """The page that was wanted comes after it; logged out, or late, the form comes again."""
    url = single_sign_on.url
    async with screen(browser) as shown:
        await shown.page.goto(f"{url}/runs")
        await sign_on(shown, "read-user")
        await shown.page.wait_for_url(f"{url}/runs")
        await shown.page.goto(f"{url}/account")
        await shown.until_text("read-user@example.com")
        await log_out(shown)
        await shown.page.goto(f"{url}/runs")
        assert "/login?next=%2Fruns" in shown.page.url
        await sign_on(shown, "read-user")
        await shown.page.wait_for_url(f"{url}/runs")
        await single_sign_on.clock.advance(SETTINGS.session_seconds + 1)
        await shown.page.goto(f"{url}/runs")
        assert "/login?next=%2Fruns" in shown.page.url


async def test_whom_no_entry_names_is_told_so(single_sign_on: Site, browser: Browser) -> None:
    """The form says it, and no session has begun."""
    async with screen(browser) as shown:
        await shown.page.goto(f"{single_sign_on.url}/login")
        await sign_on(shown, "eve")
        await shown.until_text("eve@example.com has no entry")
        cookies = {cookie.get("name") for cookie in await shown.page.context.cookies()}

        assert "dataprep_monitor_session" not in cookies
