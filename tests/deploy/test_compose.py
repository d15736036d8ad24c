"""Holds ``deploy/compose.yaml`` to its schema, and to the files that it mounts."""

from __future__ import annotations

import ast
import re
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from ruamel.yaml import YAML

from monitor.cli.settings_files import validate_file
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.mqtt.settings import MqttSettings
from tests.deploy.documents import blocks
from tests.deploy.test_deploy_files import DEPLOY, SCRIPTS, checked
from tests.servers import program

FILE = DEPLOY / "compose.yaml"
SECRETS = PurePosixPath("/run/secrets")
DOCUMENT: dict[str, Any] = YAML(typ="safe").load(FILE)
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
CONFIGURATION = "/etc/dataprep-monitor/monitor.toml"


def mounts(service: str) -> dict[str, tuple[str, ...]]:
    """Return what a service sees at which place: the source, and "ro" where it may only read."""
    mounts = {}
    for volume in SERVICES[service].get("volumes", []):
        source, target, *mode = volume.split(":")
        mounts[target] = (source, *mode)
    return mounts


def source_of(service: str, target: str) -> Path:
    return DEPLOY / mounts(service)[target][0]


def secrets_named_in(path: Path) -> set[str]:
    """Return the secrets that a file needs, by the names that it uses for them."""
    return set(re.findall(rf"{SECRETS}/([\w-]+)", path.read_text()))


def test_the_specification_of_compose_allows_the_file() -> None:
    """Nothing in it is against the schema that comes with the checker."""
    command = (SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", FILE)
    assert "ok" in checked(*command)


@pytest.mark.parametrize("service", SERVICES)
def test_mounted_files_are_there(service: str) -> None:
    """Each file is in the project and read-only, each volume and secret is declared, once."""
    for source, *mode in mounts(service).values():
        if source.startswith("."):
            assert (DEPLOY / source).is_file()
            assert mode == ["ro"]
        else:
            assert source in DOCUMENT["volumes"]
    assert set(SERVICES[service].get("secrets", [])) <= set(DOCUMENT["secrets"])
    for other in SERVICES[service].get("depends_on", []):
        assert other in SERVICES


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_may_more_than_it_must(service: str) -> None:
    """A read-only root, no capability, no new one, and nothing open to other machines."""
    settings = SERVICES[service]
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in settings.get("ports", []))
    assert 0 < settings["pids_limit"] <= 256
    assert re.fullmatch(r"\d+[mg]", settings["mem_limit"])
    # Ours has it in the image.
    assert settings.get("image") == "dataprep-monitor" or settings["user"] not in {"0", "0:0"}


@pytest.mark.parametrize("service", SERVICES)
def test_no_argument_holds_a_secret(service: str) -> None:
    """No list of processes shows one: no shell puts the text of a file into an argument."""
    settings = SERVICES[service]
    typed = [*settings.get("entrypoint", []), *settings.get("command", [])]
    assert not [word for word in typed if re.search(r"[$`]|\bcat\b|\bsh\b", word)]


def test_services_share_a_network_only_where_they_talk() -> None:
    """Who breaks into one of them reaches no other that it has no business with."""
    talks = {
        ("monitor", "mosquitto"), ("monitor", "prometheus"), ("monitor", "alertmanager"),
        ("monitor", "postgres"), ("alertmanager", "prometheus"),
    }  # fmt: skip
    networks = {name: set(of.get("networks", [])) for name, of in SERVICES.items()}
    del networks["monitor-2"], networks["sandbox"]  # as the daemon; in the daemon's
    shared = {
        (service, other) for service, other in combinations(sorted(networks), 2)
        if networks[service] & networks[other]
    }  # fmt: skip
    assert {frozenset(pair) for pair in shared} == {frozenset(pair) for pair in talks}
    assert set(DOCUMENT["networks"]) == set().union(*networks.values())
    assert DOCUMENT["networks"]["database"] == {"internal": True}


def test_images_have_a_digest_where_one_is_known() -> None:
    """The tag says what runs, the digest that it is the same for everybody."""
    pinned = {
        name for name, of in SERVICES.items() if re.search(r"@sha256:[0-9a-f]{64}$", of["image"])
    }
    assert pinned == {"mosquitto", "prometheus", "alertmanager"}


def test_writes_of_a_service_go_into_a_volume() -> None:
    """Store, the broker's memory, Prometheus' database and silences are kept over an update."""
    written = {
        "monitor": re.findall(r'VOLUME \["(.+)"\]', (DEPLOY / "Containerfile").read_text())[0],
        "mosquitto": "/mosquitto/data",
        "prometheus": "/prometheus",
        "alertmanager": "/alertmanager",
        "postgres": "/var/lib/postgresql/data",
    }
    for service, place in written.items():
        assert mounts(service)[place][0] in DOCUMENT["volumes"]
    assert f"persistence_location {written['mosquitto']}/" in read("mosquitto")
    for service, option in (
        ("prometheus", "--storage.tsdb.path"),
        ("alertmanager", "--storage.path"),
    ):
        assert f"{option}={written[service]}" in SERVICES[service]["command"]


def read(service: str) -> str:
    """Return the text of the one file of ours that configures a service."""
    ending = {"mosquitto": "mosquitto.conf", "prometheus": "prometheus.yml"}[service]
    (target,) = (mount for mount in mounts(service) if mount.endswith(ending))
    return source_of(service, target).read_text()


def test_each_service_is_given_the_secrets_that_its_files_name() -> None:
    """Neither one that is missing nor one without a reader."""
    for service, settings in SERVICES.items():
        files = [DEPLOY / source for source, *_ in mounts(service).values() if source[0] == "."]
        named = {secret for path in files for secret in secrets_named_in(path)}
        for place in ("command", "environment"):
            named |= set(re.findall(rf"{SECRETS}/([\w-]+)", str(settings.get(place, ""))))
        assert set(settings["secrets"]) == named


def test_secrets_are_made_by_the_guide_and_kept_out_of_the_history() -> None:
    """Each file is one that the guide makes and that git does not see."""
    guide = "\n".join(blocks("sh", DEPLOY / "README.md"))
    for name, secret in DOCUMENT["secrets"].items():
        path = DEPLOY / secret["file"]
        assert path.name == name
        assert re.search(rf"> compose/secrets/{name}(?![\w-])", guide)
        assert path.parent == DEPLOY / "compose" / "secrets"
    assert (DEPLOY / "compose" / ".gitignore").read_text() == "secrets/\n"


def with_secrets(path: Path, folder: Path) -> str:
    """Return a file's text with secrets in ``folder`` instead, which are made there."""
    for name in secrets_named_in(path):
        (folder / name).write_text("a-secret-for-the-test\n")
    return path.read_text().replace(str(SECRETS), str(folder))


@pytest.mark.parametrize("url", ["https://api.clouddataprep.com", "http://127.0.0.1:3005"])
def test_the_daemon_accepts_its_configuration(tmp_path: Path, url: str) -> None:
    """The file and the variable that leads to a workspace, or to the sandbox, have no problem."""
    path = tmp_path / "monitor.toml"
    path.write_text(with_secrets(source_of("monitor", CONFIGURATION), tmp_path))
    result = validate_file(path, environment("monitor", tmp_path, DATAPREP_URL=url))
    assert result.problems == ()
    assert result.configuration is not None
    assert [workspace.workspace.url for workspace in result.configuration.workspaces] == [url]
    broker = result.configuration.output(MqttSettings)
    assert broker is not None
    assert broker.url == "mqtt://mosquitto:1884"  # where a cluster can keep its client ids
    assert "mosquitto" in SERVICES
    assert result.configuration.storage.postgres is None


def environment(service: str, folder: Path, **variables: str) -> dict[str, str]:
    """Return a service's environment as compose makes it, with secrets in ``folder``."""
    for secret in DOCUMENT["secrets"]:
        (folder / secret).write_text("a-secret-for-the-test\n")
    filled = re.sub(
        r"\$\{(\w+):-([^}]*)\}",
        lambda match: variables.get(match[1], match[2]),
        str(dict(SERVICES[service]["environment"])),
    )
    values: dict[str, str] = ast.literal_eval(filled.replace(str(SECRETS), str(folder)))
    return values


def test_two_daemons_share_one_database(tmp_path: Path) -> None:
    """With the file of variables both read one URL, whose host and user are the database's."""
    lines = (DEPLOY / "compose" / "cluster.env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert variables.pop("COMPOSE_PROFILES") == "cluster"
    path = tmp_path / "monitor.toml"
    path.write_text(with_secrets(source_of("monitor", CONFIGURATION), tmp_path))
    names = set()
    for service in ("monitor", "monitor-2"):
        result = validate_file(path, environment(service, tmp_path, **variables))
        assert result.problems == ()
        assert result.configuration is not None
        storage = result.configuration.storage
        assert storage.postgres is not None
        assert [host.host for host in storage.postgres.hosts] == ["postgres"]
        database = SERVICES["postgres"]["environment"]
        assert storage.postgres.user == database["POSTGRES_USER"]
        assert storage.postgres.database == database["POSTGRES_DB"]
        names.add(storage.daemon)
    assert len(names) == 2
    in_cluster = {name for name, of in SERVICES.items() if of.get("profiles") == ["cluster"]}
    assert in_cluster == {"monitor-2", "postgres"}
    assert "compose/cluster.env" in (DEPLOY / "README.md").read_text()


def test_prometheus_accepts_its_file_and_scrapes_the_daemon(tmp_path: Path) -> None:
    """The checker accepts it, with the token at its place; the target is the daemon's address."""
    path = tmp_path / "prometheus.yml"
    path.write_text(with_secrets(source_of("prometheus", f"/etc/prometheus/{path.name}"), tmp_path))
    assert "SUCCESS" in checked(program("promtool"), "check", "config", path)
    (scrape,) = YAML(typ="safe").load(path)["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": ["monitor:9876"]}]
    (second,) = scrape["dns_sd_configs"]
    assert (second["names"], second["port"]) == (["monitor-2"], 9876)


def test_no_alert_is_notified_twice(tmp_path: Path) -> None:
    """The monitor alerts on workspaces, Prometheus on the monitor, both to one Alertmanager."""
    path = tmp_path / "monitor.toml"
    path.write_text(with_secrets(source_of("monitor", CONFIGURATION), tmp_path))
    configuration = validate_file(path, {}).configuration
    assert configuration is not None
    alertmanager = configuration.output(AlertmanagerSettings)
    assert alertmanager is not None
    assert alertmanager.urls == ("http://alertmanager:9093",)
    prometheus = YAML(typ="safe").load(source_of("prometheus", "/etc/prometheus/prometheus.yml"))
    (alertmanager,) = prometheus["alerting"]["alertmanagers"]
    assert alertmanager == {"static_configs": [{"targets": ["alertmanager:9093"]}]}
    rules = {PurePosixPath(mount).name for mount in mounts("prometheus") if "/rules/" in mount}
    assert rules == {"recording.yaml", "monitor.yaml"}


def test_the_sandbox_runs_only_on_request() -> None:
    """It belongs to a profile, shares the daemon's loopback, and listens where the guide says."""
    sandbox = SERVICES["sandbox"]
    assert sandbox["profiles"] == ["sandbox"]
    assert sandbox["network_mode"] == "service:monitor"
    command = sandbox["command"]
    port = command[command.index("--port") + 1]
    assert f"DATAPREP_URL=http://127.0.0.1:{port}" in (DEPLOY / "README.md").read_text()
    profiles = [service.get("profiles") for service in SERVICES.values()]
    assert profiles.count(["sandbox"]) == 1
