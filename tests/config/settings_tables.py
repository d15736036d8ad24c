"""Parsed tables to validate, and the secrets that they name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from monitor.config import (
    Configuration,
    SecretSource,
    ValidationResult,
    parse_configuration,
    validate,
)
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

TOKEN = "token-of-the-workspace"
TOKEN_NEEDED = (
    "give it as token_file or token_env or token_credential or token_command, or add "
    "[workspaces.oauth]"
)
TOKEN_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$dwTzTfQOKFKKmT4iZhD2OK1D5xkYS1cRBkaHmj0Wjkw"
)
CALLBACK_SECRET = "callback-secret-of-32-characters"
CHANNEL_URL = "ntfys://ntfy.example.com/data-team"
WEBHOOK_SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

# A key of the file, a value that it refuses, and the sentence after the key.
Row = tuple[str, object, str]

KNOWN_SECRETS = {
    "/run/secrets/token": TOKEN,
    "/run/secrets/refresh-token": "refresh-token-of-the-workspace",
    "/run/secrets/callbacks": CALLBACK_SECRET,
    "/run/secrets/webhook": WEBHOOK_SECRET,
    "/run/secrets/channel": CHANNEL_URL,
    "/run/secrets/pager": f"pagerduty://{'a' * 32}@{'b' * 20}/monitor",
    "/run/secrets/mail": "mailtos://me:s3cr3t@mail.example.com?to=team@example.com",
    "/run/secrets/short": "short",
    "/run/secrets/repeats": "abcdabcdabcdabcd",
    "/run/secrets/empty": "",
    "/run/secrets/lines": "one\r\nX-Injected: two",
    "MQTT_PASSWORD": "password-of-the-broker",
    "server-token": "token-of-the-server",
}


class KnownLocations:
    """Locations that exist in memory only."""

    def read_secret(self, source: SecretSource) -> Secret:
        if source.location not in KNOWN_SECRETS:
            raise ConfigurationError("there is no such file; create it or name another")
        return Secret(KNOWN_SECRETS[source.location])

    def find_file(self, path: str) -> str:
        if path.startswith("/missing"):
            raise ConfigurationError("there is no such file; create it or name another")
        return path


def workspace(name: str = "marketing", **changes: Any) -> dict[str, Any]:
    """Return the least that describes a workspace, with changes."""
    table = {"name": name, "url": "https://api.example.com", "token_file": "/run/secrets/token"}
    return {**table, **changes}


def with_oauth(**changes: Any) -> dict[str, Any]:
    """Return a workspace whose access tokens are refreshed, with changes to how."""
    oauth = {
        "token_url": "https://auth.example.com/as/token",
        "client_id": "af08ef5e",
        "refresh_token_file": "/run/secrets/refresh-token",
        **changes,
    }
    table = workspace(oauth=oauth)
    del table["token_file"]
    return table


def file(**sections: Any) -> dict[str, Any]:
    """Return a configuration with one workspace, and the sections given."""
    return {"workspaces": [workspace()], **sections}


def with_callbacks(**changes: Any) -> dict[str, Any]:
    """Return a configuration whose workspace accepts callbacks, with changes to that."""
    callbacks = {"secret_file": "/run/secrets/callbacks", **changes}
    return file(workspaces=[workspace(callbacks=callbacks)], callbacks={})


def parsed(mapping: dict[str, Any], environment: dict[str, str] | None = None) -> Configuration:
    """Parse with the known secrets."""
    return parse_configuration(mapping, environment or {}, locations=KnownLocations())


def validated(
    mapping: dict[str, Any], environment: dict[str, str] | None = None
) -> ValidationResult:
    """Validate with the known secrets."""
    return validate(mapping, environment or {}, locations=KnownLocations())


def with_rules(*rules: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Return a configuration with one workspace and rules of its own."""
    return file(alerts=list(rules), **sections)


def silence(**changes: Any) -> dict[str, Any]:
    """Return the least that describes a silence, with changes."""
    return {
        "matchers": ["workspace=marketing"],
        "comment": "The warehouse moves.",
        "ends_at": datetime(2026, 12, 24, 18, tzinfo=UTC),
        **changes,
    }


def channel(name: str = "team", **changes: Any) -> dict[str, Any]:
    """Return the least that describes a channel, with changes."""
    return {"name": name, "url_file": "/run/secrets/channel", **changes}


def report(**changes: Any) -> dict[str, Any]:
    """Return the least that describes a report, with changes."""
    return {"name": "last-night", "at": "0 7 * * *", **changes}


def person(name: str = "ada", **changes: Any) -> dict[str, Any]:
    """Return the least that lets a user in, with changes."""
    return {
        "name": name,
        "role": "operate",
        "users": "ada@example.com",
        "token_hash": TOKEN_HASH,
        **changes,
    }


def provider(**changes: Any) -> dict[str, Any]:
    """Return the least that describes an OpenID provider, with changes."""
    return {"issuer": "https://login.example.com", "client_id": "dataprep-monitor", **changes}


def tls() -> dict[str, Any]:
    """Return the least that describes the TLS of a listener."""
    return {"certificate_file": "/etc/tls.crt", "key_file": "/etc/tls.key"}


def everything() -> dict[str, Any]:
    """Return a configuration with every section that may be absent."""
    return {
        **with_callbacks(),
        "mqtt": {},
        "alertmanager": {"urls": ["http://127.0.0.1:9093"]},
        "webhook": {"url": "https://hooks.example.com", "secret_file": "/run/secrets/webhook"},
        "file": {"path": "/var/log/events.jsonl"},
        "notify": [channel()],
        "alerts": [{"rule": "failing_repeatedly"}],
        "silences": [silence()],
        "reports": [report()],
        "access": [person()],
        "status_pages": [
            {"name": "finance", "shows": {"Orders": f"{workspace()['name']}/flow/101"}}
        ],
        "server": {"oidc": provider(), "tls": tls()},
        "callbacks": {"tls": tls()},
    }


def table_of(mapping: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the table that a key stands in, made where it is absent."""
    table: Any = mapping
    for part in place.split(".")[:-1]:
        name, is_one_of_many, _ = part.partition("[0]")
        table = table[name][0] if is_one_of_many else table.setdefault(part, {})
    assert isinstance(table, dict)
    return table


def changed(place: str, value: object) -> dict[str, Any]:
    """Return a configuration with every section, in which one key has another value.

    A secret is given in that way only.
    """
    mapping = everything()
    if place.startswith("workspaces[0].oauth"):
        mapping["workspaces"] = [with_oauth()]
        mapping.pop("callbacks")
    table, name = table_of(mapping, place), place.rpartition(".")[2]
    secret = re.sub(r"_(file|env|credential|command)$", "", name)
    for form in ("file", "env", "credential", "command"):
        table.pop(f"{secret}_{form}", None)
    table[name] = value
    return mapping


def problems(mapping: dict[str, Any], environment: dict[str, str] | None = None) -> list[str]:
    """Return the problems as `check` prints them."""
    return [str(problem) for problem in validated(mapping, environment).problems]
