"""Secrets that have changed where they stand, in a configuration that is otherwise as it was.

They are read together first, then put into place: a command or a pipe that does not answer holds
up no other for longer than its own time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from msgspec import Struct

from monitor.bus.settings import StorageSettings
from monitor.config.configuration import Configuration
from monitor.config.keys import fields_of, setting_of
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.model.settings import Setting
from monitor.workspace.settings import WorkspaceSettings

# The clients of a workspace and of the database read their secrets themselves.
_READ_ELSEWHERE = (WorkspaceSettings, StorageSettings)
_NOT_IN_THE_FILE = frozenset({"outputs", "channels"})  # fields that are no part of a key
_AT_ONCE = 8  # commands that run, or files that are read; each has a time limit of its own

# By the id of each secret: two places may hold equal ones, and then only one of them changes.
_Read = Mapping[int, Secret | ConfigurationError]


class ChangedSecrets(Struct, frozen=True, kw_only=True):
    """The configuration with the secrets of now, and one sentence for each that stays as it was."""

    configuration: Configuration
    problems: tuple[str, ...]


def read_secrets_again(configuration: Configuration) -> ChangedSecrets:
    """Read each secret where it stands. Blocks: call it in a thread.

    The configuration is the same object where none has changed. What cannot be read, or does not
    fit its key, leaves the former one in its place.
    """
    problems: list[str] = []
    changed = _of_any("", configuration, _read(configuration), problems)
    return ChangedSecrets(configuration=changed, problems=tuple(problems))


def _read(configuration: Configuration) -> _Read:
    secrets = list({id(secret): secret for secret in _secrets_in(configuration)}.values())
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="secrets") as pool:
        read = list(pool.map(_read_again, secrets))
    return {id(secret): new for secret, new in zip(secrets, read, strict=True)}


def _read_again(secret: Secret) -> Secret | ConfigurationError:
    try:
        return secret.read_again()
    except ConfigurationError as exc:
        return exc


def _secrets_in(value: Any) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Struct) and not isinstance(value, _READ_ELSEWHERE):
        for field in fields_of(type(value)):
            yield from _secrets_in(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _secrets_in(item)
    elif isinstance(value, dict):
        yield from _secrets_in(tuple(value.values()))


def _of_any(path: str, value: Any, read: _Read, problems: list[str]) -> Any:
    if isinstance(value, _READ_ELSEWHERE):
        return value
    if isinstance(value, Struct):
        return _of_settings(path, value, read, problems)
    if isinstance(value, tuple):
        return _of_list(path, value, read, problems)
    if isinstance(value, dict):
        items = {
            key: _of_any(_below(path, key), item, read, problems) for key, item in value.items()
        }
        return items if any(items[key] is not value[key] for key in value) else value
    return value


def _of_list(path: str, value: Sequence[Any], read: _Read, problems: list[str]) -> Any:
    items = tuple(_of_any(f"{path}[{at}]", item, read, problems) for at, item in enumerate(value))
    return value if all(new is old for new, old in zip(items, value, strict=True)) else items


def _of_settings(path: str, value: Struct, read: _Read, problems: list[str]) -> Struct:
    changes: dict[str, Any] = {}
    for field in fields_of(type(value)):
        old, key = getattr(value, field.name), _below(path, field.encode_name)
        new = (
            _of_secret(key, old, read[id(old)], setting_of(field), problems)
            if isinstance(old, Secret)
            else _of_any(key, old, read, problems)
        )
        if new is not old:
            changes[field.name] = new
    if not changes:
        return value
    changed = msgspec.structs.replace(value, **changes)
    find_problems: Callable[[], list[str]] = getattr(changed, "problems", list)
    if misfits := find_problems():
        # Of two secrets that change together, one may stand there already.
        problems += [_below(path, misfit) for misfit in misfits]
        return value
    return changed


def _of_secret(
    key: str,
    secret: Secret,
    new: Secret | ConfigurationError,
    setting: Setting | None,
    problems: list[str],
) -> Secret:
    if isinstance(new, ConfigurationError):
        problems.append(f"{key}: {new}")
        return secret
    if new == secret:
        return secret
    misfit = setting.check(new) if setting is not None and setting.check is not None else None
    if misfit is not None:
        problems.append(f"{key}: {misfit}")
        return secret
    return new


def _below(path: str, name: str) -> str:
    if name in _NOT_IN_THE_FILE:
        return path
    return f"{path}.{name}" if path else name
