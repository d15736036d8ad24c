"""What can be set about the outputs."""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.events import INTERNAL_EVENTS, EventType
from monitor.model.outside import is_host, is_plain
from monitor.model.secrets import Secret
from monitor.model.suggestions import did_you_mean

_MOST_CHARACTERS = 200  # a topic has 65,535 bytes, most of which names of flows may need
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_WEB_PORTS = {"http": 80, "https": 443}
_KEY_PREFIX = "whsec_"  # as Standard Webhooks writes a key
_KEY_BYTES = (24, 64)


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


class DeliverySettings(Struct, frozen=True, kw_only=True):
    """How one output works through the log of events."""

    window: int = 100  # events sent and not yet acknowledged
    uncommitted: int = 5_000  # events acknowledged whose position is not yet durable
    # The position is stored so late at most, if possible with a commit that others make anyway:
    # so much is sent again after a crash.
    commit_interval_seconds: float = 1.0
    stores_answers_at_once: bool = False  # for outputs to people: a crash repeats no page
    commit_timeout_seconds: float = 10.0
    wait_seconds: float = 5.0  # one wait for new events; then the log is read anyway
    backoff_base_seconds: float = 1.0  # the first wait after the receiver failed
    backoff_cap_seconds: float = 30.0
    # An event that fails this often while the receiver takes others, or that breaks the
    # connection this often when sent alone, becomes a dead letter: nothing blocks for ever.
    attempts: int = 5


class MqttSettings(Struct, frozen=True, kw_only=True):
    """The broker, and how it is talked to."""

    url: str = "mqtt://127.0.0.1:1883"  # mqtt:// or mqtts://, never with credentials
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None  # PEM; None takes the system's authorities
    certificate_file: str | None = None  # PEM; the client's own, where the broker requires one
    key_file: str | None = None  # PEM; None where the certificate file holds the key too
    verify_tls: bool = True
    prefix: str = "dataprep/v1"  # of every topic
    instance: str = "monitor"  # must survive restarts; two daemons on a broker need two
    protocol: MqttProtocol = MqttProtocol.AUTO
    keepalive_seconds: int = 30
    connect_timeout_seconds: float = 10.0
    acknowledge_timeout_seconds: float = 20.0  # then the link counts as lost
    reconnect_base_seconds: float = 1.0
    reconnect_cap_seconds: float = 30.0
    stop_timeout_seconds: float = 5.0  # for the last words of a clean stop
    event_expiry_seconds: int = 7 * 86_400  # the broker drops an event that waited longer
    state_interval_seconds: float = 1.0  # at most one retained message per topic in that time
    state_scan_seconds: float = 15.0  # how often all retained state is compared
    state_refresh_seconds: float = 60.0  # how old a published ``known_at`` may become
    state_stale_seconds: float = 300.0  # what was not confirmed for so long is published as unknown
    delivery: DeliverySettings = DeliverySettings()

    @property
    def broker(self) -> BrokerAddress:
        """Return where to connect to.

        Raises:
            ConfigurationError: the URL cannot be used. The message does not repeat it.
        """
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError as exc:
            raise ConfigurationError("url: not a URL") from exc
        if parts.scheme not in _PORTS:
            raise ConfigurationError("url: must begin with mqtt:// or mqtts://")
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError("url: holds credentials; use username and password_file")
        host = parts.hostname or ""
        if not is_plain(self.url) or not is_host(host):
            raise ConfigurationError("url: names no host that could be asked for")
        if port == 0:
            raise ConfigurationError("url: port 0 is none that a broker can listen on")
        if parts.path not in ("", "/") or "?" in self.url or "#" in self.url:
            raise ConfigurationError("url: nothing may follow host and port")
        return BrokerAddress(
            host=host,
            port=port or _PORTS[parts.scheme],
            is_encrypted=parts.scheme == "mqtts",
        )

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for everything that cannot work."""
        problems: list[str] = []
        try:
            _ = self.broker
        except ConfigurationError as exc:
            problems.extend(exc.problems)
        if not self.prefix or self.prefix.startswith(("/", "$")) or self.prefix.endswith("/"):
            problems.append("prefix: must be topic levels without a slash or $ at the ends")
        if _has_wildcard(self.prefix):
            problems.append("prefix: must not hold + or # or control characters")
        problems.extend(
            f"{name}: must be at most {_MOST_CHARACTERS} characters"
            for name in ("prefix", "instance")
            if len(getattr(self, name)) > _MOST_CHARACTERS
        )
        if not self.instance or "/" in self.instance or _has_wildcard(self.instance):
            problems.append("instance: must be one topic level without + or #")
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if self.key_file and not self.certificate_file:
            problems.append("key_file: there is no certificate_file that it could belong to")
        if not 1 <= self.keepalive_seconds <= 65_535:  # noqa: PLR2004 - the field has two bytes
            problems.append("keepalive_seconds: must be 1 to 65535")
        if self.delivery.window < 1:
            problems.append("window: must be at least 1")
        return problems


def _has_wildcard(text: str) -> bool:
    return any(character in "+#" for character in text) or not text.isprintable()


class ReceiverSettings(Struct, frozen=True, kw_only=True):
    """How an HTTP receiver is called. Redirects are never followed."""

    timeout_seconds: float = 10.0  # for one request, from connecting to the end of the answer
    ca_file: str | None = None  # PEM; None takes the system's authorities
    verify_tls: bool = True


class AlertmanagerSettings(ReceiverSettings, frozen=True, kw_only=True):
    """The Alertmanagers; each is sent everything, as Prometheus does."""

    urls: tuple[str, ...] = ()  # without credentials; a path is a prefix of /api/v2
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None  # a bearer token, instead of the two
    # Each firing alert is sent again so often, and lapses there after four times that.
    resend_seconds: float = 60.0
    delivery: DeliverySettings = DeliverySettings(
        window=128, attempts=10, stores_answers_at_once=True
    )

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for everything that cannot work."""
        problems: list[str] = [] if self.urls else ["urls: name at least one Alertmanager"]
        for url in self.urls:
            problem = url_problem(url)
            if problem is None and "?" in url:
                problem = "no query may follow the path"
            if problem is not None:
                problems.append(f"urls: {problem}")
        usable = [url for url in self.urls if url_problem(url) is None]
        if len({receiver_of(url) for url in usable}) < len(usable):
            problems.append("urls: one Alertmanager is named twice")
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if self.token is not None and self.username is not None:
            problems.append("token: either a token or a username, not both")
        problems.extend(_header_problems(token=self.token, password=self.password))
        return problems + _waits_problems(self)


class WebhookSettings(ReceiverSettings, frozen=True, kw_only=True):
    """One receiver of signed CloudEvents, by the rules of Standard Webhooks."""

    url: str
    secret: Secret  # whsec_ and 24 to 64 bytes in base64
    former_secret: Secret | None = None  # signs beside it while receivers change over
    events: tuple[str, ...] = ("alert.*",)  # types, with * and ?
    workers: int = 8  # requests at the same time; what is about one subject stays in order
    delivery: DeliverySettings = DeliverySettings(
        window=32, attempts=10, stores_answers_at_once=True
    )

    def __repr__(self) -> str:
        # Many receivers identify their customers by a secret in the path.
        host = urlsplit(self.url).hostname if url_problem(self.url) is None else None
        return f"WebhookSettings(host={host!r}, events={self.events!r})"

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for everything that cannot work."""
        problems: list[str] = []
        if (problem := url_problem(self.url)) is not None:
            problems.append(f"url: {problem}")
        for name, secret in (("secret", self.secret), ("former_secret", self.former_secret)):
            if secret is None:
                continue
            try:
                signing_key(secret)
            except ConfigurationError as exc:
                problems.extend(f"{name}: {key_problem}" for key_problem in exc.problems)
        if not self.events:
            problems.append('events: name at least one type, such as "alert.*"')
        problems.extend(
            problem for event in self.events if (problem := _type_problem(event)) is not None
        )
        if self.workers < 1:
            problems.append("workers: must be at least 1")
        return problems + _waits_problems(self)


def receiver_of(url: str) -> str:
    """Return host, port and path of a usable URL: what identifies a receiver."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or _WEB_PORTS[parts.scheme]}{parts.path.rstrip('/')}"


def url_problem(url: str) -> str | None:
    """Return why nothing can be posted to the URL; the sentence does not repeat it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "not a URL"
    if parts.scheme not in _WEB_PORTS:
        return "must begin with http:// or https://"
    if parts.username is not None or parts.password is not None:
        return "holds credentials; give them in a file of their own"
    if not is_plain(url) or not is_host(parts.hostname or ""):
        return "names no host that could be asked for"
    if port == 0:
        return "port 0 is none that a receiver can listen on"
    return "nothing may follow a #" if "#" in url else None


def signing_key(secret: Secret) -> bytes:
    """Return the bytes that a secret of Standard Webhooks stands for.

    Raises:
        ConfigurationError: it is none. The message does not repeat it.
    """
    least, most = _KEY_BYTES
    form = f"must be {_KEY_PREFIX} and {least} to {most} bytes in base64"
    hint = f"make one with: echo {_KEY_PREFIX}$(openssl rand -base64 32)"
    text = secret.reveal().strip()
    try:
        key = base64.b64decode(text.removeprefix(_KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ConfigurationError(f"{form}; {hint}") from exc
    if not text.startswith(_KEY_PREFIX) or not least <= len(key) <= most:
        raise ConfigurationError(f"{form}; {hint}")
    return key


def _type_problem(pattern: str) -> str | None:
    if any(
        fnmatchcase(event_type, pattern)
        for event_type in EventType
        if event_type not in INTERNAL_EVENTS
    ):
        return None
    return f"events: no event type matches {pattern!r}{did_you_mean(pattern, map(str, EventType))}"


def _header_problems(**secrets: Secret | None) -> list[str]:
    return [
        f"{name}: has a character that no header can carry, perhaps a line break at its end"
        for name, secret in secrets.items()
        if secret is not None and not secret.reveal().isprintable()
    ]


def _waits_problems(settings: Struct) -> list[str]:
    return [
        f"{name}: must be above 0 seconds"
        for name in settings.__struct_fields__
        if name.endswith("_seconds") and getattr(settings, name) <= 0
    ]


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """The metrics page and the counters behind it."""

    series_budget: int = 50_000  # of watched pipelines; the rest is pipeline="__other__"
    stale_after_seconds: float = 300.0  # runs not confirmed for so long are unknown, not shown
    # A pipeline without an event for so long gives up its place once the budget is used up.
    forget_pipelines_seconds: float = 90 * 86_400.0
    batch_size: int = 1_000  # most events that are counted in one commit
    # After a batch that was not full; what comes meanwhile shares a commit, and callbacks go first.
    pause_seconds: float = 1.0
    commit_timeout_seconds: float = 10.0
    wait_seconds: float = 5.0  # one wait for new events; then the log is read anyway
    retry_base_seconds: float = 0.5  # the first wait after the store failed
    retry_cap_seconds: float = 30.0
    standing_timeout_seconds: float = 2.0  # for the store's own figures; then a page without them
    render_timeout_seconds: float = 9.0  # for one page; below Prometheus's own limit of 10
    loop_lag_interval_seconds: float = 0.5  # how often the lag of the event loop is measured

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for everything that cannot work."""
        problems: list[str] = []
        if self.series_budget < 1:
            problems.append("series_budget: must be at least 1")
        if self.batch_size < 1:
            problems.append("batch_size: must be at least 1")
        return problems + _waits_problems(self)
