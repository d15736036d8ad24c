"""``doctor`` warns of what others can read or change: files, and what travels in the clear."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.cli.configuration_report import summary
from monitor.cli.doctor_checks.descriptor_limit import check_file_descriptors
from monitor.cli.doctor_checks.exposure import check_access
from monitor.cli.doctor_checks.file_access import check_files
from monitor.config import Configuration
from monitor.model.secrets import Secret
from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from tests.app.processes import Settings, Watched, command
from tests.cli.doctor_scenario import outcomes, run_checks, workspace_at
from tests.web.people import entry

_STRANGERS = 4_242  # a group that is neither root's nor ours


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        for file in ("monitor.toml", "token"):
            (path / file).write_text("a file")
            (path / file).chmod(0o600)
        yield path


def report(folder: Path) -> dict[str, tuple[str, str]]:
    lines = check_files(folder / "monitor.toml", [folder / "token"])
    return {line.subject: (line.outcome.value, line.found) for line in lines}


def test_files_of_our_own_are_ok(folder: Path) -> None:
    """Also where everybody may read the configuration, which holds no secret."""
    (folder / "monitor.toml").chmod(0o644)
    found = report(folder)
    assert [outcome for outcome, _ in found.values()] == ["ok", "ok"]


@pytest.mark.parametrize("mode", [0o604, 0o644])
def test_a_secret_that_everybody_can_read_is_a_warning(folder: Path, mode: int) -> None:
    """The file is named, and the secret is not shown."""
    (folder / "token").chmod(mode)
    outcome, found = report(folder)["secret files"]
    assert (outcome, found) == ("warning", f"everybody can read {folder}/token")


def test_a_folder_that_others_may_not_enter_protects_its_files(folder: Path) -> None:
    """The rights of the file alone say nothing."""
    (folder / "token").chmod(0o644)
    folder.chmod(0o700)
    assert report(folder)["secret files"][0] == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to any group")
def test_a_group_is_named(folder: Path) -> None:
    """A group of others is a reader; the groups of root and of the owner alone are not."""
    (folder / "token").chmod(0o640)
    for group, outcome in ((_STRANGERS, "warning"), (0, "ok")):
        os.chown(folder / "token", 0, group)
        assert report(folder)["secret files"][0] == outcome
    os.chown(folder / "token", _STRANGERS, _STRANGERS)
    assert report(folder)["secret files"][0] == "ok"


@pytest.mark.parametrize("place", ["monitor.toml", "."])
def test_a_configuration_that_others_can_change_is_a_warning(folder: Path, place: str) -> None:
    """Who may write the file or its folder can send the token elsewhere."""
    (folder / place).chmod(0o757)
    outcome, found = report(folder)["configuration file"]
    assert outcome == "warning"
    assert f"everybody (by {(folder / place).resolve()}) can change {folder}/monitor.toml" in found
    (folder / place).chmod(0o1755 if place == "." else 0o644)
    assert report(folder)["configuration file"][0] == "ok"


async def test_the_command_checks_the_files_that_the_configuration_names(folder: Path) -> None:
    """The token's file is readable for everybody: a warning, and the command does not fail."""
    settings = Settings(folder, Watched("acme", "http://127.0.0.1:9", "the-token-itself"))
    (folder / "acme-token").chmod(0o644)
    done = await command("doctor", config=settings.path)
    assert f"warning  secret files: everybody can read {folder}/acme-token; chmod 600" in done.out
    assert "ok       configuration file: no other user can change" in done.out
    assert "the-token-itself" not in done.out


@pytest.mark.parametrize(
    ("descriptors", "connections", "outcome", "words"),
    [
        (65_536, 8, "ok", "4096 on each listener"),
        (1_024, 8, "warning", "384 for callbacks.in_flight_limit, 1000 are wanted"),
        (65_536, 60_000, "warning", "for all else, 60064 are wanted"),
        (128, 8, "warning", "8 for the server's clients, 100 are wanted"),
    ],
)
def test_handles_are_compared_with_what_is_wanted(
    descriptors: int, connections: int, outcome: str, words: str
) -> None:
    """Listeners, connections to workspaces, and what the daemon needs for itself."""
    configuration = Configuration(
        workspaces=(workspace_at("http://127.0.0.1:9", connections=connections),),
        callbacks=ListenerSettings(),
    )
    line = check_file_descriptors(configuration, descriptors=descriptors)
    assert (line.outcome, words in line.found) == (outcome, True), line
    assert ("LimitNOFILE" in str(line.hint)) == (outcome == "warning")


@pytest.mark.parametrize(
    ("server", "outcome", "words"),
    [
        (
            ServerSettings(listen="0.0.0.0:0", allow_anonymous=True),
            "warning",
            "allow_anonymous: all who can reach 0.0.0.0:0 may read everything, silence alerts",
        ),
        (
            ServerSettings(listen="127.0.0.1:0"),
            "ok",
            "every user and program of this machine may read everything, silence alerts",
        ),
        (
            ServerSettings(listen="127.0.0.1:0", trusted_proxies=("127.0.0.1",)),
            "ok",
            "and so may all whom its trusted proxies let through",
        ),
        (
            ServerSettings(listen="0.0.0.0:0", token=Secret("t" * 20), allow_anonymous=True),
            "ok",
            "lets in who logs in, or has its token or password",
        ),
    ],
    ids=["anonymous", "loopback", "proxied", "token"],
)
async def test_it_says_who_may_use_the_admin_api(
    tmp_path: Path, server: ServerSettings, outcome: str, words: str
) -> None:
    """Anonymous access from elsewhere is a warning; on loopback it names who has it."""
    line = (await run_checks(tmp_path, server=server))["server access"]
    assert (line.outcome, words in line.found) == (outcome, True), line
    assert (line.hint is not None) == (outcome == "warning")


async def test_traffic_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    """Listeners that others reach, and a public URL without TLS; none of that on this machine."""
    for host, url in (("0.0.0.0", "http://monitor.example.com"), ("127.0.0.1", "http://[::1]:1")):  # noqa: S104 - warned of
        acme = msgspec.structs.replace(
            workspace_at("http://127.0.0.1:9"),
            callbacks=CallbackSettings(secret=Secret("s" * 20), public_url=url),
        )
        report = await run_checks(
            tmp_path,
            acme,
            server=ServerSettings(listen=f"{host}:0", token=Secret("t" * 20)),
            callbacks=ListenerSettings(listen=f"{host}:0"),
        )
        subjects = ("server TLS", "callbacks TLS", "acme public_url")
        if host == "127.0.0.1":
            assert not set(subjects) & set(report)
        else:
            assert {outcomes(report)[subject] for subject in subjects} == {"warning"}
            assert "its token or password travels in the clear" in report["server TLS"].found
            assert "https://" in str(report["acme public_url"].hint)


def test_check_repeats_that_the_server_is_open() -> None:
    """Its summary says what ``allow_anonymous`` means, and only where others reach the address."""
    open_server = ServerSettings(listen="0.0.0.0:9876", allow_anonymous=True)
    local = ServerSettings(listen="127.0.0.1:9876", allow_anonymous=True)

    lines = [
        next(line for line in summary(Configuration(workspaces=(), server=server)) if "876" in line)
        for server in (open_server, local)
    ]
    assert lines == [
        "server 0.0.0.0:9876 (allow_anonymous: all who can reach it may do everything)",
        "server 127.0.0.1:9876",
    ]


@pytest.mark.parametrize(
    ("proxy", "outcome"),
    [("127.0.0.1", "warning"), ("::1", "warning"), ("127.0.0.0/8", "warning"), ("192.0.2.7", "ok")],
)
def test_a_proxy_of_this_machine_lets_its_programs_be_any_user(proxy: str, outcome: str) -> None:
    """Whatever runs there can send the header; a proxy elsewhere is alone at its address."""
    server = ServerSettings(
        access=(entry("ada", Role.ADMIN),), user_header="X-User", trusted_proxies=(proxy,)
    )
    line = check_access(server)

    assert line.outcome.value == outcome
    assert ("X-User" in line.found) == (outcome == "warning")
