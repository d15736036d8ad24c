"""The group of all commands: a command's module loads when that command is chosen."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup

from monitor.cli.command_table import COMMANDS, CommandEntry
from monitor.cli.option_groups import spread_groups

_ENTRIES = {entry.name: entry for entry in COMMANDS}


class CommandGroup(TyperGroup):
    """Lists the table's commands without loading them. A command loads once, when it is chosen."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in COMMANDS])

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)


class _LazyCommands(MutableMapping[str, Any]):
    """Commands by name: those of the table, then what was registered on the application."""

    def __init__(self, registered: MutableMapping[str, Any]) -> None:
        self._loaded = dict(registered)
        self._names = [*_ENTRIES, *(name for name in registered if name not in _ENTRIES)]

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded and name in _ENTRIES:
            self._loaded[name] = _load(_ENTRIES[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        if name not in self:
            self._names.append(name)
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        self._names.remove(name)
        self._loaded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _load(entry: CommandEntry) -> Any:
    module, _, function = entry.target.partition(":")
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    lines = [f"Example: dataprep-monitor {example}" for example in entry.examples]
    # The mark keeps the library from making one paragraph of the lines.
    single.command(entry.name, epilog="\b\n" + "\n".join(lines))(
        spread_groups(getattr(importlib.import_module(module), function))
    )
    return typer.main.get_command(single)
