"""Every secret that a daemon has, searched for in all that it and its commands show.

Each is set in another of the forms that a secret may have. Workspace, broker and receivers answer
with what they are sent, so that libraries quote it in their errors.
"""

from __future__ import annotations

import asyncio
import gzip
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.app.eventually import eventually
from tests.app.planted import Planting
from tests.app.planted_daemon import IN_HEADERS, PlantedDaemon, set_up
from tests.app.processes import DaemonProcess, Settings, daemon_process
from tests.certificates import Certificates
from tests.deploy.documents import ROOT
from tests.postgres_server import PostgresServer
from tests.web.form_client import TOKEN_OF_FORM
from tests.web.openid_provider import Provider
from tests.web.route_requests import needed_roles

# The provider's own library warns of its future.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:authlib.deprecate.AuthlibDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),
]


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


@pytest.fixture
async def daemon(
    tmp_path: Path,
    postgres: PostgresServer,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[PlantedDaemon, DaemonProcess]]:
    """Run a daemon that has every secret there is."""
    Certificates(tmp_path)
    settings = Settings(tmp_path, with_callbacks=True)
    assert settings.callbacks_port is not None
    planted = PlantedDaemon(tmp_path, Planting(), settings.port, settings.callbacks_port)
    name = await postgres.create_database()
    password = planted.plant("database", IN_HEADERS)
    await postgres.create_role(f"of_{name}", password=password, rights="SUPERUSER")
    database = postgres.url(name, user=f"of_{name}")
    server = await asyncio.start_server(planted.echo, "127.0.0.1", 0)
    async with server:
        environment = set_up(
            planted,
            tmp_path,
            settings,
            peer=server.sockets[0].getsockname()[1],
            issuer=provider.issuer,
            database=database,
        )
        for key, text in environment.items():
            monkeypatch.setenv(key, text)
        async with daemon_process(settings, authority=tmp_path / "ca.pem") as process:
            yield planted, process
    await postgres.drop_database(name)


async def _log_in(planted: PlantedDaemon, client: aiohttp.ClientSession, **fields: str) -> int:
    _, form, _ = await planted.send(client, "GET", f"{planted.url}/login")
    found = TOKEN_OF_FORM.search(form)
    assert found is not None
    fields = {"username": "", "secret": "", "next": "/", **fields, "token": found[1]}
    status, _, _ = await planted.send(client, "POST", f"{planted.url}/login", data=fields)
    return status


def _note_session(planted: PlantedDaemon, client: aiohttp.ClientSession) -> None:
    for cookie in client.cookie_jar:
        if "session" in cookie.key:
            planted.planting.note("session", cookie.value.partition(".")[2])


async def _log_in_everywhere(planted: PlantedDaemon, provider: Provider) -> list[int]:
    """Log in well and badly, by each way; return the statuses."""
    statuses: list[int] = []
    token = f"ada.{planted.texts['access token']}"
    mistyped = planted.plant("mistyped", "")
    url = planted.url
    async with planted.client() as client:
        statuses += [
            await _log_in(planted, client, secret=mistyped),
            await _log_in(planted, client, username=token),  # in the wrong field
            await _log_in(planted, client, secret=token),
        ]
        _note_session(planted, client)
        for path in ("/account", "/monitor", "/monitor/audit"):
            statuses.append((await planted.send(client, "GET", url + path))[0])
    async with planted.client() as client:
        _, _, leads_to = await planted.send(client, "GET", f"{url}/login/oidc?next=/runs")
        _, _, back = await planted.send(client, "POST", leads_to, data={"sub": "read-user"})
        statuses.append((await planted.send(client, "GET", back))[0])
        statuses.append((await planted.send(client, "GET", back))[0])  # a second time
        _note_session(planted, client)
    for issued, exchanged in zip(provider.issued, provider.exchanged, strict=True):
        planted.planting.note("id token", issued["id_token"].rpartition(".")[2])
        planted.planting.note("access token of the provider", issued["access_token"])
        planted.planting.note("code", exchanged["code"][0])
        planted.planting.note("code verifier", exchanged["code_verifier"][0])
    return statuses


async def _ask_everything(planted: PlantedDaemon) -> list[int]:
    """Read every route as page and as data, and ask badly; return the statuses."""
    url, statuses = planted.url, list[int]()
    secret, callback = planted.texts["server token"], planted.texts["callbacks"]
    reference = (ROOT / "deploy" / "ROUTES.md").read_text()
    basic = aiohttp.encode_basic_auth("operator", planted.texts["server password"])
    async with planted.client() as client:
        for method, path in needed_roles(reference):
            for accepted in ("text/html", "application/json"):
                headers = {"Authorization": f"Bearer {secret}", "Accept": accepted}
                status, *_ = await planted.send(client, method, url + path, headers=headers)
                statuses.append(status)
        for path in (f"/none/{callback}", f"/runs?workspace={secret}x", f"/hooks/acme/{callback}"):
            # Who is known is told what he has asked for, and nothing else has it.
            headers = {"Authorization": basic}
            await planted.send(client, "GET", url + path, headers=headers, is_kept=False)
            await planted.send(client, "GET", url + path)
        wrong = {"Authorization": f"Bearer {planted.texts['mistyped']}"}
        await planted.send(client, "GET", f"{url}/metrics", headers=wrong)
        foreign = {"Authorization": f"Bearer {secret}", "Host": "elsewhere.example.com"}
        await planted.send(client, "GET", f"{url}/runs", headers=foreign)
        hooks = f"{planted.callbacks_url}/hooks/acme"
        for place in ("callbacks", "former secret of callbacks", "mistyped"):
            headers = {"X-Monitor-Secret": planted.texts[place]}
            for body in (b'{"job_id":"9","job_status":"Complete"}', b"no JSON"):
                status, *_ = await planted.send(client, "POST", hooks, data=body, headers=headers)
                statuses.append(status)
        await planted.send(client, "POST", f"{hooks}/{planted.texts['mistyped']}", data=b"{}")
    return statuses


async def _reload_badly(planted: PlantedDaemon, process: DaemonProcess) -> None:
    """Reload a file with a secret in the wrong place."""
    path = process.settings.path
    good = path.read_text()
    token = planted.texts["workspace"]
    misplaced = f'name = "acme"\ntoken = "{token}"'
    path.write_text(good.replace('name = "acme"', f'{misplaced}\nedition = "{token}"'))
    process.send_signal(signal.SIGHUP)
    await eventually(lambda: "configuration refused" in process.log, why="nothing was reloaded")
    path.write_text(good.replace('name = "acme"', misplaced))
    assert await planted.run("check") == 2
    path.write_text(good)


async def test_no_secret_is_shown_by_a_daemon(
    daemon: tuple[PlantedDaemon, DaemonProcess], provider: Provider
) -> None:
    """Answers, log and audit have no secret of the configuration, of log-ins, or of strangers."""
    planted, process = daemon
    logged_in = await _log_in_everywhere(planted, provider)
    asked = await _ask_everything(planted)
    await _reload_badly(planted, process)
    await eventually(
        lambda: all(
            any(planted.texts[place].encode() in received for received in planted.received)
            for place in ("workspace", "broker")
        ),
        why="the peers were not sent what they echo",
    )
    assert await process.end() == 0
    planted.shown["log"] = process.log.encode()

    assert logged_in == [401, 401, 303, 200, 200, 200, 303, 400]
    assert {200, 204, 404} <= {*asked}
    assert 500 not in asked
    assert "***" in process.log
    shown = planted.planting.shown_in(planted.shown)
    assert shown == []


async def test_no_secret_is_shown_by_a_command(
    daemon: tuple[PlantedDaemon, DaemonProcess], tmp_path: Path
) -> None:
    """Output of commands has none, nor the dump, which has of a log-in the digest alone."""
    planted, process = daemon
    token = f"ada.{planted.texts['access token']}"
    async with planted.client() as client:
        assert await _log_in(planted, client, secret=token) == 303
        _note_session(planted, client)
    dump = tmp_path / "dump"
    commands = (
        ("check", "--json"),
        ("doctor",),
        ("notify", "test"),
        ("audit", "--since", "1h", "--json"),
        ("store", "export", str(dump)),
        ("api", "listFlows"),
    )
    found = await asyncio.gather(*(planted.run(*each) for each in commands))
    codes = dict(zip(commands, found, strict=True))
    planted.shown["dump"] = gzip.decompress(dump.read_bytes())
    assert await process.end() == 0
    planted.shown["log"] = process.log.encode()

    assert {each[0]: code for each, code in codes.items() if code not in (0, 1)} == {}
    assert codes["check", "--json"] == codes["store", "export", str(dump)] == 0
    assert b"log_in" in planted.shown["audit --since 1h --json"]
    shown = planted.planting.shown_in(planted.shown)
    assert shown == []
