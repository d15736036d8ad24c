"""The socket for probes answers them alone, and while clients hold every place of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from monitor.listening.settings import ConnectionLimits
from monitor.model.checks import failed
from monitor.model.errors import AddressError
from monitor.web.settings import ServerSettings
from tests.web.people import PEOPLE
from tests.web.serving import serving

PROBED = msgspec.structs.replace(
    PEOPLE,
    probe_listen="127.0.0.1:0",
    trusted_proxies=(),
    user_header=None,
    groups_header=None,
    connections=ConnectionLimits(total=2, per_source=2),
)


async def test_probes_are_answered_while_clients_hold_every_place(tmp_path: Path) -> None:
    """Without credentials, under any name, and with ok or not ok and no reason."""
    async with serving(tmp_path, PROBED) as site:
        port = site.server.probe_port
        url = f"http://127.0.0.1:{port}"
        held = [
            await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
            for _ in range(2)
        ]

        async def probe(path: str, method: str = "GET") -> tuple[int, bytes]:
            headers = {"Host": "10.0.0.9:1"}
            async with site.session.request(method, url + path, headers=headers) as answer:
                return answer.status, await answer.read()

        assert await probe("/healthz") == (200, b'{"alive": true, "store": null}')
        assert await probe("/readyz") == (200, b'{"ready":true,"checks":{}}')
        site.findings["store"] = failed("store", "the disk of acme is full")
        assert await probe("/readyz") == (503, b'{"ready":false,"checks":{}}')
        assert (await probe("/metrics"))[0] == 404
        assert (await probe("/healthz", "POST"))[0] == 405
        for _, writer in held:
            writer.close()


async def test_an_address_that_is_taken_names_its_key(tmp_path: Path) -> None:
    """The daemon says which of its addresses is meant."""
    async with serving(tmp_path, PROBED) as site:
        taken = f"127.0.0.1:{site.server.probe_port}"
        settings = ServerSettings(listen="127.0.0.1:0", probe_listen=taken)
        with pytest.raises(AddressError, match=r"server\.probe_listen"):
            async with serving(tmp_path / "other", settings):
                pass
