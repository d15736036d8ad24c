"""All sections of the file, in the order of the reference."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from monitor.alerting.settings import AlertingSettings, Match, RuleSettings, SilenceSettings
from monitor.bus.settings import Retention, StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.config.keys import Key, Kind, keys_of
from monitor.config.locations import SecretForm, secret_keys
from monitor.config.log_settings import LogSettings
from monitor.config.process_settings import ProcessSettings
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.records import RECORDS
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import OauthSettings, WorkspaceSettings


class Section(Struct, frozen=True, kw_only=True):
    """One table of the file, or one of a list of tables."""

    path: str  # "mqtt", "workspaces.poll"
    settings: type[Struct]
    keys: tuple[Key, ...]
    is_optional: bool = False  # without the table, that part of the daemon is off
    is_repeated: bool = False  # there may be several: a list of tables
    is_example: bool = False  # the reference shows it behind #, since it would change something

    @property
    def about(self) -> str:
        return " ".join((self.settings.__doc__ or "").split())

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)

    def written_keys(self) -> list[str]:
        """Return the keys that may be written in the section; a secret has several."""
        names: list[str] = []
        for key in self.keys:
            names.extend(keys_of_secret(key) if key.kind is Kind.SECRET else [key.name])
        return names


def keys_of_secret(key: Key) -> dict[str, SecretForm]:
    """Return the keys under which a secret may be given."""
    return secret_keys(key.name, may_be_command=key.setting.may_be_command)


def _section(path: str, *types: type[Struct], **marks: Any) -> Section:
    """Return the section of the first type; of the others, only the keys that stand in it."""
    keys = tuple(
        key
        for settings in types
        for key in keys_of(settings)
        if key.setting.section == (None if settings is types[0] else path)
    )
    return Section(path=path, settings=types[0], keys=keys, **marks)


OUTPUTS = tuple(
    _section(record.section, record.settings, is_optional=True, is_example=not record.is_usual)
    for record in RECORDS
)
WORKSPACES = _section("workspaces", WorkspaceSettings, is_repeated=True)

SECTIONS: tuple[Section, ...] = (
    WORKSPACES,
    _section("workspaces.oauth", OauthSettings, is_optional=True, is_example=True),
    _section("workspaces.poll", PollSettings, WorkspaceSettings),
    _section("workspaces.inventory", InventorySettings),
    _section("workspaces.callbacks", CallbackSettings, PollSettings, is_optional=True),
    *OUTPUTS,
    _section("server", ServerSettings),
    _section("callbacks", ListenerSettings, is_optional=True),
    _section("storage", StorageSettings),
    _section("storage.retention", Retention),
    _section("metrics", MetricsSettings),
    _section("alerting", AlertingSettings),
    _section("alerts", RuleSettings, is_optional=True, is_repeated=True),
    _section("alerts.match", Match),
    _section("silences", SilenceSettings, is_optional=True, is_repeated=True, is_example=True),
    _section("process", ProcessSettings),
    _section("log", LogSettings),
)

# The sections of which there may be several.
REPEATED = frozenset(section.path for section in SECTIONS if section.is_repeated)


def is_repeated(path: str) -> bool:
    """True for a section of which there may be several, and for what lies below one."""
    return path.partition(".")[0] in REPEATED


def section(path: str) -> Section | None:
    """Return the section of that path, None where there is none."""
    return next((section for section in SECTIONS if section.path == path), None)


def below(path: str) -> dict[str, Section]:
    """Return the sections directly below ``path``, by their last name; "" is the whole file."""
    return {
        name: section
        for section in SECTIONS
        for parent, _, name in [section.path.rpartition(".")]
        if parent == path
    }
