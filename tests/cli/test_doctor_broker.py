"""``doctor`` reports on the broker, healthy and broken."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from tests.cli.doctor_scenario import Report, outcomes, run_checks
from tests.servers import Mosquitto, program


async def report_on(folder: Path, broker: Mosquitto, **settings: Any) -> Report:
    return await run_checks(folder, mqtt=MqttSettings(**{"url": broker.url, **settings}))


async def test_a_healthy_broker_is_ok(tmp_path: Path) -> None:
    """Connected, no TLS needed on this machine, and the message was acknowledged."""
    async with Mosquitto(tmp_path) as broker:
        report = await report_on(tmp_path, broker)
    assert set(outcomes(report).values()) == {"ok"}
    assert report["mqtt connection"].found.endswith("accepted us anonymously, with MQTT 5")
    assert "dataprep/v1/bridge/monitor/doctor was acknowledged" in report["mqtt publishing"].found


async def test_an_older_version_names_what_it_cannot_show(tmp_path: Path) -> None:
    """MQTT 3.1.1 acknowledges also dropped messages, and the line warns of it."""
    async with Mosquitto(tmp_path) as broker:
        report = await report_on(tmp_path, broker, protocol=MqttProtocol.V311)
    assert "with MQTT 3.1.1" in report["mqtt connection"].found
    assert "does not show whether it was dropped" in report["mqtt publishing"].found


async def test_no_section_mqtt_is_ok(tmp_path: Path) -> None:
    """MQTT is a choice."""
    report = await run_checks(tmp_path)
    assert report["mqtt"].found == "off: there is no section [mqtt]"
    assert "mqtt publishing" not in report


async def test_a_broker_that_is_not_there_fails(tmp_path: Path) -> None:
    """The reason is reported, once: nothing that needs the connection has a line."""
    report = await run_checks(tmp_path, mqtt=MqttSettings(url="mqtt://127.0.0.1:9"))
    assert report["mqtt connection"].outcome == "failed"
    assert "Connection refused" in report["mqtt connection"].found
    assert [subject for subject in report if subject.startswith("mqtt")] == [
        "mqtt connection",
        "mqtt TLS",
    ]
    assert report["mqtt TLS"].outcome == "ok"


def password_file(folder: Path) -> Path:
    """Return a file that lets the user daemon in with the right password."""
    path = folder / "passwords"
    subprocess.run(
        [program("mosquitto_passwd"), "-b", "-c", str(path), "daemon", "the-right-one"],
        check=True,
        capture_output=True,
        timeout=20,
    )
    path.chmod(0o644)  # the broker may drop to a user of its own
    return path


async def test_wrong_credentials_fail_and_stay_secret(tmp_path: Path) -> None:
    """Right ones connect under their name; wrong ones are refused, and not shown."""
    passwords = password_file(tmp_path)
    options = (f"password_file {passwords}", "allow_anonymous false")
    async with Mosquitto(tmp_path, options=options) as broker:
        right = await report_on(
            tmp_path, broker, username="daemon", password=Secret("the-right-one")
        )
        wrong = await report_on(
            tmp_path, broker, username="daemon", password=Secret("the-wrong-one")
        )
    assert "accepted us as daemon" in right["mqtt connection"].found
    assert wrong["mqtt connection"].outcome == "failed"
    assert "ot authori" in wrong["mqtt connection"].found
    assert "the-wrong-one" not in str(wrong)


async def test_a_broker_that_lets_us_write_nothing_fails(tmp_path: Path) -> None:
    """An access list without our prefix is found before the first event is lost."""
    (tmp_path / "acl").write_text("topic read #\n")
    (tmp_path / "acl").chmod(0o644)
    async with Mosquitto(tmp_path, options=(f"acl_file {tmp_path}/acl",)) as broker:
        report = await report_on(tmp_path, broker)
    assert report["mqtt connection"].outcome == "ok"
    assert report["mqtt publishing"].outcome == "failed"
    assert "not authorized" in report["mqtt publishing"].found
    assert "write to dataprep/v1/#" in str(report["mqtt publishing"].hint)


@pytest.mark.parametrize(
    ("believes", "verify", "expected"),
    [
        (True, True, {"mqtt connection": "ok", "mqtt TLS": "ok", "mqtt publishing": "ok"}),
        (False, True, {"mqtt TLS": "failed"}),
        (False, False, {"mqtt connection": "ok", "mqtt TLS": "warning", "mqtt publishing": "ok"}),
    ],
)
async def test_the_certificate_of_a_broker_is_checked(
    tmp_path: Path,
    certificate: tuple[Path, Path],
    *,
    believes: bool,
    verify: bool,
    expected: dict[str, str],
) -> None:
    """An unknown certificate is refused, in one line, unless verification is off."""
    listener = (f"certfile {certificate[0]}", f"keyfile {certificate[1]}")
    async with Mosquitto(tmp_path, listener=listener) as broker:
        report = await report_on(
            tmp_path,
            broker,
            url=broker.url.replace("mqtt://", "mqtts://"),
            ca_file=str(certificate[0]) if believes else None,
            verify_tls=verify,
        )
    found = {name: value for name, value in outcomes(report).items() if name.startswith("mqtt")}
    assert found == expected


async def test_a_broker_elsewhere_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    """Without TLS credentials and events can be read on the way."""
    async with Mosquitto(tmp_path) as broker:
        report = await report_on(tmp_path, broker, url=f"mqtt://0.0.0.0:{broker.port}")
    assert report["mqtt TLS"].outcome == "warning"
    assert "mqtts://" in str(report["mqtt TLS"].hint)


async def test_a_file_of_tls_that_is_missing_fails(tmp_path: Path) -> None:
    """The file is named, not only that there is no connection."""
    report = await run_checks(
        tmp_path, mqtt=MqttSettings(url="mqtts://127.0.0.1:9", ca_file="/nowhere/ca.pem")
    )
    assert report["mqtt TLS"].outcome == "failed"
    assert "TLS files cannot be used" in report["mqtt TLS"].found
    assert "mqtt connection" not in report
