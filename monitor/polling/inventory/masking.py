"""Masks secrets among a workspace's settings. Pure: no I/O and no clock.

Hiding too much is harmless and hiding too little is not: whatever seems a secret by its
name, by its value or by how the workspace marks it is hidden.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from monitor.model.outside import harmless
from monitor.tracking.workspace_changes import TrackedValue

MASK = "***"
_LONGEST_SHOWN = 500  # characters of a value
_DEEPEST = 12

# Anywhere in a name, however its words are joined.
_STEMS = re.compile(
    "passw|passphrase|secret|token|credential|apikey|accesskey|privatekey|keystore|keytab"
    "|authoriz|signature|connectionstring|jdbcurl|webhookurl"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_WORDS = frozenset(
    {"key", "keys", "pass", "pwd", "pw", "pin", "otp", "auth", "jwt", "bearer", "cookie", "salt"}
    | {"hmac", "hash", "pem", "cert", "certificate", "private", "dsn", "sas", "license", "nonce"}
)
# A number under such a name is a limit, whatever it limits.
_MEASURES = frozenset(
    {"seconds", "minutes", "hours", "days", "milliseconds", "ms", "bytes", "count", "limit"}
    | {"length", "size", "max", "min", "maximum", "minimum", "timeout", "interval", "retries"}
)
_SECRET_VALUES = re.compile(
    r"(?i)-----begin|\b(?:bearer|basic)\s+\S|\beyj[\w-]{8,}|://[^\s/]*@|\b(?:AKIA|ASIA|ghp_|xox)\w"
    r"|(?:passw|secret|token|key|sig|pwd|credential)[\w-]*[\x22']?\s*[=:]\s*\S"
)
_RANDOM_TEXT = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/_=-]{24,}")


def tracked_settings(
    configuration: dict[str, Any], *, secret_names: Collection[str], salt: bytes
) -> dict[str, TrackedValue]:
    """Return every single setting under its whole name, as it may be stored and shown.

    ``secret_names`` are those that the workspace itself calls secret. Of what is hidden only a
    keyed digest is stored, by which a change is noticed; without ``salt`` it reveals nothing.
    """
    tracked: dict[str, TrackedValue] = {}
    for path, value in _leaves((), configuration):
        name = harmless(".".join(path))
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if is_secret(path, value) or _is_named(path, secret_names):
            digest = hmac.new(salt, text.encode(errors="replace"), hashlib.sha256).hexdigest()
            tracked[name] = TrackedValue(stored=digest, shown=MASK, is_hidden=True)
        else:
            tracked[name] = TrackedValue(
                stored=_digest(text), shown=harmless(text, longest=_LONGEST_SHOWN)
            )
    return tracked


def is_secret(path: tuple[str, ...], value: object) -> bool:
    """True where the name or the value looks like a secret."""
    if value is None or isinstance(value, bool):
        return False
    words = [word.lower() for part in path for word in _WORDS.findall(part)]
    joined = re.sub(r"[^a-z0-9]", "", "".join(path).lower())
    is_named = _STEMS.search(joined) is not None or not _SECRET_WORDS.isdisjoint(words)
    if isinstance(value, int | float):
        return is_named and not (words and words[-1] in _MEASURES)
    if not isinstance(value, str):
        return True  # too deep to be inspected
    looks_so = _SECRET_VALUES.search(value) or _RANDOM_TEXT.fullmatch(value)
    return bool(value) and (is_named or looks_so is not None)


def secret_names_in(schema: object) -> frozenset[str]:
    """Return the settings that a schema marks as secret, in whichever of its usual forms."""
    return frozenset(_marked("", schema, 0))


def _marked(name: str, schema: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(schema, list):
        for member in schema:
            yield from _marked(name, member, depth + 1)
    elif isinstance(schema, dict):
        own = next((schema[key] for key in ("key", "name") if isinstance(schema.get(key), str)), "")
        marks = (schema.get(key) for key in ("secret", "isSecret", "sensitive", "encrypted"))
        kinds = {str(schema.get(key)).lower() for key in ("type", "format")}
        if any(mark is True for mark in marks) or kinds & {"password", "secret"}:
            yield own or name
        for key, member in schema.items():
            if isinstance(member, dict | list):
                yield from _marked(key, member, depth + 1)


def _is_named(path: tuple[str, ...], secret_names: Collection[str]) -> bool:
    # What lies below a secret setting is as secret.
    return any(
        ".".join(path[:length]) in secret_names or path[length - 1] in secret_names
        for length in range(1, len(path) + 1)
    )


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and (named := _named_value(value)) is not None:
        yield from _leaves((*path, named[0]), named[1])
    elif len(path) < _DEEPEST and isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _leaves((*path, str(key)), member)
    elif len(path) < _DEEPEST and isinstance(value, list) and value:
        for index, member in enumerate(value):
            is_named = isinstance(member, dict) and _named_value(member) is not None
            yield from _leaves(path if is_named else (*path, str(index)), member)
    elif value in ({}, []):
        yield path, None
    else:
        yield path, value


def _named_value(entry: dict[str, Any]) -> tuple[str, Any] | None:
    """Read an entry of a list that names its setting, or else the name would not be inspected."""
    name = next((entry[key] for key in ("key", "name") if isinstance(entry.get(key), str)), None)
    return (name, entry["value"]) if name is not None and "value" in entry else None


def _digest(text: str) -> str:
    # Long settings are many; what is compared need not be as long as they are.
    if len(text) <= _LONGEST_SHOWN:
        return text
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
