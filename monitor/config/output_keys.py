"""The settings of the outputs: who is told, and what metrics are served."""

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
    about="The broker that is told every event; without the table none is.",
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
            about="mqtt://HOST:PORT, or mqtts:// for TLS; the ports are 1883 and 8883 if left out.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="dataprep-monitor",
            about="Who we are at the broker.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="mqtt-password",
            about="The password that belongs to it.",
        ),
        Key(
            name="ca_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/ssl/certs/company-ca.pem",
            about="PEM with the authorities to trust instead of the system's.",
        ),
        Key(
            name="certificate_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/dataprep-monitor/client.pem",
            about="PEM with our own certificate, where the broker asks for one.",
        ),
        Key(
            name="key_file",
            kind=Kind.TEXT,
            is_file=True,
            check=checks.not_empty,
            example="/etc/dataprep-monitor/client.key",
            about="PEM with its key, where the certificate's file does not hold it.",
        ),
        Key(
            name="verify_tls",
            kind=Kind.BOOLEAN,
            about="Whether the broker's certificate is checked.",
        ),
        Key(
            name="prefix",
            kind=Kind.TEXT,
            about="What every topic begins with.",
        ),
        Key(
            name="instance",
            kind=Kind.TEXT,
            about="Our name at the broker. It must survive restarts; two daemons need two.",
        ),
        Key(
            name="protocol",
            kind=Kind.TEXT,
            choices=tuple(MqttProtocol),
            about="The version of MQTT; auto asks for 5 and falls back to 3.1.1.",
        ),
        Key(
            name="keepalive_seconds",
            kind=Kind.WHOLE,
            unit="seconds",
            minimum=1,
            maximum=65_535,
            about="After so long without traffic the link is tested.",
        ),
        Key(
            name="connect_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=300,
            about="To reach the broker, with TLS.",
        ),
        Key(
            name="acknowledge_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=600,
            about="A message that is not acknowledged for so long means that the link is lost.",
        ),
        Key(
            name="reconnect_cap_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=3_600,
            about="The longest wait between two attempts to connect again.",
        ),
        Key(
            name="event_expiry_seconds",
            kind=Kind.WHOLE,
            unit="seconds",
            minimum=1,
            maximum=4_294_967_295,
            about="After which the broker drops an event that waits for an absent subscriber.",
        ),
        Key(
            name="state_refresh_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=86_400,
            about="How old the time of knowledge in a retained state may become.",
        ),
        Key(
            name="state_stale_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="What was not confirmed for so long is unknown in retained states.",
        ),
        Key(
            name="window",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=1_000,
            target=DeliverySettings,
            about="Messages that may be on their way without an acknowledgement.",
        ),
        Key(
            name="attempts",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            target=DeliverySettings,
            about="Failures of one event, while others pass, after which it is a dead letter.",
        ),
    ),
)

_TIMEOUT = Key(
    name="timeout_seconds",
    kind=Kind.NUMBER,
    unit="seconds",
    minimum=0.1,
    maximum=300,
    about="For one request with its answer.",
)
_CA_FILE = Key(
    name="ca_file",
    kind=Kind.TEXT,
    is_file=True,
    check=checks.not_empty,
    example="/etc/ssl/certs/company-ca.pem",
    about="PEM with the authorities to trust instead of the system's.",
)
_VERIFY_TLS = Key(
    name="verify_tls",
    kind=Kind.BOOLEAN,
    about="Whether the receiver's certificate is checked.",
)

ALERTMANAGER = Section(
    path="alertmanager",
    target=AlertmanagerSettings,
    is_optional=True,
    is_example=True,
    about="Alertmanagers that are told every alert; without the table none is. Mail, chat and "
    "pagers are their routes.",
    fixed=("delivery",),
    keys=(
        Key(
            name="urls",
            kind=Kind.TEXTS,
            is_required=True,
            varies=True,
            example=["http://127.0.0.1:9093"],
            about="Each of them, also those of one cluster; a path is a prefix of /api/v2.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="dataprep-monitor",
            about="Basic auth, together with the password.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="alertmanager-password",
            about="The password that belongs to it.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            example="alertmanager-token",
            about="Sent as Authorization: Bearer, instead of the two.",
        ),
        Key(
            name="resend_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=3_600,
            about="An alert that fires is sent again so often; four times that without a word "
            "from us and it is over there. Each is told by its own clock, as its answers show it.",
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
    about="A receiver of CloudEvents, signed by the rules of Standard Webhooks; without the table "
    "there is none.",
    fixed=("delivery",),
    keys=(
        Key(
            name="url",
            kind=Kind.TEXT,
            is_required=True,
            example="https://hooks.example.com/dataprep",
            about="Where events are posted to.",
        ),
        Key(
            name="secret",
            kind=Kind.SECRET,
            is_required=True,
            example="dataprep-webhook-secret",
            about="What signs them: echo whsec_$(openssl rand -base64 32).",
        ),
        Key(
            name="former_secret",
            kind=Kind.SECRET,
            example="dataprep-webhook-former-secret",
            about="Signs beside it while receivers change over.",
        ),
        Key(
            name="events",
            kind=Kind.TEXTS,
            about='Types of events with * and ?, such as "alert.*" or "run.failed".',
        ),
        Key(
            name="workers",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100,
            about="Requests at the same time; what is about one subject stays in order.",
        ),
        _TIMEOUT,
        _CA_FILE,
        _VERIFY_TLS,
    ),
)

METRICS = Section(
    path="metrics",
    target=MetricsSettings,
    about="What GET /metrics of [server] serves.",
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
            about='Series of watched pipelines; the rest is summed up as pipeline="__other__".',
        ),
        Key(
            name="stale_after_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="Active runs that were not confirmed for so long are no longer shown.",
        ),
        Key(
            name="forget_pipelines_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=3_600,
            maximum=3_650 * 86_400,
            about="A pipeline silent for so long gives up its series when the budget is used up.",
        ),
        Key(
            name="render_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=300,
            about="For one answer; keep it below the scraper's own limit, which is often 10.",
        ),
    ),
)
