"""The server over TLS: people are known by their certificates."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from tests.certificates import Certificates
from tests.web.people import entry, token_of
from tests.web.serving import serving
from tests.web.site import Site

RUNS = "/api/v1/runs"
READER = msgspec.structs.replace(entry("ada", Role.READ), users=("client",))


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def secured(tmp_path: Path, certificates: Certificates) -> AsyncIterator[Site]:
    tls = certificates.settings(certificates.server, client_ca_file=certificates.authority)
    settings = ServerSettings(
        listen="127.0.0.1:0", tls=tls, access=(READER,), wrong_credentials_delay_seconds=0
    )
    async with serving(tmp_path, settings) as site:
        yield site


async def status_of(
    site: Site, context: ssl.SSLContext, path: str, *, method: str = "GET", token: str = ""
) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{site.url}{path}"
    async with site.session.request(method, url, ssl=context, headers=headers) as answer:
        return answer.status


async def test_a_client_certificate_names_the_person(
    secured: Site, certificates: Certificates
) -> None:
    """Its name among the users of an entry lets in with the role of that, and no other does."""
    context = ssl.create_default_context(cafile=certificates.authority)
    assert await status_of(secured, context, RUNS) == 401
    context = ssl.create_default_context(cafile=certificates.authority)
    context.load_cert_chain(certificates.client, certificates.key_of(certificates.client))
    assert await status_of(secured, context, RUNS) == 200
    assert await status_of(secured, context, "/api/v1/webhooks", method="POST") == 403
    stranger = certificates.sign("stranger", "extendedKeyUsage=clientAuth")
    other = ssl.create_default_context(cafile=certificates.authority)
    other.load_cert_chain(stranger, certificates.key_of(stranger))
    assert await status_of(secured, other, RUNS) == 401
    assert await status_of(secured, other, RUNS, token=token_of("ada")) == 200


async def test_a_certificate_that_expires_lets_in_no_longer(
    secured: Site, certificates: Certificates
) -> None:
    """Also on a connection that began before, and goes on."""
    context = ssl.create_default_context(cafile=certificates.authority)
    context.load_cert_chain(certificates.client, certificates.key_of(certificates.client))
    secured.clock.set_wall(datetime.now(UTC))
    before = await status_of(secured, context, RUNS)
    secured.clock.set_wall(datetime.now(UTC) + timedelta(days=3))

    assert before == 200
    assert await status_of(secured, context, RUNS) == 401
