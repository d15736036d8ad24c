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
    """How log lines look. ``auto`` is ``console`` on a terminal and ``json`` elsewhere."""

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
    """What is logged, and how it looks."""

    level: LogLevel = LogLevel.INFO
    form: LogForm = LogForm.AUTO


SERVER = Section(
    path="server",
    target=ServerSettings,
    about="The page, the metrics and the admin API.",
    keys=(
        Key(
            name="listen",
            kind=Kind.TEXT,
            check=checks.listen_address,
            spread=checks.listen_fields,
            written_default="127.0.0.1:9876",
            about="HOST:PORT. On an address that others can reach, it needs a token or password.",
        ),
        Key(
            name="token",
            kind=Kind.SECRET,
            example="dataprep-monitor-token",
            about="Asked for as Authorization: Bearer.",
        ),
        Key(
            name="username",
            kind=Kind.TEXT,
            check=checks.one_line,
            example="operator",
            about="Basic auth, which browsers can ask for; together with the password.",
        ),
        Key(
            name="password",
            kind=Kind.SECRET,
            example="dataprep-monitor-password",
            about="Basic auth, together with the username.",
        ),
        Key(
            name="allow_anonymous",
            kind=Kind.BOOLEAN,
            about="Let everybody who can reach the address in; for networks that are guarded.",
        ),
        Key(
            name="stale_after_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=10,
            maximum=86_400,
            about="An active run that was not confirmed for so long is shown as unknown.",
        ),
    ),
)

LISTENER = Section(
    path="callbacks",
    target=ListenerSettings,
    is_optional=True,
    about="The listener for callbacks and nothing else; without the table there is none.",
    keys=(
        Key(
            name="listen",
            kind=Kind.TEXT,
            check=checks.listen_address,
            spread=checks.listen_fields,
            written_default="127.0.0.1:9877",
            about="HOST:PORT. Loopback suits a reverse proxy, which should end TLS.",
        ),
        Key(
            name="body_limit_bytes",
            kind=Kind.WHOLE,
            unit="bytes",
            minimum=256,
            maximum=1_048_576,
            about="The largest body that is read; a longer one is answered 413.",
        ),
        Key(
            name="body_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=30,
            about="For a sender to send its body.",
        ),
        Key(
            name="in_flight_limit",
            kind=Kind.WHOLE,
            minimum=1,
            maximum=100_000,
            about="Callbacks in work at once; more are answered 503 with Retry-After.",
        ),
        Key(
            name="commit_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=25,
            about="For a callback to become durable. The workspace itself gives up after 30.",
        ),
    ),
)

STORAGE = Section(
    path="storage",
    target=StorageSettings,
    about="The store: run states, events and positions, in one file.",
    fixed=("prune_seconds", "read_timeout_seconds", "retention"),
    keys=(
        Key(
            name="url",
            kind=Kind.TEXT,
            check=checks.storage_url,
            about="sqlite:// and an absolute path. The folder must be writable for the daemon.",
        ),
        Key(
            name="commit_timeout_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=0.1,
            maximum=600,
            about="How long a write may wait for the disk.",
        ),
        Key(
            name="stall_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=1,
            maximum=3_600,
            about="How much longer a begun write is awaited before the daemon ends.",
        ),
        Key(
            name="queue_bound",
            kind=Kind.WHOLE,
            minimum=100,
            maximum=10_000_000,
            about="Writes that may wait at a time; one more is refused at once.",
        ),
    ),
)

RETENTION = Section(
    path="storage.retention",
    # The type itself lives in the store's contract, which settings do not reach.
    target=type(StorageSettings().retention),
    about="How long things are kept.",
    fixed=("callbacks_seconds",),
    keys=(
        Key(
            name="events_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=60,
            maximum=3_650 * 86_400,
            about="Events older than this leave, once every output has taken them.",
        ),
        Key(
            name="events_count",
            kind=Kind.WHOLE,
            minimum=1_000,
            maximum=1_000_000_000,
            about="Events beyond this number leave, oldest first, once every output has them.",
        ),
        Key(
            name="events_hard_cap",
            kind=Kind.WHOLE,
            minimum=1_000,
            maximum=1_000_000_000,
            about="Events beyond this number leave although an output still needs them; counted.",
        ),
        Key(
            name="runs_seconds",
            kind=Kind.NUMBER,
            unit="seconds",
            minimum=86_400,
            maximum=3_650 * 86_400,
            about="Finished runs are remembered so long; an older one is historical if seen again.",
        ),
    ),
)

LOG = Section(
    path="log",
    target=LogSettings,
    about="What is logged, to stderr.",
    keys=(
        Key(
            name="level",
            kind=Kind.TEXT,
            choices=tuple(LogLevel),
            about="The least important events that are still logged.",
        ),
        Key(
            name="form",
            kind=Kind.TEXT,
            choices=tuple(LogForm),
            about="auto is console on a terminal and json elsewhere.",
        ),
    ),
)
