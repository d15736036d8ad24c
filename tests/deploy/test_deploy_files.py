"""Holds each file of ``deploy/`` to the checker of the program that reads it."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import aiomqtt
import pytest
from aiomqtt import MqttCodeError, ProtocolVersion

from monitor.cli.settings_files import validate_file
from tests.deploy.documents import ROOT, blocks
from tests.servers import Mosquitto, free_port, program

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "dataprep-monitor.service"
SCRIPTS = Path(sysconfig.get_path("scripts"))
SHELL_SCRIPTS = [ROOT / "tests" / "install-servers", ROOT / ".ci" / "run"]
# systemd counts from 0 to 10, and the option counts tenths of that; the unit has 12.
EXPOSURE_LIMIT_TENTHS = 20
SOON = 10.0
# Just before a test's own limit: on a busy machine the long rules took more than a minute.
_CHECKER_SECONDS = 110.0


def checked(*command: object) -> str:
    """Run a checker and return its output; fail with it if the checker finds a problem."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=_CHECKER_SECONDS,
    )
    output = (done.stdout + done.stderr).strip()
    assert done.returncode == 0, output
    return output


def unit_settings(name: str) -> list[str]:
    """Return what the unit sets a key to, in their order."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """The checker of systemd finds no problem in the unit, once the program is there."""
    unit = tmp_path / UNIT.name
    # Any program will do: the check is only that it exists and can be run.
    installed = "/opt/dataprep-monitor/bin/dataprep-monitor"
    assert installed in UNIT.read_text()
    unit.write_text(UNIT.read_text().replace(installed, sys.executable))
    assert checked(program("systemd-analyze"), "verify", "--man=no", unit) == ""


def test_the_unit_gives_little_away() -> None:
    """By the count of systemd the service is hardly exposed."""
    assert "Overall exposure level" in checked(
        program("systemd-analyze"),
        "security",
        "--offline=true",
        f"--threshold={EXPOSURE_LIMIT_TENTHS}",
        "--no-pager",
        UNIT,
    )


def test_services_keep_their_store_in_a_folder_of_the_system() -> None:
    """Named or not: in each configuration of the guide, in the unit and in the image."""
    folder = "/var/lib/dataprep-monitor"
    named = f'url = "sqlite://{folder}/state.db"'
    first, second = blocks("toml", DEPLOY / "README.md")[:2]
    for text in (first, second, (DEPLOY / "compose" / "monitor.toml").read_text()):
        assert named in text
    assert unit_settings("Environment")[-1] == "XDG_STATE_HOME=/var/lib"
    assert unit_settings("StateDirectory") == ["dataprep-monitor"]
    image = (DEPLOY / "Containerfile").read_text()
    assert "XDG_STATE_HOME=/var/lib " in image
    assert f'VOLUME ["{folder}"]' in image


def test_the_unit_waits_for_the_notifications_of_the_daemon() -> None:
    """Readiness and watchdog come from the daemon itself, by the socket that it may open."""
    assert unit_settings("Type") == ["notify"]
    assert unit_settings("NotifyAccess") == ["main"]
    assert unit_settings("WatchdogSec") == ["60"]
    assert "AF_UNIX" in unit_settings("RestrictAddressFamilies")[0].split()
    assert unit_settings("LimitCORE") == ["0"]


def test_credentials_have_the_names_of_the_reference() -> None:
    """The unit provides each secret under the name that the reference configuration shows."""
    credentials = re.findall(r"^#?LoadCredential=([\w-]+):", UNIT.read_text(), re.MULTILINE)
    reference = (ROOT / "config" / "monitor.toml").read_text()
    shown = re.findall(r'^#?\w+_credential = "([\w-]+)"', reference, re.MULTILINE)
    assert credentials
    assert set(credentials) <= set(shown)


def test_the_container_file_is_sound() -> None:
    """hadolint, which comes with the test extra, finds nothing in it."""
    assert checked(SCRIPTS / "hadolint", DEPLOY / "Containerfile") == ""


def test_prometheus_accepts_its_file() -> None:
    """The checker of Prometheus accepts the configuration as it stands."""
    assert "SUCCESS" in checked(
        program("promtool"), "check", "config", DEPLOY / "prometheus" / "prometheus.yml"
    )


@pytest.mark.parametrize("script", SHELL_SCRIPTS, ids=lambda script: script.name)
def test_shell_scripts_are_sound(script: Path) -> None:
    """Nothing is found by shellcheck in a script that other people's machines run."""
    assert checked(program("shellcheck"), script) == ""


@pytest.mark.parametrize("number", range(len(blocks("toml", DEPLOY / "README.md"))))
def test_the_configurations_of_the_guide_are_right(tmp_path: Path, number: int) -> None:
    """The configuration of the guide has no problem, given the secrets."""
    text = blocks("toml", DEPLOY / "README.md")[number]
    for name in re.findall(r'_(?:credential|file) = "(?:/run/secrets/)?([\w-]+)"', text):
        (tmp_path / name).write_text("a-secret-for-the-test\n")
    path = tmp_path / "monitor.toml"
    path.write_text(text.replace("/run/secrets", str(tmp_path)))
    result = validate_file(path, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert result.problems == ()


# What the two files for a broker name, on which machine ever, and what the test has in its place.
BROKERS = {
    "mosquitto": ("listener 1883 127.0.0.1", "/etc/mosquitto/", "/var/lib/mosquitto/"),
    "compose": ("listener 1883", "/mosquitto/config/", "/mosquitto/data/"),
}


DAEMONS_LISTENER = "listener 1884"


def broker_locations(name: str) -> dict[str, str]:
    """Return the lines of a broker's file that name a location, by their first word."""
    listener, settings, state = BROKERS[name]
    secrets = "/run/secrets/mosquitto-" if name == "compose" else settings
    return {
        # Only the daemons reach it in the network of the containers.
        **({"daemons": DAEMONS_LISTENER} if name == "compose" else {}),
        "listener": listener,
        "acl_file": f"acl_file {settings}acl",
        "password_file": f"password_file {secrets}passwords",
        "persistence_location": f"persistence_location {state}",
    }


def broker_lines(name: str) -> list[str]:
    text = (DEPLOY / name / "mosquitto.conf").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_brokers_differ_in_their_locations_alone() -> None:
    """A setting of one file for mosquitto is in the other as well."""
    rest = [set(broker_lines(name)) - set(broker_locations(name).values()) for name in BROKERS]
    assert rest[0] == rest[1]
    assert all(set(broker_locations(name).values()) <= set(broker_lines(name)) for name in BROKERS)


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Mosquitto:
    """Return a broker with our files, on a port and in a folder of its own."""
    made = Mosquitto(tmp_path)
    here = {
        "daemons": f"listener {free_port()} 127.0.0.1",
        "listener": f"listener {made.port} 127.0.0.1",
        "acl_file": f"acl_file {DEPLOY}/mosquitto/acl",
        "password_file": f"password_file {tmp_path}/passwords",
        "persistence_location": f"persistence_location {tmp_path}/",
    }
    there = {line: here[word] for word, line in broker_locations(request.param).items()}
    made.configure("\n".join(there.get(line, line) for line in broker_lines(request.param)))
    (tmp_path / "passwords").touch(mode=0o600)
    for user in ("dataprep-monitor", "dataprep-reader"):
        checked(program("mosquitto_passwd"), "-b", tmp_path / "passwords", user, f"{user}!")
    return made


def client(broker: Mosquitto, user: str | None, *, client_id: str | None = None) -> aiomqtt.Client:
    """Return a client that has not connected yet; without a user it sends no name."""
    return aiomqtt.Client(
        "127.0.0.1",
        broker.port,
        identifier=client_id,
        username=user,
        password=None if user is None else f"{user}!",
        protocol=ProtocolVersion.V5,
        timeout=SOON,
    )


async def test_mosquitto_lets_the_daemon_publish_and_the_reader_subscribe(
    broker: Mosquitto,
) -> None:
    """The broker starts with our file; the daemon publishes to the reader."""
    topic = "dataprep/v1/marketing/state"
    async with broker, client(broker, "dataprep-reader") as reader:
        await reader.subscribe("dataprep/v1/#", qos=1)
        async with client(broker, "dataprep-monitor") as monitor:
            await monitor.publish(topic, b"published", qos=1)
        message = await anext(aiter(reader.messages))
    assert (str(message.topic), message.payload) == (topic, b"published")


async def test_mosquitto_keeps_everybody_else_silent(broker: Mosquitto, tmp_path: Path) -> None:
    """No client connects without a name, and a reader cannot publish."""
    async with broker:
        with pytest.raises(MqttCodeError, match=r"[Nn]ot authori[sz]ed"):
            async with client(broker, None):
                pass
        async with client(broker, "dataprep-reader") as reader:
            await reader.subscribe("dataprep/v1/#", qos=1)
            await reader.publish("dataprep/v1/marketing/state", b"forged", qos=1)
            async with client(broker, "dataprep-monitor") as monitor:
                await monitor.publish("dataprep/v1/marketing/state", b"true", qos=1)
            message = await anext(aiter(reader.messages))
    assert message.payload == b"true"
    # A clean stop writes down what must survive.
    assert (tmp_path / "mosquitto.db").exists()


async def test_the_shards_of_a_cluster_are_clients_of_their_own(tmp_path: Path) -> None:
    """At the listener for daemons one user has a session for each shard, and none ends another."""
    made = Mosquitto(tmp_path)
    (tmp_path / "passwords").touch(mode=0o600)
    user = "dataprep-monitor"
    checked(program("mosquitto_passwd"), "-b", tmp_path / "passwords", user, f"{user}!")
    there = {
        **dict.fromkeys(broker_locations("compose").values(), ""),
        DAEMONS_LISTENER: f"listener {made.port} 127.0.0.1",
        broker_locations("compose")["listener"]: f"listener {free_port()} 127.0.0.1",
    }
    lines = [there.get(line, line) for line in broker_lines("compose")]
    access = [f"password_file {tmp_path}/passwords", f"acl_file {DEPLOY}/mosquitto/acl"]
    made.configure("\n".join([*access, f"persistence_location {tmp_path}/", *lines]))
    async with (
        made,
        client(made, user, client_id="monitor-acme") as acme,
        client(made, user, client_id="monitor-best") as best,
    ):
        await acme.subscribe("dataprep/v1/+/state", qos=1)
        await best.publish("dataprep/v1/best/state", b"true", qos=1)
        assert (await anext(aiter(acme.messages))).payload == b"true"


async def test_no_other_user_can_end_the_daemons_connection_under_its_client_id(
    broker: Mosquitto,
) -> None:
    """A client id belongs to its user: whatever another user calls itself, the daemon stays."""
    topic = "dataprep/v1/marketing/state"
    async with broker, client(broker, "dataprep-monitor", client_id="monitor") as monitor:
        await monitor.subscribe("dataprep/v1/+/state", qos=1)
        for stolen in ("monitor", "dataprep-monitor"):
            async with client(broker, "dataprep-reader", client_id=stolen) as thief:
                await thief.publish(topic, b"forged", qos=1, retain=True)
            await monitor.publish(topic, stolen.encode(), qos=1, retain=True)
            message = await anext(aiter(monitor.messages))
            assert message.payload == stolen.encode()
