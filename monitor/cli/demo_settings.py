"""What the demo's sandbox, daemon and webhook tasks are configured with."""

from __future__ import annotations

from pathlib import Path

from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.catalogue.operations import Edition
from monitor.cli.demo_broker import free_port
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.record import MQTT
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings

WORKSPACE = "demo"


def sandbox_settings(edition: Edition, *, speed: float, seed: int) -> SandboxSettings:
    return SandboxSettings(
        edition=edition,
        seed=seed,
        work=_work(edition, speed),
        traffic=_traffic(speed),
        # Nothing runs before the daemon follows it, so that all three counts start at 0.
        is_busy_at_once=False,
    )


def _work(edition: Edition, speed: float) -> WorkSettings:
    # Where runs are followed by callbacks alone, nothing reports a canceled one: webhook tasks
    # have no event for it.
    if edition is Edition.LE:
        return WorkSettings(speed=speed, cancel_ratio=0.0)
    return WorkSettings(speed=speed)


def _traffic(speed: float) -> TrafficSettings:
    """Return what starts: at any speed no more than the default request budget can follow."""
    an_hour_of_work = 60.0 / speed
    return TrafficSettings(
        flow_runs_per_hour=3 * an_hour_of_work,
        plan_runs_per_hour=1.5 * an_hour_of_work,
        job_groups_per_hour=4 * an_hour_of_work,
        samples_per_hour=1 * an_hour_of_work,
    )


def configuration(
    folder: Path, sandbox: Sandbox, url: str, *, broker_port: int, port: int, secret: str
) -> Configuration:
    """Return the configuration of a daemon that follows the sandbox; its store is in ``folder``."""
    callbacks_port = free_port()
    by_hand = sandbox.settings.edition is Edition.LE
    return Configuration(
        workspaces=(
            WorkspaceConfiguration(
                # With the default request budget, as in most workspaces.
                workspace=WorkspaceSettings(name=WORKSPACE, url=url, token=Secret(sandbox.token)),
                poll=PollSettings(active_seconds=2, idle_seconds=2),
                inventory=InventorySettings(connections=True),
                callbacks=CallbackSettings(
                    public_url=None if by_hand else f"http://127.0.0.1:{callbacks_port}",
                    flows=() if by_hand else ("*",),
                    secret=Secret(secret),
                ),
            ),
        ),
        outputs={
            MQTT.section: MqttSettings(
                url=f"mqtt://127.0.0.1:{broker_port}",
                # The demo's broker never answers a client of MQTT 5.
                protocol=MqttProtocol.V311,
            )
        },
        server=ServerSettings(listen=f"127.0.0.1:{port}"),
        callbacks=ListenerSettings(listen=f"127.0.0.1:{callbacks_port}"),
        storage=StorageSettings(url=f"sqlite://{folder}/state.db"),
    )


def create_webhook_tasks(sandbox: Sandbox, *, callbacks_port: int, secret: str) -> None:
    """Give each flow the webhook task that a user would create by hand."""
    url = f"http://127.0.0.1:{callbacks_port}/hooks/{WORKSPACE}/{secret}"
    for flow in sandbox.world.flows.live():
        sandbox.world.create(
            WebhookFlowTask,
            by=flow.creator_id,
            name="notify the monitor",
            flow_id=flow.id,
            url=url,
            method="post",
            trigger_event="onJobDone",
            trigger_object="any",
            body='{"jobid":"$jobId","jobstatus":"$jobStatus"}',
            headers={"Content-Type": "application/json"},
            retry_on_failure=True,
        )
