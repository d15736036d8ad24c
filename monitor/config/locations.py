"""Locations of secrets and files. The configuration names them; who reads them is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from monitor.config.problems import Problems
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret


class SecretForm(StrEnum):
    """The ways to give a secret; each is the ending of a key, as in ``token_file``."""

    FILE = "file"
    ENV = "env"
    CREDENTIAL = "credential"  # systemd's LoadCredential and SetCredential


class SecretSource(Struct, frozen=True, kw_only=True):
    """Location of one secret: a path, a variable's name or a credential's name."""

    form: SecretForm
    location: str


class Locations(Protocol):
    """Reads what the configuration names.

    A problem is raised as a `ConfigurationError` of one sentence with its hint, which names
    neither the key nor the location.
    """

    def read_secret(self, source: SecretSource) -> Secret:
        """Return the secret at that location."""

    def find_file(self, path: str) -> str:
        """Return the absolute path of a file that can be read."""


class NoLocations:
    """Reads nothing: for settings that need no secret and whose files are checked later."""

    def read_secret(self, source: SecretSource) -> Secret:
        raise ConfigurationError(f"nothing can be read from a {source.form} here")

    def find_file(self, path: str) -> str:
        return path


ABOUT_FORMS = {
    SecretForm.FILE: "a file that holds nothing else; a line end behind it is ignored",
    SecretForm.ENV: "the name of an environment variable that holds it",
    SecretForm.CREDENTIAL: "the name of a systemd credential of the service",
}

_LIKELY_LOCATION = {
    SecretForm.FILE: re.compile(r".{0,40}|.*/.*|.*\.\w{1,8}"),
    SecretForm.ENV: re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    SecretForm.CREDENTIAL: re.compile(r"[\w.:-]{1,64}"),
}


def secret_keys(name: str) -> dict[str, SecretForm]:
    """Return the keys under which the secret ``name`` may be given."""
    return {f"{name}_{form}": form for form in SecretForm}


def read_secret_key(
    name: str, table: Mapping[str, Any], *, path: str, locations: Locations, problems: Problems
) -> Secret | None:
    """Return the secret ``name`` of a table, None where it is absent or cannot be read."""
    keys = ", ".join(secret_keys(name))
    literal = table.get(name)
    if isinstance(literal, Secret):  # the environment gave it
        return _usable(literal, f"{path}.{name}", problems)
    if literal is not None:
        problems.add_hidden(f"{path}.{name}", f"a secret may not stand in the file; use {keys}")
    given = [(key, form) for key, form in secret_keys(name).items() if key in table]
    if len(given) > 1:
        names = ", ".join(key for key, _ in given)
        problems.add(f"{path}.{given[1][0]}", table[given[1][0]], f"give only one of {names}")
        return None
    for key, form in given:
        return _read(f"{path}.{key}", form, table[key], locations=locations, problems=problems)
    return None


def _read(
    key: str, form: SecretForm, location: Any, *, locations: Locations, problems: Problems
) -> Secret | None:
    if not isinstance(location, str) or not location:
        problems.add(key, location, f"must be {ABOUT_FORMS[form]}")
        return None
    if not _LIKELY_LOCATION[form].fullmatch(location):
        # Most likely the secret itself was pasted here, so it is not shown.
        problems.add_hidden(key, f"must be {ABOUT_FORMS[form]}")
        return None
    try:
        secret = locations.read_secret(SecretSource(form=form, location=location))
    except ConfigurationError as exc:
        problems.add(key, location, exc.problems[0])
        return None
    return _usable(secret, key, problems)


def _usable(secret: Secret, key: str, problems: Problems) -> Secret | None:
    text = secret.reveal()
    if not text:
        problems.add_hidden(key, "the secret is empty; put it there")
        return None
    if not text.isprintable():
        # A line end inside would break out of a header.
        problems.add_hidden(key, "the secret holds a line end or control character; give one line")
        return None
    return secret
