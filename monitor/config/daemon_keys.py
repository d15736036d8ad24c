"""The settings of the daemon itself: listeners, store and log."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import ListenerSettings
from monitor.config import checks
from monitor.config.keys import Key, Kind, Section
from monitor.web.settings import ServerSettings


class LogForm(StrEnum):
    """Format of log lines. ``auto`` is ``console`` on a terminal and ``json`` elsewhere."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important events that are still logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged, and in which format."""

    level: LogLevel = LogLevel.INFO
    form: LogForm = LogForm.AUTO
    slow_steps: bool = False


SERVER = Section(
    path="server",
    target=ServerSettings,
    about="The page, the metrics and the admin API.",
    fixed=(
        "connections",
        "body_timeout_seconds",
        "wrong_credentials_delay_seconds",
        "writes_per_minute",
    ),
    keys=(
        Key(
            name="listen",
            kind=Kind.TEXT,
            check=checks.listen_address,
            spread=checks.listen_fields,
            written_default="127.0.0.1:9876",
            about="HOST:PORT. Outside loopback it needs a token or a password.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            example="dataprep-monitor-token",
            about="Bearer token that clients must send as Authorization: Bearer; 16 characters or "
            "more.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="operator",
            about="User name of basic auth, for browsers; needs the password.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="dataprep-monitor-password",
            about="Password of basic auth, 12 characters or more; needs the username.",
        ),
        Key(
            name="allow_anonymous",
            kind=Kind.BOOLEAN,
            about="Allow access without authentication; for trusted networks only.",
        ),
        Key(
            name="hosts",
            kind=Kind.TEXTS,
            check=checks.host_names,
            about="Names under which browsers and scripts reach the server, beside its listen "
            "address, IP addresses and localhost. A request for another name is answered 421; "
            "/healthz, /readyz and /metrics are open under any.",
        ),
        Key(
            name="trusted_proxies",
            kind=Kind.TEXTS,
            check=checks.networks,
            about="Addresses and networks of reverse proxies. Limits and log lines about a request "
            "from one of them name the last other address in its X-Forwarded-For.",
        ),
        Key(
            name="stale_after_seconds",
            kind=Kind.NUMBER,
            minimum=10,
            maximum=86_400,
            about="An active run that was not confirmed within this time is shown as unknown.",
        ),
    ),
)

LISTENER = Section(
    path="callbacks",
    target=ListenerSettings,
    is_optional=True,
    fixed=("connections", "wrong_secret_delay_seconds"),
    about="Listener for callbacks only. Without this table the daemon accepts no callbacks.",
    keys=(
        Key(
            name="listen",
            kind=Kind.TEXT,
            check=checks.listen_address,
            spread=checks.listen_fields,
            written_default="127.0.0.1:9877",
            about="HOST:PORT. Use loopback behind a reverse proxy that terminates TLS.",
        ),
        Key(
            name="body_limit_bytes",
            kind=Kind.WHOLE,
            minimum=256,
            maximum=1_048_576,
            about="Maximum size of a callback body; a larger one is answered 413.",
        ),
        Key(
            name="body_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=30,
            about="Timeout for receiving the body of a callback.",
        ),
        Key(
            name="in_flight_limit",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100_000,
            about="Maximum number of callbacks in progress; more are answered 503 with "
            "Retry-After.",
        ),
        Key(
            name="commit_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=25,
            about="Timeout for storing a callback. The workspace itself gives up after 30 seconds.",
        ),
        Key(
            name="trusted_proxies",
            kind=Kind.TEXTS,
            check=checks.networks,
            about="Addresses and networks of reverse proxies. Limits and log lines about a request "
            "from one of them name the last other address in its X-Forwarded-For.",
        ),
    ),
)

STORAGE = Section(
    path="storage",
    target=StorageSettings,
    about="The store: run states, events and consumer positions, in one file.",
    fixed=("prune_seconds", "read_timeout_seconds", "retention"),
    keys=(
        Key(
            name="url",
            kind=Kind.TEXT,
            check=checks.storage_url,
            varies=True,
            example=StorageSettings().url,
            about="sqlite:// and an absolute path. The daemon needs write access to the folder. "
            "Default: dataprep-monitor/state.db in $XDG_STATE_HOME or, without that, in "
            "~/.local/state; for a user without a home /var/lib/dataprep-monitor/state.db.",
        ),
        Key(
            name="commit_timeout_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=600,
            about="Timeout of a write to the store.",
        ),
        Key(
            name="stall_seconds",
            kind=Kind.NUMBER,
            minimum=1,
            maximum=3_600,
            about="Additional time for a write that has begun; then the daemon exits with an "
            "error.",
        ),
        Key(
            name="queue_bound",
            kind=Kind.WHOLE,
            minimum=100,
            maximum=10_000_000,
            about="Maximum number of queued writes; further writes are refused at once.",
        ),
    ),
)

RETENTION = Section(
    path="storage.retention",
    # The type itself lives in the store's contract, which settings do not reach.
    target=type(StorageSettings().retention),
    about="Retention of events and runs.",
    fixed=("callbacks_seconds",),
    keys=(
        Key(
            name="events_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=3_650 * 86_400,
            about="Events older than this are deleted once every output has consumed them.",
        ),
        Key(
            name="events_count",
            kind=Kind.WHOLE,
            minimum=1_000,
            maximum=1_000_000_000,
            about="More events than this are deleted, oldest first, once every output has "
            "consumed them.",
        ),
        Key(
            name="events_hard_cap",
            kind=Kind.WHOLE,
            minimum=1_000,
            maximum=1_000_000_000,
            about="More events than this are deleted even if an output still needs them; "
            "dataprep_monitor_events_lost_total counts that.",
        ),
        Key(
            name="runs_seconds",
            kind=Kind.NUMBER,
            minimum=86_400,
            maximum=3_650 * 86_400,
            about="Retention of finished runs. An older run that changes again makes no events.",
        ),
    ),
)

LOG = Section(
    path="log",
    target=LogSettings,
    about="Logging, to stderr.",
    keys=(
        Key(
            name="level",
            kind=Kind.TEXT,
            choices=tuple(LogLevel),
            about="Minimum level of log lines.",
        ),
        Key(
            name="form",
            kind=Kind.TEXT,
            choices=tuple(LogForm),
            about="Format of log lines; auto is console on a terminal and json elsewhere.",
        ),
        Key(
            name="slow_steps",
            kind=Kind.BOOLEAN,
            about="For debugging: log each step that held the event loop for more than 2 ms, with "
            "the task that took it. It doubles the daemon's processor time; read at start.",
        ),
    ),
)
