"""The configuration of the demo: sandbox, daemon and webhook tasks."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.alerting.settings import AlertingSettings, Match, RuleKind, combined, default_rule
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.catalogue.operations import Edition
from monitor.cli.demo_broker import free_port
from monitor.cli.demo_mailbox import TEAM
from monitor.cli.demo_scenario import MISSED_GRACE_SECONDS, OVERDUE_SECONDS
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MQTT, MqttProtocol, MqttSettings
from monitor.outputs.notify.settings import NOTIFY, ChannelSettings, NotifySettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import OauthSettings, WorkspaceSettings

WORKSPACE = "demo"
_WORK_SECONDS = (120.0, 480.0)
_CANCEL_RATIO = 0.01
_ACCESS_TOKEN_SECONDS = 10
_HISTORY_SECONDS = 7 * 86_400.0
_RULES = (
    msgspec.structs.replace(default_rule(RuleKind.SCHEDULE_MISSED), threshold=MISSED_GRACE_SECONDS),
    msgspec.structs.replace(
        default_rule(RuleKind.RUN_OVERDUE),
        match=Match(kind=(RunKind.PLAN_RUN,)),
        threshold=OVERDUE_SECONDS,
    ),
)


def sandbox_settings(
    edition: Edition, *, speed: float, seed: int, has_oauth: bool = False
) -> SandboxSettings:
    return SandboxSettings(
        edition=edition,
        seed=seed,
        work=WorkSettings(
            speed=speed,
            work_seconds=_WORK_SECONDS,
            is_regular=True,
            # Where runs are followed by callbacks alone, nothing reports a canceled one: webhook
            # tasks have no event for it.
            cancel_ratio=0.0 if edition is Edition.LE else _CANCEL_RATIO,
        ),
        # The story starts what runs, and no more than the default request budget can follow.
        traffic=None,
        # Nothing runs before the daemon follows it, so that all three counts start at 0.
        is_busy_at_once=False,
        is_held=True,
        oauth=OAuthSettings(access_token_seconds=_ACCESS_TOKEN_SECONDS) if has_oauth else None,
    )


def configuration(
    folder: Path,
    sandbox: Sandbox,
    url: str,
    *,
    broker_port: int,
    mail_port: int,
    port: int,
    secret: str,
) -> Configuration:
    """Return the configuration of a daemon that follows the sandbox; its store is in ``folder``."""
    callbacks_port = free_port()
    by_hand = sandbox.settings.edition is Edition.LE
    return Configuration(
        workspaces=(
            WorkspaceConfiguration(
                # With the default request budget, as in most workspaces.
                workspace=_workspace(sandbox, url),
                poll=PollSettings(
                    active_seconds=5,
                    idle_seconds=5,
                    schedules_seconds=20,
                    first_look_seconds=_HISTORY_SECONDS,
                ),
                inventory=InventorySettings(connections=True),
                callbacks=CallbackSettings(
                    public_url=None if by_hand else f"http://127.0.0.1:{callbacks_port}",
                    flows=() if by_hand else ("*",),
                    secret=Secret(secret),
                ),
            ),
        ),
        alerting=AlertingSettings(rules=combined(_RULES, with_defaults=True)),
        outputs={
            MQTT.section: MqttSettings(
                url=f"mqtt://127.0.0.1:{broker_port}",
                # The demo's broker never answers a client of MQTT 5.
                protocol=MqttProtocol.V311,
            ),
            NOTIFY.section: NotifySettings(channels=(_team(mail_port),)),
        },
        server=ServerSettings(listen=f"127.0.0.1:{port}"),
        callbacks=ListenerSettings(listen=f"127.0.0.1:{callbacks_port}"),
        storage=StorageSettings(url=f"sqlite://{folder}/state.db"),
    )


def _team(mail_port: int) -> ChannelSettings:
    query = f"from=monitor@example.com&to={TEAM}"
    return ChannelSettings(name="data-team", url=Secret(f"mailto://127.0.0.1:{mail_port}?{query}"))


def _workspace(sandbox: Sandbox, url: str) -> WorkspaceSettings:
    if sandbox.pair is None or sandbox.token_url is None:
        return WorkspaceSettings(name=WORKSPACE, url=url, token=Secret(sandbox.token))
    oauth = OauthSettings(
        token_url=sandbox.token_url,
        client_id=sandbox.pair.client_id,
        refresh_token=Secret(sandbox.pair.refresh_token),
    )
    return WorkspaceSettings(name=WORKSPACE, url=url, oauth=oauth)


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
