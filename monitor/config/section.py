"""One section of the file, and a row of sections that can be searched."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from monitor.config.keys import Key, Kind, keys_of
from monitor.config.locations import SecretForm, secret_keys


class Section(Struct, frozen=True, kw_only=True):
    """One table of the file, or one of a list of tables."""

    path: str  # "mqtt", "workspaces.poll"
    settings: type[Struct]
    keys: tuple[Key, ...]
    is_optional: bool = False  # without the table, that part of the daemon is off
    is_repeated: bool = False  # there may be several: a list of tables
    is_example: bool = False  # the reference shows it after a #, since it would change something

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
    return secret_keys(key.name)


def section_of(path: str, *types: type[Struct], **marks: Any) -> Section:
    """Return the section of the first type; of the others, only the keys that stand in it."""
    keys = tuple(
        key
        for settings in types
        for key in keys_of(settings)
        if key.setting.section == (None if settings is types[0] else path)
    )
    return Section(path=path, settings=types[0], keys=keys, **marks)


class Sections(tuple[Section, ...]):
    """Sections in the order of the reference."""

    __slots__ = ()

    def find(self, path: str) -> Section | None:
        """Return the section of that path, None where there is none."""
        return next((section for section in self if section.path == path), None)

    def below(self, path: str) -> dict[str, Section]:
        """Return those directly below ``path``, by their last name; "" is the whole file."""
        return {
            name: section
            for section in self
            for parent, _, name in [section.path.rpartition(".")]
            if parent == path
        }

    def is_repeated(self, path: str) -> bool:
        """True for a section that may occur several times, and for what lies below one."""
        found = self.find(path.partition(".")[0])
        return found is not None and found.is_repeated
