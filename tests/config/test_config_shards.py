"""Which shards a configuration makes, and what tells two configurations of one apart."""

from __future__ import annotations

from cProfile import Profile
from typing import Any

import pytest

from monitor.app.hosted.shard_definitions import configuration_of, shard_definitions, shard_names
from monitor.bus.shards import CLUSTER, SOLE, ShardDefinition
from monitor.config import Configuration
from tests.config.settings_tables import file, parsed, workspace

DATABASE = {"url": "postgresql://db/monitor"}


def shards(*tables: dict[str, Any], **sections: Any) -> dict[str, ShardDefinition]:
    """Return the shards of a file with those workspaces, by name."""
    configuration = parsed(file(workspaces=list(tables), **{"storage": DATABASE, **sections}))
    made = {shard.name: shard for shard in shard_definitions(configuration)}
    assert shard_names(configuration) == set(made)
    for name, shard in made.items():
        of_shard = configuration_of(name, configuration).workspaces
        assert {workspace.name for workspace in of_shard} == set(names(shard))
    return made


def names(shard: ShardDefinition) -> list[str]:
    return [identity.name for identity in shard.workspaces]


def test_each_workspace_is_its_own_shard_unless_it_names_another() -> None:
    """A shard that several name has all of them, also where it is the name of one."""
    made = shards(
        workspace("sales"),
        workspace("orders", shard="small"),
        workspace("archive", shard="small"),
        workspace("stock", shard="sales"),
    )
    assert {name: names(shard) for name, shard in made.items()} == {
        "sales": ["sales", "stock"],
        "small": ["archive", "orders"],
        CLUSTER: [],
    }


def test_a_file_has_one_shard() -> None:
    """Without PostgreSQL every workspace is in the sole shard, whatever shard it names."""
    made = shards(workspace("sales"), workspace("orders", shard="small"), storage={})
    assert {name: names(shard) for name, shard in made.items()} == {SOLE: ["orders", "sales"]}


@pytest.mark.parametrize("ending", ["", "/", "/v4", "/v4/"])
def test_a_workspace_is_known_by_where_it_is_reached(ending: str) -> None:
    """Two spellings of one URL mean one workspace."""
    made = shards(workspace(url=f"https://api.example.com{ending}"))
    shard = made[next(name for name in made if name != CLUSTER)]
    assert shard.workspaces[0].url == "https://api.example.com"


CHANGES = [
    {"workspace": {"poll": {"active_seconds": 2}}},
    {"workspace": {"url": "https://other.example.com"}},
    {"workspace": {"verify_tls": False}},
    {"alerting": {"flap_count": 2}},
    {"alerts": [{"rule": "run_failed", "severity": "info"}]},
    {"mqtt": {"prefix": "other"}},
    {"metrics": {"series_budget": 100}},
    {"storage": {**DATABASE, "retention": {"runs_seconds": 90_000}}},
]
OWN = [
    {"server": {"listen": "127.0.0.1:1"}},
    {"storage": {**DATABASE, "daemon": "other", "password_env": "MQTT_PASSWORD"}},
    {"storage": {"url": "postgresql://me@db:5433/monitor"}},
    {"log": {"level": "debug"}},
    {"workspace": {"token_file": "/run/secrets/callbacks"}},
    {"workspace": {"ca_file": "/elsewhere/ca.pem"}},
]


def digest(name: str, change: dict[str, Any]) -> str:
    tables = {"mqtt": {}, **change}
    about = {"ca_file": "/ca.pem", **tables.pop("workspace", {})}
    return shards(workspace("orders", **about), workspace("sales"), **tables)[name].digest


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_digest_differs_with_what_the_shard_does(change: dict[str, Any]) -> None:
    """Whatever changes how a shard is watched, alerted or published changes its digest."""
    assert digest("orders", change) != digest("orders", {})
    assert (digest("sales", change) == digest("sales", {})) is ("workspace" in change)


@pytest.mark.parametrize("change", OWN, ids=str)
def test_a_digest_is_the_same_on_another_machine(change: dict[str, Any]) -> None:
    """Addresses, names and places of files of one daemon, and texts of secrets, change nothing."""
    assert digest("orders", change) == digest("orders", {})


def workspaces(number: int) -> Configuration:
    tables = [workspace(f"workspace-{place}") for place in range(number)]
    return parsed(file(workspaces=tables, storage=DATABASE))


def calls_of(configuration: Configuration) -> int:
    """Return how many functions are called to define the shards."""
    profile = Profile()
    profile.runcall(shard_definitions, configuration)
    return sum(entry.callcount for entry in profile.getstats())


def test_the_cost_of_a_shard_does_not_grow_with_their_number() -> None:
    """A thousand are defined within a tenth of a second; types are looked at once for all."""
    few, many = workspaces(10), workspaces(100)
    shard_definitions(few)

    assert calls_of(many) < 10 * calls_of(few)
    assert calls_of(many) < 100 * 2_000
