"""TLS of a listener, as curl and other real clients see it."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
import structlog

from monitor.listening.settings import ConnectionLimits, TlsSettings
from monitor.listening.tls import load_pair, missing_names
from monitor.model.errors import ConfigurationError
from tests.app.eventually import eventually
from tests.certificates import Certificates
from tests.listening.floods import REQUEST, Hall, hall
from tests.servers import program

LIMITS = ConnectionLimits(total=60, per_source=20, head_seconds=20)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def curl(port: int, *options: str, scheme: str = "https") -> str:
    """Return what curl prints: head and body, or its reason."""
    process = await asyncio.create_subprocess_exec(
        *(program("curl"), "-sSi", "--max-time", "20", *options),
        f"{scheme}://127.0.0.1:{port}/",
        stdout=PIPE,
        stderr=subprocess.STDOUT,
    )
    return (await process.communicate())[0].decode()


def trusting(certificates: Certificates) -> tuple[str, ...]:
    return "--cacert", str(certificates.authority)


async def serial(front: Hall, certificates: Certificates) -> str:
    """Return the serial number of the certificate that a new connection is served with."""
    context = ssl.create_default_context(cafile=certificates.authority)
    _, writer = await asyncio.open_connection("127.0.0.1", front.port, ssl=context)
    found: dict[str, Any] = writer.get_extra_info("peercert")
    writer.transport.abort()
    return str(found["serialNumber"])


@pytest.fixture
def replaceable(certificates: Certificates, tmp_path: Path) -> TlsSettings:
    """Return settings whose files a test may replace."""
    return copied(certificates, certificates.server, tmp_path)


def copied(certificates: Certificates, certificate: Path, folder: Path) -> TlsSettings:
    """Write a pair where the listener reads it, as programs that renew certificates do."""
    for source, name in ((certificate, "tls.crt"), (certificates.key_of(certificate), "tls.key")):
        shutil.copy(source, folder / f"{name}.new")
        (folder / f"{name}.new").rename(folder / name)
    return TlsSettings(certificate_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))


async def test_curl_is_served_over_tls(certificates: Certificates) -> None:
    """By 1.2 and 1.3, with HSTS, whose answer names the client; not by 1.1, nor without TLS."""
    settings = certificates.settings(certificates.server)
    async with hall(LIMITS, tls=settings, hsts_seconds=300) as front:
        for version in ("--tlsv1.3", "--tls-max=1.2"):
            answer = await curl(front.port, *version.split("="), *trusting(certificates))
            assert answer.startswith("HTTP/1.1 200 ")
            assert "Strict-Transport-Security: max-age=300" in answer
            assert answer.endswith("127.0.0.1")
        old = ("--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0")
        assert "curl: (35)" in await curl(front.port, *old, *trusting(certificates))
        assert "curl: (52)" in await curl(front.port, scheme="http")
        await eventually(lambda: front.refused("tls_handshake") == 2, why=front.refused)


async def test_hsts_needs_tls() -> None:
    """Nothing is said of it in the clear, but to whom a trusted proxy serves over TLS."""
    forwarded = ("-H", "X-Forwarded-Proto: https")
    for proxies in ((), ("127.0.0.1",)):
        async with hall(LIMITS, trusted_proxies=proxies, hsts_seconds=300) as front:
            plain = await curl(front.port, scheme="http")
            assert "Strict-Transport-Security" not in plain
            said = await curl(front.port, *forwarded, scheme="http")
            assert ("Strict-Transport-Security" in said) == bool(proxies)


async def test_a_client_certificate_is_taken_or_not_needed(certificates: Certificates) -> None:
    """Without one a client is served; one of another authority ends the handshake."""
    settings = certificates.settings(certificates.server, client_ca_file=certificates.authority)
    client = ("--cert", str(certificates.client), "--key")
    key = str(certificates.key_of(certificates.client))
    async with hall(LIMITS, tls=settings) as front:
        assert " 200 " in await curl(front.port, *trusting(certificates))
        assert " 200 " in await curl(front.port, *client, key, *trusting(certificates))
        foreign = certificates.sign_itself("foreign")
        refused = ("--cert", str(foreign), "--key", str(certificates.key_of(foreign)))
        assert "curl: (" in await curl(front.port, *refused, *trusting(certificates))


async def test_a_client_that_ends_no_handshake_is_cut_off(certificates: Certificates) -> None:
    """Who sends nothing, or half a hello, holds its place as long as one without TLS."""
    settings = certificates.settings(certificates.server)
    limits = ConnectionLimits(total=60, per_source=2, head_seconds=0.5)
    async with hall(limits, tls=settings) as front:
        silent, half = await front.flood(2)
        half.writer.write(b"\x16\x03\x01\x02")
        await silent.ends()
        await half.ends()

        async def is_served() -> bool:
            return " 200 " in await curl(front.port, *trusting(certificates))

        await eventually(is_served, why="the places are still taken")


async def test_a_pair_that_changes_is_served(
    certificates: Certificates, replaceable: TlsSettings, tmp_path: Path
) -> None:
    """The next connections have the new certificate; one that is open goes on with the former."""
    renewed = certificates.sign("renewed", "subjectAltName=IP:127.0.0.1", days=9)
    async with hall(LIMITS, tls=replaceable) as front:
        before = await serial(front, certificates)
        context = ssl.create_default_context(cafile=certificates.authority)
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port, ssl=context)
        copied(certificates, renewed, tmp_path)
        assert await serial(front, certificates) == before
        await front.clock.advance(10)
        await eventually(lambda: len(front.expiries) == 2, why="the pair was not loaded")
        assert await serial(front, certificates) != before
        writer.write(REQUEST)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.transport.abort()

        assert (front.expiries[1] - front.expiries[0]).days == 7


async def test_half_a_pair_changes_nothing(
    certificates: Certificates, replaceable: TlsSettings, tmp_path: Path
) -> None:
    """The former pair stays, one line says why, and the whole pair is loaded when it is there."""
    renewed = certificates.sign("halved", "subjectAltName=IP:127.0.0.1")
    with structlog.testing.capture_logs() as lines:
        async with hall(LIMITS, tls=replaceable) as front:
            before = await serial(front, certificates)
            shutil.copy(renewed, tmp_path / "tls.crt")
            for _ in range(3):
                await front.clock.advance(10)
            await eventually(lambda: len(lines) == 2, why=lambda: lines)
            assert await serial(front, certificates) == before
            shutil.copy(certificates.key_of(renewed), tmp_path / "tls.key")
            front.listener.renew_certificate()
            await eventually(lambda: len(lines) == 3, why=lambda: lines)
            assert await serial(front, certificates) != before

    assert [line["event"] for line in lines] == [
        "certificate loaded",
        "certificate refused, the former one stays",
        "certificate loaded",
    ]
    assert "is not the key of certificate_file" in lines[1]["reason"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"key_file": "client.key"}, "key_file: is not the key of certificate_file"),
        ({"key_file": "server.pem"}, "key_file: holds no private key"),
        ({"key_file": "encrypted.key"}, "key_file: is encrypted"),
        ({"key_file": "nothing"}, "key_file: cannot be read"),
        ({"certificate_file": "server.key"}, "certificate_file: holds no certificate"),
        ({"certificate_file": "client.pem", "key_file": "client.key"}, "unsuitable certificate"),
        ({"client_ca_file": "server.key"}, "client_ca_file: holds no certificates"),
        ({"certificate_file": "pipe"}, "certificate_file: is no regular file"),
        ({"certificate_file": "."}, "certificate_file: is no regular file"),
        ({"key_file": "pipe"}, "key_file: is no regular file"),
        ({"client_ca_file": "pipe"}, "client_ca_file: is no regular file"),
    ],
)
def test_a_pair_that_cannot_be_used_is_named(
    certificates: Certificates, changes: dict[str, str], expected: str
) -> None:
    """One sentence with the key, the file and what to do; no passphrase is asked for."""
    folder = certificates.authority.parent
    if "encrypted.key" in changes.values():
        certificates.encrypt_key(certificates.server, "encrypted.key")
    if "pipe" in changes.values() and not (folder / "pipe").exists():
        os.mkfifo(folder / "pipe")  # which to read would wait without end
    paths = {name: folder / path for name, path in changes.items()}
    settings = certificates.settings(certificates.server, **paths)
    with pytest.raises(ConfigurationError) as raised:
        load_pair(settings, section="server.tls", needs_client=False)
    key, value, hint = raised.value.problems[0].split(": ", 2)

    assert key.startswith("server.tls.")
    assert expected in f"{key.removeprefix('server.tls.')}: {hint}"
    assert "; " in hint
    assert str(folder) in value


def test_names_that_a_certificate_lacks_are_found(certificates: Certificates) -> None:
    """Names, addresses and wildcards as clients take them, also of one that has expired."""
    names = "subjectAltName=DNS:monitor.example.com,DNS:*.example.org,IP:192.0.2.7"
    pair = load_pair(
        certificates.settings(certificates.sign("named", names, days=-1)),
        section="server.tls",
        needs_client=False,
    )
    asked = ["monitor.example.com", "a.example.org", "a.b.example.org", "192.0.2.7", "192.0.2.8"]

    assert missing_names(pair, asked) == ["a.b.example.org", "192.0.2.8"]
    assert pair.expires_at < pair.valid_from
