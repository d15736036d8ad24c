"""The validated configuration: the settings of every room."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from monitor.alerting.reports.settings import ReportSettings
from monitor.alerting.settings import AlertingSettings
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.config.keys import fields_of, setting_of
from monitor.config.process_settings import LogSettings, ProcessSettings
from monitor.model.secrets import Secret
from monitor.model.settings import StartSetting
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.tracking.settings import TrackingSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings

S = TypeVar("S", bound=Struct)


class WorkspaceConfiguration(Struct, frozen=True, kw_only=True):
    """All that is set about one workspace. Without ``callbacks`` none is accepted from it."""

    workspace: WorkspaceSettings
    poll: PollSettings = PollSettings()
    inventory: InventorySettings = InventorySettings()
    callbacks: CallbackSettings | None = None

    @property
    def name(self) -> str:
        return self.workspace.name


class Configuration(Struct, frozen=True, kw_only=True):
    """All that is set. A part that is None is switched off."""

    workspaces: tuple[WorkspaceConfiguration, ...]
    alerting: AlertingSettings = AlertingSettings()
    reports: tuple[ReportSettings, ...] = ()
    outputs: dict[str, Struct] = {}  # by section: those that are switched on
    server: ServerSettings = ServerSettings()
    callbacks: ListenerSettings | None = None
    storage: StorageSettings = StorageSettings()
    tracking: TrackingSettings = TrackingSettings()
    metrics: MetricsSettings = MetricsSettings()
    process: ProcessSettings = ProcessSettings()
    log: LogSettings = LogSettings()

    def output(self, settings: type[S]) -> S | None:
        """Return the settings of the output that has settings of this type; None if it is off."""
        return next(
            (output for output in self.outputs.values() if isinstance(output, settings)), None
        )

    @property
    def instance(self) -> str:
        """The name of this daemon among others, which an output may need to set."""
        named = (getattr(output, "instance", None) for output in self.outputs.values())
        return next(filter(None, named), "monitor")

    @property
    def linked_alerting(self) -> AlertingSettings:
        """The rules with links to their runbooks: on our own page where none are configured."""
        url = self.server.linked_url
        return self.alerting if url is None else self.alerting.with_runbooks_at(f"{url}/runbooks")

    def secrets(self) -> tuple[Secret, ...]:
        """Return every secret in it, for the log's redaction."""
        return tuple(_secrets_of(self))


def changes_needing_restart(before: Configuration, after: Configuration) -> list[str]:
    """Return the keys that differ and are read at start only, such as ``server.listen``."""
    keys = list(_start_changes("", before, after))
    if before.storage.retention.callbacks_seconds != after.storage.retention.callbacks_seconds:
        keys.append("workspaces.callbacks.give_up_seconds")  # which lengthens it
    return keys


def _start_changes(path: str, before: Struct, after: Struct) -> Iterator[str]:
    for field in fields_of(type(before)):
        key = f"{path}{field.encode_name}"
        old, new = getattr(before, field.name), getattr(after, field.name)
        if isinstance(old, Struct) and isinstance(new, Struct):
            yield from _start_changes(f"{key}.", old, new)
        elif old != new and (_is_read_at_start(field) or _has_start_settings(old or new)):
            yield key  # a key, or a section that came or went


def _has_start_settings(settings: object) -> bool:
    return isinstance(settings, Struct) and any(map(_is_read_at_start, fields_of(type(settings))))


def _is_read_at_start(field: FieldInfo) -> bool:
    return isinstance(setting_of(field), StartSetting)


def files_of(value: Any) -> Iterator[str]:
    """Yield the paths of files that settings name, such as certificates: what they hold counts."""
    if isinstance(value, Struct):
        files = (getattr(value, name) for name in _names_of_files(type(value)))
        yield from (file for file in files if file is not None)
    for inner in _inside(value):
        yield from files_of(inner)


def without_locations(value: Any) -> Any:
    """Return settings as plain values, without what may differ between machines.

    Of secrets and of files there is only whether they are set.
    """
    if isinstance(value, Struct):
        files = _names_of_files(type(value))
        return {
            name: inner is not None if name in files else without_locations(inner)
            for name in value.__struct_fields__
            for inner in (getattr(value, name),)
        }
    if isinstance(value, Secret):
        return True
    if isinstance(value, dict):
        return {name: without_locations(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [without_locations(item) for item in value]
    return msgspec.to_builtins(value)


@cache
def _names_of_files(settings: type[Struct]) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in fields_of(settings)
        if (setting := setting_of(field)) is not None and setting.is_file
    )


def _secrets_of(value: Any) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    for inner in _inside(value):
        yield from _secrets_of(inner)


def _inside(value: Any) -> Iterator[Any]:
    """Yield what settings, a list or a table consist of."""
    if isinstance(value, Struct):
        yield from (getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, tuple | dict):
        yield from value.values() if isinstance(value, dict) else value


def config_hash(configuration: Configuration) -> str:
    """Return 16 hex digits that differ between settings that differ. Secrets are left out."""
    text = msgspec.json.encode(configuration, enc_hook=_without_secret, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:16]


def _without_secret(value: Any) -> None:
    # Whether a secret is set belongs to the settings; its text does not reach the hash.
    if not isinstance(value, Secret):
        raise TypeError(f"{type(value).__name__} has no place in a configuration")
