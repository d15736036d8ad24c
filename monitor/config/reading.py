"""Reads the tables of a parsed file into fields of the settings types; gathers all problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from monitor.config.keys import Key, Kind, fields_of, in_toml, number
from monitor.config.locations import Locations, read_secret_key
from monitor.config.problems import Problems
from monitor.config.section import Section, Sections, keys_of_secret
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.model.suggestions import did_you_mean

Fields = dict[str, Any]


class ReadTable(Struct, frozen=True, kw_only=True):
    """What was read of one table: the fields that the file sets.

    A field that is absent, or whose value has a problem, is left out; its default applies.
    """

    section: Section
    path: str  # "workspaces[0].poll"
    fields: Fields
    parts: dict[str, ReadTable]  # of the tables below, by their last name

    def build(self, *others: ReadTable, **more: Any) -> Any:
        """Return the section's settings, with those of their keys that stand in ``others``.

        What is needed and was not given is None in them.
        """
        settings = self.section.settings
        own = {field.name: field for field in fields_of(settings)}
        needed = {name: None for name, field in own.items() if field.required}
        given = {
            key.field.name: table.fields[key.field.name]
            for table in (self, *others)
            for key in table.section.keys
            if key.field.name in table.fields and (key.setting.section is None) == (table is self)
        }
        nested = {name: part.build() for name, part in self.parts.items() if name in own}
        return settings(**{**needed, **given, **nested, **more})

    def get(self, name: str) -> Any:
        """Return a field that the file sets, or its default; None without either."""
        for key in self.section.keys:
            if key.field.name == name and key.field.default is not msgspec.NODEFAULT:
                return self.fields.get(name, key.field.default)
        return self.fields.get(name)


class ConfigurationReader:
    """Reads one configuration. Problems go into ``problems``; nothing is raised."""

    def __init__(self, *, locations: Locations, problems: Problems, sections: Sections) -> None:
        self._sections = sections
        self._locations = locations
        self._problems = problems

    def root(
        self, mapping: Mapping[str, Any]
    ) -> tuple[dict[str, list[ReadTable]], dict[str, ReadTable]]:
        """Return the lists of tables, and the single tables; an absent optional one is not."""
        known = self._sections.below("")
        for name in [name for name in mapping if name not in known]:
            self._problems.add_unknown(name, mapping[name], known)
        lists = {name: known.pop(name) for name in list(known) if known[name].is_repeated}
        repeated = {name: self._repeated(section, mapping) for name, section in lists.items()}
        return repeated, self._tables(known, mapping, path="")

    def _repeated(self, section: Section, mapping: Mapping[str, Any]) -> list[ReadTable]:
        tables = mapping.get(section.path, [])
        if isinstance(tables, Mapping):
            hint = f"there may be several: write [[{section.path}]]"
            self._problems.add(section.path, tables, hint)
            tables = [tables]
        if not section.is_optional and (not tables or not isinstance(tables, list)):
            self._problems.add_absent(section.path, f"add a [[{section.path}]] with name and url")
            return []
        if not isinstance(tables, list):
            hint = f"must be tables: write [[{section.path}]] above the keys of each"
            self._problems.add(section.path, tables, hint)
            return []
        return [
            part
            for index, table in enumerate(tables)
            if (part := self._section(section, table, f"{section.path}[{index}]"))
        ]

    def _tables(
        self, sections: Mapping[str, Section], mapping: Mapping[str, Any], *, path: str
    ) -> dict[str, ReadTable]:
        parts: dict[str, ReadTable] = {}
        for name, section in sections.items():
            if name in mapping or not section.is_optional:
                part = self._section(section, mapping.get(name, {}), path + name)
                if part is not None:
                    parts[name] = part
        return parts

    def _section(self, section: Section, table: object, path: str) -> ReadTable | None:
        if not isinstance(table, Mapping):
            head = f"[[{section.path}]]" if section.is_repeated else f"[{section.path}]"
            self._problems.add(path, table, f"must be a table: write {head} above its keys")
            return None
        sections = self._sections.below(section.path)
        self._refuse_unknown(section, table, path, sections)
        fields: Fields = {}
        for key in section.keys:
            value = self._value(key, table, path)
            if value is not None:
                fields[key.field.name] = key.converted(value)
        parts = self._tables(sections, table, path=f"{path}.")
        return ReadTable(section=section, path=path, fields=fields, parts=parts)

    def _refuse_unknown(
        self,
        section: Section,
        table: Mapping[str, Any],
        path: str,
        sections: Mapping[str, Section],
    ) -> None:
        written = section.written_keys()
        literal = {key.name for key in section.keys if key.kind is Kind.SECRET}
        for name in table:
            if name in written or name in sections or name in literal:
                continue
            # A table below this one is meant before any other.
            elsewhere = [
                f"[{known_section.path}] {name}"
                for known_section in sorted(
                    self._sections,
                    key=lambda other: not other.path.startswith(f"{section.path}."),
                )
                if name in (*known_section.written_keys(), known_section.path)
            ]
            if elsewhere:
                hint = f"belongs elsewhere: {elsewhere[0]}"
                self._problems.add(f"{path}.{name}", table[name], hint)
            else:
                self._problems.add_unknown(f"{path}.{name}", table[name], [*written, *sections])

    def _value(self, key: Key, table: Mapping[str, Any], path: str) -> Any:
        """Return the value of one key, None where it is absent or has a problem."""
        where = f"{path}.{key.name}"
        if key.kind is Kind.SECRET:
            return self._secret(key, table, path)
        if key.name not in table:
            if key.is_required:
                example = f"{key.name} = {in_toml(key.setting.example)}"
                self._problems.add_absent(where, f"is needed, such as {example}")
            return None
        value = table[key.name]
        if key.kind is Kind.TABLE and isinstance(value, Mapping):
            value = self._texts(value, where)
            if value is None:
                return None
        hint = hint_of(key, value)
        if hint is not None and key.setting.is_hidden:
            self._problems.add_hidden(where, hint)
            return None
        if hint is not None:
            self._problems.add(where, value, hint)
            return None
        return self._file(where, value) if key.setting.is_file else value

    def _secret(self, key: Key, table: Mapping[str, Any], path: str) -> Secret | None:
        secret = read_secret_key(
            key.name,
            table,
            path=path,
            locations=self._locations,
            problems=self._problems,
        )
        names, instead = keys_of_secret(key), key.setting.alternative
        is_given = bool(table.keys() & {key.name, *names})
        has_other = instead is not None and instead in table
        if instead is not None and has_other and is_given:
            self._problems.add(
                f"{path}.{instead}",
                table[instead],
                f"give either this or {key.name}, not both",
            )
        elif key.is_required and not is_given and not has_other:
            other = f", or add [{path.partition('[')[0]}.{instead}]" if instead else ""
            self._problems.add_absent(
                f"{path}.{key.name}", f"give it as {' or '.join(names)}{other}"
            )
        # What is too short counts as given: nothing else is wrong because of that.
        if secret is not None and key.check is not None and (hint := key.check(secret)):
            self._problems.add_hidden(f"{path}.{key.name}", hint)
        return secret

    def _texts(self, table: Mapping[str, Any], path: str) -> dict[str, Any] | None:
        misfits = {name: value for name, value in table.items() if not Kind.TEXT.fits(value)}
        for name, value in misfits.items():
            self._problems.add(f"{path}.{name}", value, f"must be {Kind.TEXT.title}")
        return None if misfits else dict(table)

    def _file(self, key: str, path: str) -> str | None:
        try:
            return self._locations.find_file(path)
        except ConfigurationError as exc:
            self._problems.add(key, path, exc.problems[0])
            return None


def hint_of(key: Key, value: Any) -> str | None:
    """Return what the value must be, None where the value is valid."""
    if not key.kind.fits(value):
        return f"must be {key.kind.title}"
    if key.choices and value not in key.choices:
        return f"must be one of {', '.join(key.choices)}{_meant(key, value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        hint = _out_of_range(key, value)
        if hint is not None:
            return hint
    return None if key.check is None else key.check(value)


def _meant(key: Key, value: Any) -> str:
    if not isinstance(value, str):
        return ""
    words = " ".join(value.lower().replace("-", " ").replace("_", " ").split())
    # The longest first: of "legacy premium" and "premium" the former is meant.
    for word in sorted(key.setting.other_words, key=len, reverse=True):
        if f" {word} " in f" {words} ":
            return f"; did you mean {key.setting.other_words[word]}?"
    return did_you_mean(value, key.choices)


def _out_of_range(key: Key, value: float) -> str | None:
    unit = f" {key.unit}" if key.unit else ""
    if key.minimum is not None and value < key.minimum:
        return f"must be at least {number(key.minimum)}{unit}"
    if key.maximum is not None and value > key.maximum:
        return f"must be at most {number(key.maximum)}{unit}"
    return None
