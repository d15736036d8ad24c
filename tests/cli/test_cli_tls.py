"""Commands and checks of a configuration whose listeners have TLS."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.cli.admin import AdminClient
from monitor.cli.daemon_address import address_of_server
from monitor.cli.doctor_checks.clear_text import check_listeners
from monitor.cli.main import main
from monitor.config import Configuration
from monitor.model.errors import DaemonUnreachableError
from monitor.model.secrets import Secret
from monitor.outputs.notify.settings import ChannelSettings, NotifySettings
from monitor.web.settings import ServerSettings
from tests.certificates import Certificates
from tests.cli.doctor_scenario import run_checks, workspace_at
from tests.web.serving import serving

NAMES = "subjectAltName=IP:127.0.0.1"
GOOD = """
[[workspaces]]
name = "marketing"
url = "https://api.example.com"
token_file = "token"

[workspaces.callbacks]
public_url = "https://hooks.example.com"
secret_file = "secret"

[server]
public_url = "https://monitor.example.com"

[server.tls]
certificate_file = "{name}.pem"
key_file = "{name}.key"

[callbacks.tls]
certificate_file = "{name}.pem"
key_file = "{name}.key"

[storage]
url = "sqlite://{folder}/state.db"
"""


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def check(folder: Path, name: str) -> int:
    (folder / "token").write_text("the token itself")
    (folder / "secret").write_text("the secret of callbacks")
    (folder / "monitor.toml").write_text(GOOD.format(folder=folder, name=name))
    return main(["check", "-c", str(folder / "monitor.toml")])


async def test_a_command_talks_to_its_own_daemon_only(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Its certificate may name anything; another one is refused, also of the same authority."""
    served, other = (certificates.sign(name, "subjectAltName=DNS:a.b") for name in ("one", "two"))
    settings = ServerSettings(listen="127.0.0.1:0", tls=certificates.settings(served))
    async with serving(tmp_path, settings) as site:
        port = site.url.rpartition(":")[2]
        settings = msgspec.structs.replace(settings, listen=f"127.0.0.1:{port}")
        client = AdminClient(address_of_server(settings))
        assert (await asyncio.to_thread(client.get, "/healthz"))["alive"]
        settings = msgspec.structs.replace(settings, tls=certificates.settings(other))
        client = AdminClient(address_of_server(settings))
        with pytest.raises(DaemonUnreachableError, match="another certificate than the file of"):
            await asyncio.to_thread(client.get, "/healthz")


def test_check_names_expiry_and_missing_names(
    tmp_path: Path, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    """What clients will refuse is a warning, each by key and file; what is right is on one line."""
    certificates.sign("named", "subjectAltName=DNS:*.example.com", days=99)
    assert check(tmp_path, "named") == 0
    captured = capsys.readouterr()
    assert "server 127.0.0.1:9876 (TLS); callbacks 127.0.0.1:9877 (TLS)" in captured.out
    assert "certificate of server until 2" in captured.out
    assert ".tls." not in captured.err
    certificates.sign("expired", "subjectAltName=DNS:monitor.example.com", days=-1)
    assert check(tmp_path, "expired") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if ".tls." in line]
    assert [line.split(": ")[1] for line in lines] == [
        *["server.tls.certificate_file"],
        *["callbacks.tls.certificate_file"] * 2,
    ]
    assert all("expired on" in line for line in lines[:2])
    assert "is not for hooks.example.com" in lines[2]


def test_check_refuses_a_pair_that_cannot_be_used(
    tmp_path: Path, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both listeners are named, with key, file and a way out; so is a key that is missing."""
    certificates.key_of(certificates.client).rename(tmp_path / "server.key")
    assert check(tmp_path, "server") == 2
    lines = capsys.readouterr().err.splitlines()
    hint = f'"{tmp_path}/server.key": is not the key of certificate_file'
    assert [
        f"{listener}.tls.key_file: {hint}" in "".join(lines) for listener in ("server", "callbacks")
    ] == [True, True]
    text = (tmp_path / "monitor.toml").read_text().replace('key_file = "server.key"', "")
    (tmp_path / "monitor.toml").write_text(text)
    assert main(["check", "-c", str(tmp_path / "monitor.toml")]) == 2
    assert "server.tls.key_file: (absent): is needed, such as" in capsys.readouterr().err


async def test_doctor_warns_of_a_channel_that_verifies_nothing() -> None:
    """Apprise takes that in the URL of any service."""
    channels = tuple(
        ChannelSettings(name=name, url=Secret(f"ntfys://ntfy.example.com/team{more}"))
        for name, more in (("safe", "?verify=yes"), ("open", "?priority=high&verify=no"))
    )
    configuration = Configuration(
        workspaces=(workspace_at("http://127.0.0.1:9"),),
        outputs={"notify": NotifySettings(channels=channels)},
    )
    lines = await check_listeners(configuration, now=datetime.now(UTC))

    assert [(line.subject, line.outcome.value) for line in lines] == [
        ("notify open TLS", "warning")
    ]


async def test_doctor_examines_certificates_and_what_has_none(
    tmp_path: Path, certificates: Certificates
) -> None:
    """A pair is tried; a listener that others reach without one is a warning, also with proxies."""
    soon = certificates.settings(certificates.sign("soon", NAMES, days=5))
    acme = msgspec.structs.replace(
        workspace_at("http://127.0.0.1:9"),
        callbacks=CallbackSettings(secret=Secret("s" * 20)),
    )
    report = await run_checks(
        tmp_path,
        acme,
        server=ServerSettings(
            listen="0.0.0.0:0", token=Secret("t" * 20), trusted_proxies=("10.0.0.1",)
        ),
        callbacks=ListenerSettings(listen="127.0.0.1:0", tls=soon),
    )

    assert report["server TLS"].outcome.value == "warning"
    assert "clients that call it past them" in report["server TLS"].found
    assert "[server.tls]" in str(report["server TLS"].hint)
    assert report["callbacks TLS"].outcome.value == "warning"
    assert "expires on" in report["callbacks TLS"].found
    assert str(datetime.now(UTC).year)[:2] in report["callbacks TLS"].found
