"""Lets one parameter of a command stand for several options, declared as fields of a class.

A command says ``daemon: DaemonOptions`` and gets an instance; on its command line stand ``--url``,
``--token-file`` and the other fields. So these options read the same everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Base of all groups. Each field is an option, annotated as a parameter would be."""


def spread_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the fields of its option groups as parameters of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[parameter.name] = kind
            parameters += _fields(kind)
        else:
            changes = {"annotation": kind, "kind": Parameter.KEYWORD_ONLY}
            parameters.append(parameter.replace(**changes))

    def run(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return command(**given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by typer
    return run


def _fields(kind: type[OptionGroup]) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
