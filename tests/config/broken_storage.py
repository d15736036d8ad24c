"""For every rule that `storage` keeps, one value that breaks it."""

from __future__ import annotations

from tests.config.settings_tables import Row

NO_STORE = (
    'must be sqlite:// and an absolute path, such as "sqlite:///var/lib/dataprep-monitor/state.db"'
    ', or a database, such as "postgresql://monitor@db1,db2/dataprep_monitor"'
)
NO_SERVER = (
    "each host must be a name, an IP address ([::1] for IPv6) or %2Ffolder of a socket, with or "
    "without :PORT, and a comma between two"
)
NO_DAEMON = "use 1 to 100 of letters, digits, ., _ and -, beginning with a letter or digit"

BROKEN_STORAGE: tuple[Row, ...] = (
    ("storage.url", "nats://x", f'"nats://x": {NO_STORE}'),
    ("storage.url", "sqlite:relative", f'"sqlite:relative": {NO_STORE}'),
    ("storage.url", "sqlite://relative", f'"sqlite://relative": {NO_STORE}'),
    ("storage.url", "sqlite:///", f'"sqlite:///": {NO_STORE}'),
    ("storage.url", "sqlite:///a?mode=ro", f'"sqlite:///a?mode=ro": {NO_STORE}'),
    ("storage.url", "sqlite:///a%00", f'"sqlite:///a%00": {NO_STORE}'),
    (
        "storage.url",
        "postgresql://db",
        (
            '"postgresql://db": names no database; end it with one, such as '
            '"postgresql://monitor@db1,db2/dataprep_monitor"'
        ),
    ),
    (
        "storage.url",
        "postgresql://me:pass/word@db/monitor",
        '"postgresql://***@db/monitor": holds a password; use password_file',
    ),
    (
        "storage.url",
        'postgres://db/monitor?password=pass"word&b',
        (
            '"postgres://db/monitor?password=***": holds password; use password_file; and '
            "has a parameter that is not known here; known are application_name, passfile, "
            "sslcert, sslkey, sslmode, sslrootcert, target_session_attrs"
        ),
    ),
    (
        "storage.url",
        "postgresql://db/monitor?sslmode=on",
        (
            '"postgresql://db/monitor?sslmode=on": sslmode must be one of disable, allow, prefer, '
            "require, verify-ca, verify-full"
        ),
    ),
    (
        "storage.url",
        "postgresql://db/monitor?target_session_attrs=standby",
        (
            '"postgresql://db/monitor?target_session_attrs=standby": target_session_attrs must be '
            "read-write: the monitor writes to the primary"
        ),
    ),
    (
        "storage.url",
        "postgresql://db/monitor?sslkey=/key&sslkey=/key",
        (
            '"postgresql://db/monitor?sslkey=/key&sslkey=/key": gives sslkey twice; remove one; '
            "and has sslkey and no sslcert that it could belong to"
        ),
    ),
    (
        "storage.url",
        "postgresql://db/monitor?passfile=pw",
        '"postgresql://db/monitor?passfile=pw": passfile must be the absolute path of a file',
    ),
    (
        "storage.url",
        "postgresql://db1,db2:0/monitor",
        '"postgresql://db1,db2:0/monitor": a port must be a number from 1 to 65535',
    ),
    (
        "storage.url",
        "postgresql://db1,db1/monitor",
        '"postgresql://db1,db1/monitor": names one server twice; remove it',
    ),
    ("storage.url", "postgresql:///monitor", f'"postgresql:///monitor": {NO_SERVER}'),
    ("storage.url", "postgresql://::1/monitor", f'"postgresql://::1/monitor": {NO_SERVER}'),
    (
        "storage.url",
        "postgresql://db/a/b",
        '"postgresql://db/a/b": must end with the name of one database; write / in it as %2F',
    ),
    (
        "storage.url",
        "postgresql://db/%00",
        '"postgresql://db/%00": the database must be 1 to 63 bytes of printable text',
    ),
    (
        "storage.url",
        "postgresql://db/a#b",
        '"postgresql://db/a#b": nothing may follow a #; write one in a name as %23',
    ),
    ("storage.daemon", "", f'"": {NO_DAEMON}'),
    ("storage.daemon", "my host", f'"my host": {NO_DAEMON}'),
)
