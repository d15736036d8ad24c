"""``doctor`` reports on store, addresses and certificates, healthy and broken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.checks import Check, CheckLine, ok
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.certificates import Endpoint, check_certificate
from monitor.web.settings import ServerSettings
from tests.cli.doctor_scenario import (
    other_server,
    outcomes,
    run_checks,
    without_rights,
    workspace_at,
)
from tests.servers import free_port

_NOT_HERE = "192.0.2.1"  # an address for documentation, which no machine has


async def test_a_store_that_is_not_there_yet_can_be_made(tmp_path: Path) -> None:
    """Neither the file nor its folder is needed, and doctor makes neither."""
    line = (await run_checks(tmp_path, store=tmp_path / "deep" / "er" / "state.db"))["store"]
    assert (line.outcome, "can make it" in line.found) == ("ok", True)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib counts as blocking, this does not


async def test_a_store_is_ok_with_or_without_a_daemon(tmp_path: Path) -> None:
    """A daemon that holds it is reported with its process; later it is just a file."""
    path = tmp_path / "state.db"
    bus = await SqliteBus.open(path, clock=SystemClock(), registry=CollectorRegistry())
    owned = (await run_checks(tmp_path))["store"]
    elsewhere = (
        await run_checks(tmp_path, server=ServerSettings(listen=f"127.0.0.1:{free_port()}"))
    )["store"]
    await bus.close()
    assert (elsewhere.outcome, "does not listen on server.listen" in elsewhere.found) == (
        "warning",
        True,
    )
    assert (owned.outcome, f"process {os.getpid()} since" in owned.found) == ("ok", True)
    free = (await run_checks(tmp_path))["store"]
    assert (free.outcome, "no daemon holds it" in free.found) == ("ok", True)


async def test_a_store_in_the_wrong_folder_fails(tmp_path: Path) -> None:
    """A folder where the file should be, or a file where a folder should be."""
    (tmp_path / "file").write_text("")
    for store, words in (
        (tmp_path, "is not a regular file"),
        (tmp_path / "file" / "db", "Not a directory"),
    ):
        line = (await run_checks(tmp_path, store=store))["store"]
        assert (line.outcome, words in line.found) == ("failed", True), line


async def test_a_store_that_may_not_be_written_fails() -> None:
    """The right that lacks is reported with the folder or file that it lacks for."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "old").mkdir()
        (folder / "old" / "state.db").write_text("")
        (folder / "old" / "state.db").chmod(0o444)
        for path in (folder / "old", folder):
            path.chmod(0o555)
        with without_rights():
            fresh = (await run_checks(folder))["store"]
            old = (await run_checks(folder, store=folder / "old" / "state.db"))["store"]
        for path in (folder, folder / "old"):
            path.chmod(0o755)
    for line, place in ((fresh, folder), (old, folder / "old" / "state.db")):
        assert line.outcome == "failed"
        assert f"{place} cannot be written: Permission denied" in line.found
        assert "storage.url" in str(line.hint)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [(200, {"status": "up"}, "is not a monitor's"), (401, None, "is not a monitor's")],
)
async def test_an_address_of_another_program_fails(
    tmp_path: Path, status: int, body: object, words: str
) -> None:
    """A port that another program holds is reported with what it answered."""
    async with other_server(status, body) as port:
        line = (await run_checks(tmp_path, server=ServerSettings(listen=f"127.0.0.1:{port}")))[
            "server address"
        ]
    assert (line.outcome, words in line.found) == ("failed", True), line
    assert "change server.listen" in str(line.hint)


async def test_a_program_that_does_not_answer_is_no_daemon_of_ours(tmp_path: Path) -> None:
    """It closes each connection: doctor reports that, and not whose it is."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        line = (await run_checks(tmp_path, server=ServerSettings(listen=f"127.0.0.1:{port}")))[
            "server address"
        ]
    assert (line.outcome, "does not answer /healthz" in line.found) == ("failed", True), line


async def test_addresses_that_are_free_are_ok(tmp_path: Path) -> None:
    """A free port, and one that is chosen at each start, need nothing."""
    for server_port, callbacks_port in ((0, 0), (free_port(), free_port())):
        report = await run_checks(
            tmp_path,
            server=ServerSettings(listen=f"127.0.0.1:{server_port}"),
            callbacks=ListenerSettings(listen=f"127.0.0.1:{callbacks_port}"),
        )
        assert set(outcomes(report).values()) == {"ok"}


async def test_an_address_that_no_machine_of_ours_has_fails(tmp_path: Path) -> None:
    """Neither listener can be on an address of somewhere else."""
    report = await run_checks(
        tmp_path,
        server=ServerSettings(listen=f"{_NOT_HERE}:9876"),
        callbacks=ListenerSettings(listen=f"{_NOT_HERE}:9877"),
    )
    for subject in ("server address", "callbacks address"):
        assert report[subject].outcome == "failed"
        assert "cannot be listened on" in report[subject].found


async def test_no_section_callbacks_is_ok(tmp_path: Path) -> None:
    """Callbacks are a choice."""
    line = (await run_checks(tmp_path))["callbacks address"]
    assert (line.outcome, line.found) == ("ok", "off: there is no section [callbacks]")


@pytest.mark.parametrize("status", [404, 200])
async def test_a_callback_address_of_another_program_fails(tmp_path: Path, status: int) -> None:
    """A server that refuses our test callback, with its secret, is not our daemon."""
    acme = msgspec.structs.replace(
        workspace_at("http://127.0.0.1:9"), callbacks=CallbackSettings(secret=Secret("s" * 20))
    )
    async with other_server(status) as port:
        report = await run_checks(
            tmp_path, acme, callbacks=ListenerSettings(listen=f"127.0.0.1:{port}")
        )
    line = report["callbacks address"]
    assert line.outcome == "failed"
    assert f"answers a test callback of acme with {status}" in line.found
    assert "s" * 20 not in str(report)


@contextlib.asynccontextmanager
async def encrypted(certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """A server that speaks TLS and sends nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=503)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("believes", "verify", "outcome", "words"),
    [
        (True, True, "ok", "valid until "),
        (False, True, "failed", "the certificate is not trusted: self-signed certificate"),
        (False, False, "warning", "the certificate is not verified"),
    ],
)
async def test_the_certificate_of_a_workspace_is_checked(
    tmp_path: Path,
    certificate: tuple[Path, Path],
    *,
    believes: bool,
    verify: bool,
    outcome: str,
    words: str,
) -> None:
    """The last day of an accepted certificate is shown; an unknown or unverified one is marked."""
    settings: dict[str, Any] = {"verify_tls": verify}
    if believes:
        settings["ca_file"] = str(certificate[0])
    async with encrypted(certificate) as port:
        report = await run_checks(tmp_path, workspace_at(f"https://127.0.0.1:{port}", **settings))
    line = report["acme TLS"]
    assert (line.outcome, words in line.found) == (outcome, True), line
    assert ("acme reachability" in report) == (outcome != "failed"), "one fault, one line"


async def test_a_certificate_that_ends_soon_is_a_warning(certificate: tuple[Path, Path]) -> None:
    """A certificate with less than fourteen days left is a warning."""
    context = ssl.create_default_context(cafile=str(certificate[0]))
    now = SystemClock().now() + timedelta(days=20)
    async with encrypted(certificate) as port:
        endpoint = Endpoint(host="127.0.0.1", port=port, settings="workspaces")
        (line,) = await check_certificate("TLS", endpoint, context, now=now)
    assert (line.outcome, "9 days from now" in line.found) == ("warning", True), line


async def test_a_server_that_speaks_no_tls_fails(tmp_path: Path) -> None:
    """An https address at which plain HTTP is spoken is reported as such."""
    async with other_server(200) as port:
        report = await run_checks(tmp_path, workspace_at(f"https://127.0.0.1:{port}"))
    line = report["acme TLS"]
    assert (line.outcome, "no TLS there" in line.found) == ("failed", True), line


async def test_a_token_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    """Plain HTTP is for this machine alone."""
    async with other_server(503) as port:
        report = await run_checks(tmp_path, workspace_at(f"http://0.0.0.0:{port}"))
    assert (report["acme TLS"].outcome, report["acme TLS"].found) == (
        "warning",
        "the token travels in the clear",
    )


async def test_a_check_that_hangs_ends_and_reports_so() -> None:
    """Nothing that a check waits for holds up the others forever."""

    async def hang() -> list[CheckLine]:
        await asyncio.Event().wait()
        return [ok("it", "never")]

    (line,) = await Check("it", hang, 0.01).lines()
    assert (line.outcome, line.subject, line.found) == ("failed", "it", "no answer within 0 s")
