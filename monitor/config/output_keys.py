"""The settings of the outputs: MQTT, Alertmanager, webhook and metrics."""

from __future__ import annotations

from monitor.config import checks
from monitor.config.keys import Key, Kind, Section
from monitor.outputs.settings import (
    AlertmanagerSettings,
    DeliverySettings,
    MetricsSettings,
    MqttProtocol,
    MqttSettings,
    WebhookSettings,
)

MQTT = Section(
    path="mqtt",
    target=MqttSettings,
    is_optional=True,
    about="MQTT broker that every event is published to. Without this table, MQTT is off.",
    fixed=(
        "delivery",
        "reconnect_base_seconds",
        "state_interval_seconds",
        "state_scan_seconds",
        "stop_timeout_seconds",
    ),
    keys=(
        Key(
            name="url",
            kind=Kind.TEXT,
            about="mqtt://HOST:PORT, or mqtts:// for TLS. Default ports are 1883 and 8883.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="dataprep-monitor",
            about="User name at the broker.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="mqtt-password",
            about="Password of that user.",
        ),
        Key(
            name="ca_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/ssl/certs/company-ca.pem",
            about="PEM file with certificate authorities to trust instead of the system's.",
        ),
        Key(
            name="certificate_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/dataprep-monitor/client.pem",
            about="PEM file with the client certificate, if the broker requires one.",
        ),
        Key(
            name="key_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/dataprep-monitor/client.key",
            about="PEM file with the key of that certificate, if it is in a separate file.",
        ),
        Key(
            name="verify_tls",
            kind=Kind.BOOLEAN,
            about="Verify the broker's certificate.",
        ),
        Key(
            name="prefix",
            kind=Kind.TEXT,
            about="Prefix of every topic.",
        ),
        Key(
            name="instance",
            kind=Kind.TEXT,
            about="Client id and topic level. Keep it across restarts; each daemon needs its own.",
        ),
        Key(
            name="protocol",
            kind=Kind.TEXT,
            choices=tuple(MqttProtocol),
            about="MQTT version; auto tries 5 and falls back to 3.1.1.",
        ),
        Key(
            name="keepalive_seconds",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=65_535,
            about="MQTT keep-alive: after this time without traffic the client sends a ping.",
        ),
        Key(
            name="connect_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=300,
            about="Timeout for connecting to the broker, TLS included.",
        ),
        Key(
            name="acknowledge_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=600,
            about="Timeout of an acknowledgement (PUBACK); after it the client reconnects.",
        ),
        Key(
            name="reconnect_cap_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=3_600,
            about="Maximum wait between two attempts to reconnect.",
        ),
        Key(
            name="event_expiry_seconds",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=4_294_967_295,
            about="Message expiry: the broker drops an event that waits longer for a subscriber.",
        ),
        Key(
            name="state_refresh_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=86_400,
            about="Interval at which retained states are refreshed with the time of confirmation.",
        ),
        Key(
            name="state_stale_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="Runs that were not confirmed within this time are unknown in retained states.",
        ),
        Key(
            name="window",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=1_000,
            target=DeliverySettings,
            about="Maximum number of unacknowledged messages in flight.",
        ),
        Key(
            name="attempts",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            target=DeliverySettings,
            about="Attempts for one event, while others succeed, before it becomes a dead letter.",
        ),
    ),
)

_TIMEOUT = Key(
    name="timeout_seconds",
    kind=Kind.NUMBER,
    minimum=0.1,
    maximum=300,
    about="Timeout for one request with its response.",
)
_CA_FILE = Key(
    name="ca_file",
    kind=Kind.TEXT,
    is_file=True,
    check=checks.not_empty,
    example="/etc/ssl/certs/company-ca.pem",
    about="PEM file with certificate authorities to trust instead of the system's.",
)
_VERIFY_TLS = Key(
    name="verify_tls",
    kind=Kind.BOOLEAN,
    about="Verify the receiver's certificate.",
)

ALERTMANAGER = Section(
    path="alertmanager",
    target=AlertmanagerSettings,
    is_optional=True,
    is_example=True,
    about="Alertmanagers that receive every alert. Configure mail, chat and pagers there, as "
    "routes. "
    "Without this table, none is notified.",
    fixed=("delivery",),
    keys=(
        Key(
            name="urls",
            kind=Kind.TEXTS,
            is_required=True,
            varies=True,
            example=["http://127.0.0.1:9093"],
            about="URLs of all Alertmanagers, each member of a cluster too; a path is put before "
            "/api/v2.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="dataprep-monitor",
            about="User name of basic auth; needs the password.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="alertmanager-password",
            about="Password of that user.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            example="alertmanager-token",
            about="Bearer token, sent as Authorization: Bearer instead of basic auth.",
        ),
        Key(
            name="resend_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=3_600,
            about="Interval at which a firing alert is sent again. Alertmanager ends an alert "
            "that it "
            "has not received for four intervals. Times follow each Alertmanager's own clock.",
        ),
        _TIMEOUT,
        _CA_FILE,
        _VERIFY_TLS,
    ),
)

WEBHOOK = Section(
    path="webhook",
    target=WebhookSettings,
    is_optional=True,
    is_example=True,
    about="Receiver of CloudEvents, signed as Standard Webhooks specifies. Without this table, "
    "no webhook is called.",
    fixed=("delivery",),
    keys=(
        Key(
            name="url",
            kind=Kind.TEXT,
            is_required=True,
            example="https://hooks.example.com/dataprep",
            about="URL that events are posted to.",
        ),
        Key(
            name="secret",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-webhook-secret",
            about="Signing secret: echo whsec_$(openssl rand -base64 32).",
        ),
        Key(
            name="former_secret",
            kind=Kind.SECRET,
            example="dataprep-webhook-former-secret",
            about="Previous signing secret; signs too while receivers switch to the new one.",
        ),
        Key(
            name="events",
            kind=Kind.TEXTS,
            about='Event types to send, as globs with * and ?: "alert.*" or "run.failed".',
        ),
        Key(
            name="workers",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            about="Maximum number of parallel requests; events of one subject stay in order.",
        ),
        _TIMEOUT,
        _CA_FILE,
        _VERIFY_TLS,
    ),
)

METRICS = Section(
    path="metrics",
    target=MetricsSettings,
    about="Metrics that [server] serves at /metrics.",
    fixed=(
        "batch_size",
        "commit_timeout_seconds",
        "loop_lag_interval_seconds",
        "pause_seconds",
        "retry_base_seconds",
        "retry_cap_seconds",
        "standing_timeout_seconds",
        "wait_seconds",
    ),
    keys=(
        Key(
            name="series_budget",
            kind=Kind.WHOLE,
            minimum=100,
            maximum=10_000_000,
            about="Maximum number of series of pipelines; the rest is summed as "
            'pipeline="__other__".',
        ),
        Key(
            name="stale_after_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="Active runs that were not confirmed within this time are left out.",
        ),
        Key(
            name="forget_pipelines_seconds",
            kind=Kind.NUMBER,
            minimum=3_600,
            maximum=3_650 * 86_400,
            about="When the series budget is used up, pipelines without runs for this time lose "
            "theirs.",
        ),
        Key(
            name="render_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=300,
            about="Timeout of a scrape; keep it below scrape_timeout of Prometheus (10 by "
            "default).",
        ),
    ),
)
