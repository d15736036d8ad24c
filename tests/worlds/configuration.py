"""The configuration of the daemon that follows a batch of worlds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import combined, default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.catalogue.operations import Edition
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.secrets import Secret
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.polling.settings import InventorySettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.servers import free_port
from tests.worlds.allowances import (
    FOR_SECONDS,
    GRACE_SECONDS,
    POLL,
    STALE_SECONDS,
    UNREACHABLE_FOR_SECONDS,
)
from tests.worlds.deadline_rules import deadline_rules
from tests.worlds.script import World

LASTING = "run_failed_lasting"  # the second rule about failures, with ``for_seconds``
CALLBACK_SECRET = "worlds and monitor know it"
_NO_INVENTORY = InventorySettings(
    objects=False, tokens=False, configuration=False, usage=False, profiles=False
)
_EVALUATION_SECONDS = 6.0
_SCAN_SECONDS = 5.0  # between two comparisons of what the broker retains


def configuration(
    worlds: Sequence[World],
    url: str,
    broker_url: str,
    store_url: str,
    *,
    speed: float,
    planned: datetime,
) -> Configuration:
    """Return it; the worlds are ``planned`` to begin then, and pass so many seconds in one."""
    lasting = msgspec.structs.replace(
        default_rule(RuleKind.RUN_FAILED), name=LASTING, for_seconds=FOR_SECONDS
    )
    unreachable = msgspec.structs.replace(
        default_rule(RuleKind.WORKSPACE_UNREACHABLE), for_seconds=UNREACHABLE_FOR_SECONDS
    )
    missed = msgspec.structs.replace(
        default_rule(RuleKind.SCHEDULE_MISSED), threshold=GRACE_SECONDS
    )
    return Configuration(
        workspaces=tuple(_workspace(world, url) for world in worlds),
        alerting=AlertingSettings(
            rules=combined(
                (lasting, unreachable, missed, *deadline_rules(worlds, planned)),
                with_defaults=True,
            ),
            # Alerting waits for events by the machine's clock, so this is no second of a world.
            evaluation_interval_seconds=_EVALUATION_SECONDS / speed,
            flap_count=1_000,
        ),
        outputs={
            "mqtt": MqttSettings(
                url=broker_url, state_stale_seconds=STALE_SECONDS, state_scan_seconds=_SCAN_SECONDS
            )
        },
        metrics=MetricsSettings(stale_after_seconds=STALE_SECONDS),
        server=ServerSettings(listen="127.0.0.1:0", stale_after_seconds=STALE_SECONDS),
        callbacks=ListenerSettings(listen=f"127.0.0.1:{free_port()}"),
        storage=StorageSettings(url=store_url),
    )


def _workspace(world: World, url: str) -> WorkspaceConfiguration:
    return WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name=world.name,
            url=f"{url}/{world.name}",
            token=Secret("a token"),
            edition=Edition.RL,
            requests_per_minute=60_000,
            retries=1,
        ),
        poll=POLL,
        inventory=_NO_INVENTORY,
        callbacks=CallbackSettings(secret=Secret(CALLBACK_SECRET)),
    )
