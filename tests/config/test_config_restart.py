"""Which changes of a configuration wait for a restart."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.config import changes_needing_restart
from tests.config.settings_tables import file, parsed, with_callbacks, workspace


@pytest.mark.parametrize(
    ("after", "keys"),
    [
        (file(), []),
        (file(server={"listen": "127.0.0.1:1"}), ["server.listen"]),
        (file(server={"trusted_proxies": ["10.0.0.1"]}), ["server.trusted_proxies"]),
        (
            file(storage={"url": "sqlite:///elsewhere", "retention": {"runs_seconds": 90_000}}),
            ["storage.url", "storage.retention.runs_seconds"],
        ),
        (
            file(storage={"daemon": "b", "lease_seconds": 5, "password_env": "MQTT_PASSWORD"}),
            ["storage.password", "storage.daemon", "storage.lease_seconds"],
        ),
        (file(log={"level": "debug", "slow_steps": True}), []),
        (with_callbacks(), ["callbacks"]),
        (
            with_callbacks(give_up_seconds=200_000),
            ["callbacks", "workspaces.callbacks.give_up_seconds"],
        ),
        (file(mqtt={}, metrics={"series_budget": 100}, alerting={"flap_count": 2}), []),
        (file(workspaces=[workspace("sales", poll={"active_seconds": 2})]), []),
    ],
)
def test_a_restart_is_needed_for_what_is_read_at_start(
    after: dict[str, Any], keys: list[str]
) -> None:
    """Each key that only a restart can change is named, and nothing that a reload changes."""
    assert changes_needing_restart(parsed(file()), parsed(after)) == keys
    assert sorted(changes_needing_restart(parsed(after), parsed(file()))) == sorted(keys)
