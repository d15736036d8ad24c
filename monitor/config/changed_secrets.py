"""Secrets that have changed where they stand, in a configuration that is otherwise as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    changed = _of_any("", configuration, problems)
    return ChangedSecrets(configuration=changed, problems=tuple(problems))


def _of_any(path: str, value: Any, problems: list[str]) -> Any:
    if isinstance(value, _READ_ELSEWHERE):
        return value
    if isinstance(value, Struct):
        return _of_settings(path, value, problems)
    if isinstance(value, tuple):
        return _of_list(path, value, problems)
    if isinstance(value, dict):
        items = {key: _of_any(_below(path, key), item, problems) for key, item in value.items()}
        return items if any(items[key] is not value[key] for key in value) else value
    return value


def _of_list(path: str, value: Sequence[Any], problems: list[str]) -> Any:
    items = tuple(_of_any(f"{path}[{at}]", item, problems) for at, item in enumerate(value))
    return value if all(new is old for new, old in zip(items, value, strict=True)) else items


def _of_settings(path: str, value: Struct, problems: list[str]) -> Struct:
    changes: dict[str, Any] = {}
    for field in fields_of(type(value)):
        old, key = getattr(value, field.name), _below(path, field.encode_name)
        new = (
            _of_secret(key, old, setting_of(field), problems)
            if isinstance(old, Secret)
            else _of_any(key, old, problems)
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


def _of_secret(key: str, secret: Secret, setting: Setting | None, problems: list[str]) -> Secret:
    try:
        new = secret.read_again()
    except ConfigurationError as exc:
        problems.append(f"{key}: {exc}")
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
