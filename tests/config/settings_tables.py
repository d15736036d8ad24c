"""Parsed configurations to judge, and places that hold the secrets they name."""

from __future__ import annotations

from typing import Any

from monitor.config import Configuration, SecretSource, Verdict, judge, weigh
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

TOKEN = "token-of-the-workspace"
CALLBACK_SECRET = "callback-secret-of-32-characters"

HELD = {
    "/run/secrets/token": TOKEN,
    "/run/secrets/callbacks": CALLBACK_SECRET,
    "/run/secrets/short": "short",
    "/run/secrets/empty": "",
    "/run/secrets/lines": "one\r\nX-Injected: two",
    "MQTT_PASSWORD": "password-of-the-broker",
    "server-token": "token-of-the-server",
}


class HeldPlaces:
    """Places that exist in memory only."""

    def read_secret(self, source: SecretSource) -> Secret:
        if source.place not in HELD:
            raise ConfigurationError("there is no such file; create it or name another")
        return Secret(HELD[source.place])

    def find_file(self, path: str) -> str:
        if path.startswith("/missing"):
            raise ConfigurationError("there is no such file; create it or name another")
        return path


def workspace(name: str = "marketing", **changes: Any) -> dict[str, Any]:
    """Return the least that describes a workspace, with changes."""
    table = {"name": name, "url": "https://api.example.com", "token_file": "/run/secrets/token"}
    return {**table, **changes}


def file(**sections: Any) -> dict[str, Any]:
    """Return a configuration with one workspace, and the sections given."""
    return {"workspaces": [workspace()], **sections}


def with_callbacks(**changes: Any) -> dict[str, Any]:
    """Return a configuration whose workspace accepts callbacks, with changes to that."""
    callbacks = {"secret_file": "/run/secrets/callbacks", **changes}
    return file(workspaces=[workspace(callbacks=callbacks)], callbacks={})


def judged(mapping: dict[str, Any], environment: dict[str, str] | None = None) -> Configuration:
    """Judge with the held secrets."""
    return judge(mapping, environment or {}, places=HeldPlaces())


def weighed(mapping: dict[str, Any], environment: dict[str, str] | None = None) -> Verdict:
    """Weigh with the held secrets."""
    return weigh(mapping, environment or {}, places=HeldPlaces())


def faults(mapping: dict[str, Any], environment: dict[str, str] | None = None) -> list[str]:
    """Return the faults as they are shown."""
    return [str(fault) for fault in weighed(mapping, environment).faults]
