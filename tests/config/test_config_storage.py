"""Where a store is: a file, or the servers of a database."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from monitor.bus.postgres_address import PostgresAddress, ServerAddress, TlsMode, postgres_address
from monitor.bus.settings import StorageSettings
from monitor.config import Problem
from tests.config.settings_tables import file, parsed, problems, validated


def address(*hosts: tuple[str, int], **more: Any) -> PostgresAddress:
    return PostgresAddress(
        hosts=tuple(ServerAddress(*host) for host in hosts), database="monitor", **more
    )


@pytest.mark.parametrize(
    ("url", "expected", "text"),
    [
        ("postgresql://db/monitor", address(("db", 5432)), "db:5432/monitor"),
        (
            "postgres://me%40x@db1:6432,[::1],10.0.0.2:5433/monitor",
            address(("db1", 6432), ("::1", 5432), ("10.0.0.2", 5433), user="me@x"),
            "db1:6432,[::1]:5432,10.0.0.2:5433/monitor",
        ),
        (
            "postgresql://%2Fvar%2Frun%2Fpostgresql/monitor?target_session_attrs=read-write",
            address(("/var/run/postgresql", 5432)),
            "/var/run/postgresql:5432/monitor",
        ),
        (
            "postgresql://db/monitor?sslmode=verify-full&sslrootcert=/ca&passfile=/p%20w",
            address(
                ("db", 5432),
                tls=TlsMode.VERIFY_FULL,
                authorities_file="/ca",
                password_file="/p w",
            ),
            "db:5432/monitor",
        ),
        (
            "postgresql://db/monitor?sslcert=/c&sslkey=/k&application_name=watch",
            address(("db", 5432), certificate_file="/c", key_file="/k", application_name="watch"),
            "db:5432/monitor",
        ),
        (
            "postgresql://db/monitor?sslmode=verify-ca&sslrootcert=system",
            address(("db", 5432), tls=TlsMode.VERIFY_CA),
            "db:5432/monitor",
        ),
    ],
)
def test_a_url_means_what_it_means_to_libpq(url: str, expected: PostgresAddress, text: str) -> None:
    """Hosts, ports, user and files are read as every PostgreSQL client reads them."""
    assert postgres_address(url) == expected
    assert str(expected) == text
    assert parsed(file(storage={"url": url})).storage.postgres == expected


def test_a_daemon_has_the_name_of_its_host_unless_it_has_another() -> None:
    """A file names no database, and a daemon without a name of its own has that of its host."""
    assert StorageSettings().postgres is None
    assert StorageSettings().daemon_id == socket.gethostname()
    assert StorageSettings(daemon="monitor-1").daemon_id == "monitor-1"


def test_the_password_is_given_once() -> None:
    """A password beside a passfile would leave open which of them is used."""
    storage = {"url": "postgresql://db/monitor?passfile=/pgpass", "password_env": "MQTT_PASSWORD"}
    assert problems(file(storage=storage)) == [
        "storage.password: ***: the URL names a passfile already; give only one of them"
    ]


def about_storage(given: dict[str, Any]) -> list[Problem]:
    """Return the warnings about the store."""
    return [found for found in validated(given).warnings if found.key.startswith("storage")]


def test_a_password_of_a_file_is_warned_of() -> None:
    """A password that nothing asks for probably belongs to a database that is not named."""
    storage = {"url": "sqlite:///store.db", "password_env": "MQTT_PASSWORD"}
    [warning] = about_storage(file(storage=storage))
    assert str(warning) == (
        'storage.url: "sqlite:///store.db": storage.password is not used: a file has none; name '
        "the database, or remove it"
    )
    # A default beside a URL that cannot be used is not reported.
    storage["url"] = "postgresql://db"
    assert about_storage(file(storage=storage)) == []
