"""Workspaces behind TLS: which certificates are accepted."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from monitor.model.errors import WorkspaceUnreachableError
from monitor.workspace.client import Priority
from tests.servers import program
from tests.workspace.scripted import ScriptedWorkspace, answer, client_of


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate for this machine that no authority has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = (folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(made[0]), "-keyout", str(made[1])),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return made


async def read_over_tls(certificate: tuple[Path, Path], **settings: Any) -> str:
    """Read one job group over TLS and return its id."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    app = web.Application()
    app.router.add_get("/{path:.*}", ScriptedWorkspace(answer({"id": 7})).handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with client_of(url, **settings) as client:
            return (await client.runs.job_group("7", priority=Priority.RECONCILIATION)).id
    finally:
        await runner.cleanup()


async def test_an_unknown_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    """By default a certificate without a known authority ends the connection before the token."""
    with pytest.raises(WorkspaceUnreachableError, match="certificate"):
        await read_over_tls(certificate, retries=0)


async def test_a_named_authority_is_accepted(certificate: tuple[Path, Path]) -> None:
    """``ca_file`` adds an authority to the system's."""
    assert await read_over_tls(certificate, ca_file=str(certificate[0])) == "7"


async def test_verification_can_be_switched_off(certificate: tuple[Path, Path]) -> None:
    """``verify_tls = false`` accepts any certificate."""
    assert await read_over_tls(certificate, verify_tls=False) == "7"
