"""The settings of the broker's connection."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_host, is_plain
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, one_line, readable
from monitor.outputs.event_selection import event_types, selected_types
from monitor.outputs.settings import AuthoritiesFile, DeliverySettings, OutputRecord

_MOST_CHARACTERS = 200  # a topic has 65,535 bytes; names of flows may need most of them
_PORTS = {"mqtt": 1883, "mqtts": 8883}


class MqttProtocol(StrEnum):
    """Which version of MQTT is spoken. ``auto`` tries 5 and falls back to 3.1.1."""

    AUTO = "auto"
    V5 = "5"
    V311 = "3.1.1"


class BrokerAddress(Struct, frozen=True, kw_only=True):
    """Where the broker listens. Its text is the label ``broker``; it holds no credentials."""

    host: str
    port: int
    is_encrypted: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def broker_address(url: str) -> BrokerAddress:
    """Return the address that a URL names.

    Raises:
        ConfigurationError: the URL cannot be used. The message does not repeat it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ConfigurationError("not a URL") from exc
    if parts.scheme not in _PORTS:
        raise ConfigurationError("must begin with mqtt:// or mqtts://")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("holds credentials; use username and password_file")
    host = parts.hostname or ""
    if not is_plain(url) or not is_host(host):
        raise ConfigurationError("names no host that could be asked for")
    if port == 0:
        raise ConfigurationError("port 0 is none that a broker can listen on")
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise ConfigurationError("nothing may follow host and port")
    return BrokerAddress(
        host=host, port=port or _PORTS[parts.scheme], is_encrypted=parts.scheme == "mqtts"
    )


def _prefix(text: str) -> str | None:
    if not text or text.startswith(("/", "$")) or text.endswith("/"):
        return "must be topic levels without a slash or $ at the ends"
    return "must not hold + or # or control characters" if _has_wildcard(text) else _length(text)


def _instance(text: str) -> str | None:
    if not text or "/" in text or _has_wildcard(text):
        return "must be one topic level without + or #"
    return _length(text)


def _has_wildcard(text: str) -> bool:
    return any(character in "+#" for character in text) or not text.isprintable()


def _length(text: str) -> str | None:
    if len(text) <= _MOST_CHARACTERS:
        return None
    return f"must be at most {_MOST_CHARACTERS} characters"


class MqttSettings(DeliverySettings, frozen=True, kw_only=True):
    """MQTT broker that events and states are published to. Without this table, MQTT is off."""

    url: Annotated[
        str,
        Setting(
            "mqtt://HOST:PORT, or mqtts:// for TLS. Default ports are 1883 and 8883.",
            check=readable(broker_address),
        ),
    ] = "mqtt://127.0.0.1:1883"
    username: Annotated[
        str | None, Setting("User name at the broker.", "dataprep-monitor", one_line)
    ] = None
    password: Annotated[Secret | None, Setting("Password of that user.", "mqtt-password")] = None
    ca_file: AuthoritiesFile = None
    certificate_file: Annotated[
        str | None,
        Setting(
            "PEM file with the client certificate, if the broker requires one.",
            "/etc/dataprep-monitor/client.pem",
            is_file=True,
        ),
    ] = None
    key_file: Annotated[
        str | None,
        Setting(
            "PEM file with the key of that certificate, if it is in a separate file.",
            "/etc/dataprep-monitor/client.key",
            is_file=True,
        ),
    ] = None
    verify_tls: Annotated[bool, Setting("Verify the broker's certificate.")] = True
    prefix: Annotated[str, Setting("Prefix of every topic.", check=_prefix)] = "dataprep/v1"
    instance: Annotated[
        str,
        Setting(
            "Client id and topic level. Keep it across restarts; each daemon needs its own, and "
            "the daemons of a cluster share one.",
            check=_instance,
        ),
    ] = "monitor"
    events: Annotated[
        tuple[str, ...],
        Setting(
            'Event types to publish, as globs with * and ?; "!" before one leaves out: "*", '
            '"!run.detailed". Retained states are published whatever is selected.',
            check=event_types,
        ),
    ] = ("*",)
    protocol: Annotated[
        MqttProtocol, Setting("MQTT version; auto tries 5 and falls back to 3.1.1.")
    ] = MqttProtocol.AUTO
    keepalive_seconds: Annotated[
        int,
        Meta(ge=1, le=65_535),
        Setting("MQTT keep-alive: after this time without traffic the client sends a ping."),
    ] = 30
    connect_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=300), Setting("Timeout for connecting to the broker, TLS included.")
    ] = 10.0
    acknowledge_timeout_seconds: Annotated[
        float,
        Meta(ge=0.1, le=600),
        Setting("Timeout of an acknowledgement (PUBACK); after it the client reconnects."),
    ] = 20.0
    reconnect_cap_seconds: Annotated[
        float, Meta(ge=1, le=3_600), Setting("Maximum wait between two attempts to reconnect.")
    ] = 30.0
    event_expiry_seconds: Annotated[
        int,
        Meta(ge=1, le=4_294_967_295),
        Setting("Message expiry: the broker drops an event that waits longer for a subscriber."),
    ] = 7 * 86_400
    state_refresh_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        Setting("Interval at which retained states are refreshed with the time of confirmation."),
    ] = 60.0
    state_stale_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        Setting("Runs that were not confirmed within this time are unknown in retained states."),
    ] = 300.0
    window: Annotated[
        int, Meta(ge=1, le=1_000), Setting("Maximum number of unacknowledged messages in flight.")
    ] = 100
    attempts: Annotated[
        int,
        Meta(ge=1, le=100),
        Setting("Attempts for one event, while others succeed, before it becomes a dead letter."),
    ] = 5
    reconnect_base_seconds: float = 1.0
    stop_timeout_seconds: float = 5.0  # for the last words of a clean stop
    state_interval_seconds: float = 1.0  # at most one retained message per topic in that time
    state_scan_seconds: float = 15.0  # how often all retained state is compared

    @property
    def broker(self) -> BrokerAddress:
        """Return where to connect to; a URL that cannot be used raises a `ConfigurationError`."""
        return broker_address(self.url)

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        problems: list[str] = []
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if self.key_file and not self.certificate_file:
            problems.append("key_file: there is no certificate_file that it could belong to")
        return problems


MQTT = OutputRecord(
    section="mqtt",
    settings=MqttSettings,
    output="monitor.outputs.mqtt.output:MqttOutput",
    receivers=lambda settings: [str(settings.broker)],
    types=lambda settings: selected_types(settings.events),
    is_usual=True,
)
