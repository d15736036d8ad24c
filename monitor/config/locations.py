"""Locations of secrets and files. The configuration names them; who reads them is handed in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
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
    COMMAND = "command"


class SecretSource(Struct, frozen=True, kw_only=True):
    """Location of one secret: a path, the name of a variable or credential, a quoted command."""

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
    SecretForm.FILE: "a file that holds nothing else; a line end after it is ignored",
    SecretForm.ENV: "the name of an environment variable that holds it",
    SecretForm.CREDENTIAL: "the name of a systemd credential of the service",
    SecretForm.COMMAND: "a command that prints nothing else; no shell reads it",
}
# A variable of the environment stays as it was at the start of the process.
_READ_AGAIN = frozenset({SecretForm.FILE, SecretForm.CREDENTIAL, SecretForm.COMMAND})

_LIKELY_LOCATION = {
    SecretForm.FILE: re.compile(r".{0,40}|.*/.*|.*\.\w{1,8}"),
    SecretForm.ENV: re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    SecretForm.CREDENTIAL: re.compile(r"[\w.:-]{1,64}"),
    SecretForm.COMMAND: re.compile(r"[\w.-]{1,40}|.*/.*"),  # its program
}


def secret_keys(name: str) -> dict[str, SecretForm]:
    """Return the keys under which the secret ``name`` may be given."""
    return {f"{name}_{form}": form for form in SecretForm}


def read_secret_key(
    name: str,
    table: Mapping[str, Any],
    *,
    path: str,
    locations: Locations,
    problems: Problems,
) -> Secret | None:
    """Return the secret ``name`` of a table, None where it is absent or cannot be read."""
    forms = secret_keys(name)
    keys = ", ".join(forms)
    literal = table.get(name)
    if isinstance(literal, Secret):  # the environment gave it
        return _usable(literal, f"{path}.{name}", problems)
    if literal is not None:
        problems.add_hidden(f"{path}.{name}", f"a secret may not stand in the file; use {keys}")
    given = [(key, form) for key, form in forms.items() if key in table]
    if len(given) > 1:
        names = ", ".join(key for key, _ in given)
        problems.add(f"{path}.{given[1][0]}", table[given[1][0]], f"give only one of {names}")
        return None
    for key, form in given:
        return _read(f"{path}.{key}", form, table[key], locations=locations, problems=problems)
    return None


def _read(
    key: str, form: SecretForm, value: Any, *, locations: Locations, problems: Problems
) -> Secret | None:
    words = _words(value) if form is SecretForm.COMMAND else [value]
    if not words or not all(isinstance(word, str) for word in words) or not words[0]:
        problems.add(key, value, f"must be {ABOUT_FORMS[form]}")
        return None
    if not _LIKELY_LOCATION[form].fullmatch(words[0]):
        # Most likely the secret itself was pasted here, so it is not shown.
        problems.add_hidden(key, f"must be {ABOUT_FORMS[form]}")
        return None
    location = shlex.join(words) if form is SecretForm.COMMAND else words[0]
    source = SecretSource(form=form, location=location)
    try:
        secret = locations.read_secret(source)
    except ConfigurationError as exc:
        problems.add(key, words[0], exc.problems[0])  # arguments of a command may be secret
        return None
    if _usable(secret, key, problems) is None:
        return None
    if form not in _READ_AGAIN:
        return secret
    return Secret(secret.reveal(), read_again=partial(_read_again, source, locations))


def _words(command: Any) -> list[Any]:
    """Return program and arguments; nothing where the quotes do not match, or it is no command."""
    if not isinstance(command, str):
        return list(command) if isinstance(command, list) else []
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _read_again(source: SecretSource, locations: Locations) -> Secret:
    secret = locations.read_secret(source)
    if (flaw := _flaw(secret)) is not None:
        raise ConfigurationError(flaw)
    return Secret(secret.reveal(), read_again=partial(_read_again, source, locations))


def _usable(secret: Secret, key: str, problems: Problems) -> Secret | None:
    if (flaw := _flaw(secret)) is not None:
        problems.add_hidden(key, flaw)
        return None
    return secret


def _flaw(secret: Secret) -> str | None:
    text = secret.reveal()
    if not text:
        return "the secret is empty; put it there"
    if not text.isprintable():
        # A line end inside would break out of a header.
        return "the secret holds a line end or control character; give one line"
    return None
