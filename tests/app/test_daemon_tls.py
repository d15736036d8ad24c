"""A daemon with TLS on both listeners, as Prometheus, senders and a command see it."""

from __future__ import annotations

import shutil
import signal
import ssl
from pathlib import Path

import aiohttp

from tests.app.eventually import eventually
from tests.app.fixture import SECRET
from tests.app.processes import Settings, Watched, command, daemon_process
from tests.app.scraping import prometheus
from tests.certificates import Certificates

_EXPIRY = "dataprep_monitor_certificate_expiry_timestamp_seconds"
_NAMES = "subjectAltName=IP:127.0.0.1"
_LISTENERS = ("server", "callbacks")


def with_tls(folder: Path, certificates: Certificates) -> Settings:
    """Return settings with TLS on both listeners; the pair stands beside the file."""
    settings = Settings(folder, Watched("acme", "http://127.0.0.1:9", "token"), with_callbacks=True)
    served = 'certificate_file = "tls.crt"\nkey_file = "tls.key"\n'
    tables = "".join(f"\n[{listener}.tls]\n{served}" for listener in _LISTENERS)
    settings.path.write_text(settings.path.read_text() + tables)
    serve(settings, certificates, certificates.server)
    return settings


def serve(settings: Settings, certificates: Certificates, pair: Path) -> None:
    shutil.copy(certificates.key_of(pair), settings.folder / "tls.key")
    shutil.copy(pair, settings.folder / "tls.crt")


def target(authority: Path) -> str:
    return f"    scheme: https\n    tls_config: {{ca_file: {authority}}}\n"


async def send_callback(port: int, authority: Path) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://127.0.0.1:{port}/hooks/acme",
            data=b'{"job_id":"9","job_status":"Complete"}',
            headers={"X-Monitor-Secret": SECRET},
            ssl=ssl.create_default_context(cafile=authority),
        ) as answer,
    ):
        return answer.status


async def test_prometheus_sees_that_a_certificate_was_renewed(tmp_path: Path) -> None:
    """Scraped over TLS, the expiry of both listeners is another one after a SIGHUP."""
    certificates = Certificates(tmp_path)
    settings = with_tls(tmp_path, certificates)
    authority = certificates.authority
    async with (
        daemon_process(settings, authority=authority) as daemon,
        prometheus(tmp_path, daemon.face.url, more=target(authority)) as scraper,
    ):

        async def expiries() -> set[str]:
            return {row["value"][1] for row in await scraper.query(_EXPIRY)}

        async def is_scraped() -> bool:
            return len(await scraper.query(_EXPIRY)) == len(_LISTENERS)

        await eventually(is_scraped, why="no certificate was scraped")
        (before,) = await expiries()
        serve(settings, certificates, certificates.sign("renewed", _NAMES, days=9))
        daemon.send_signal(signal.SIGHUP)

        async def is_renewed() -> bool:
            found = await expiries()
            return len(found) == 1 and found != {before}

        await eventually(is_renewed, why="the renewed certificate was not loaded")
        assert settings.callbacks_port is not None
        assert await send_callback(settings.callbacks_port, authority) == 204
        status = await command("status", config=settings.path)
        assert status.err == ""
        assert "acme" in status.out
        assert f"https://127.0.0.1:{settings.port}/" in daemon.log
