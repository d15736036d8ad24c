"""Settings from environment variables, which override those of the file, and the store's default.

``DATAPREP_MONITOR__SECTION__KEY`` sets a scalar outside the list of workspaces;
``DATAPREP_MONITOR__WORKSPACES__NAME__URL`` and ``..._TOKEN`` set those two of a workspace, its name
in capitals and with ``_`` for ``-``. A secret may be given as such here, unlike in the file.
``XDG_STATE_HOME`` and ``HOME`` name the folder of a store that no setting names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from monitor.config.keys import Key, Kind
from monitor.config.locations import secret_keys
from monitor.config.problems import Problems
from monitor.config.section import Sections
from monitor.model.secrets import Secret
from monitor.model.suggestions import suggestion

PREFIX = "DATAPREP_MONITOR__"
OF_A_WORKSPACE = ("url", "token")

_WORKSPACES = "workspaces"
_DEPTH = 4  # of the tables that a variable can reach
_BOOLEANS = {"true": True, "false": False}


def overlaid(
    mapping: Mapping[str, Any],
    environment: Mapping[str, str],
    problems: Problems,
    *,
    sections: Sections,
) -> dict[str, Any]:
    """Return a copy of the mapping with the variables applied."""
    result: dict[str, Any] = _copy(mapping)
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX):
            parts = variable.removeprefix(PREFIX).lower().split("__")
            if parts[0] == _WORKSPACES:
                _set_in_workspace(result, variable, parts[1:], text, problems, sections=sections)
            elif sections.is_repeated(parts[0]):
                problems.add_hidden(variable, f"[[{parts[0]}]] cannot be set here; use the file")
            else:
                _set_in_section(result, variable, parts, text, problems, sections=sections)
    return result


def default_store_url(environment: Mapping[str, str]) -> str | None:
    """Return the store in the user's state folder; None for a user without a home."""
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if not state.startswith("/"):
        # Users that exist for a service have "/" for a home.
        if not home.startswith("/") or not home.strip("/"):
            return None
        state = f"{home}/.local/state"
    return f"sqlite://{quote(str(PurePosixPath(state) / 'dataprep-monitor' / 'state.db'))}"


def variable_of(path: str, name: str) -> str:
    """Return the variable that sets a key of a section."""
    return PREFIX + "__".join([*path.split("."), name]).upper()


def _copy(value: Any, depth: int = _DEPTH) -> Any:
    if depth and isinstance(value, Mapping):
        return {key: _copy(item, depth - 1) for key, item in value.items()}
    return (
        [_copy(item, depth - 1) for item in value] if depth and isinstance(value, list) else value
    )


def _set_in_section(
    result: dict[str, Any],
    variable: str,
    parts: list[str],
    text: str,
    problems: Problems,
    *,
    sections: Sections,
) -> None:
    path, name = ".".join(parts[:-1]), parts[-1]
    target = sections.find(path)
    if target is None:
        names = [known.path for known in sections if not sections.is_repeated(known.path)]
        meant = suggestion(path, names)
        hint = f"did you mean {variable_of(meant, name)}?" if meant else "remove the variable"
        problems.add_hidden(variable, f"there is no section {path or 'of that name'}; {hint}")
        return
    key = target.key(name) or target.key(name.rpartition("_")[0])
    if key is None or name not in (key.name, *target.written_keys()):
        secrets = [known.name for known in target.keys if known.kind is Kind.SECRET]
        meant = suggestion(name, [*target.written_keys(), *secrets])
        hint = f"did you mean {variable_of(path, meant)}?" if meant else "remove the variable"
        problems.add_hidden(variable, f"[{path}] has no such key; {hint}")
        return
    table = _table(result, parts[:-1])
    if table is not None:
        _put(table, key, name, _parsed(key, name, variable, text, problems))
        problems.origins[f"{path}.{name}"] = variable


def _set_in_workspace(
    result: dict[str, Any],
    variable: str,
    parts: list[str],
    text: str,
    problems: Problems,
    *,
    sections: Sections,
) -> None:
    name, _, key_name = "__".join(parts).rpartition("__")
    tables = result.get(_WORKSPACES)
    tables = tables if isinstance(tables, list) else []
    if key_name not in OF_A_WORKSPACE:
        hint = f"of a workspace only {' and '.join(OF_A_WORKSPACE)} can be set here; use the file"
        problems.add_hidden(variable, hint)
        return
    for index, table in enumerate(tables):
        if isinstance(table, dict) and _spelled(table.get("name")) == name:
            path = f"{_WORKSPACES}[{index}].{key_name}"
            known = sections.find(_WORKSPACES)
            key = None if known is None else known.key(key_name)
            if key is not None:
                _put(table, key, key_name, _parsed(key, key_name, variable, text, problems))
                problems.origins[path] = variable
            return
    names = [_spelled(table.get("name")) for table in tables if isinstance(table, dict)]
    configured = ", ".join(sorted(filter(None, names))) or "none"
    problems.add_hidden(variable, f"no workspace has that name; configured are: {configured}")


def _spelled(name: object) -> str | None:
    return name.lower().replace("-", "_") if isinstance(name, str) else None


def _table(result: dict[str, Any], parts: list[str]) -> dict[str, Any] | None:
    """Return the table of a path, created where it is absent; None where it is no table."""
    table: Any = result
    for part in parts:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return None
    return table if isinstance(table, dict) else None


def _put(table: dict[str, Any], key: Key, name: str, value: Any) -> None:
    if key.kind is Kind.SECRET:
        # A secret from the environment replaces every form in which the file gives it.
        for form in (key.name, *secret_keys(key.name)):
            table.pop(form, None)
        if key.setting.alternative is not None:
            table.pop(key.setting.alternative, None)
    if value is not None:
        table[name] = value


def _parsed(key: Key, name: str, variable: str, text: str, problems: Problems) -> Any:
    """Return the value in the key's type, None and a problem where the text is no such value."""
    if key.kind is Kind.SECRET:
        return Secret(text) if name == key.name else text
    if key.kind is Kind.TEXT:
        return text
    if key.kind is Kind.TEXTS:
        problems.add(variable, text, "a list cannot be set here; use the file")
        return None
    if key.kind is Kind.BOOLEAN:
        value: Any = _BOOLEANS.get(text.strip().lower())
    else:
        value = _number(text, whole=key.kind is Kind.WHOLE)
    if value is None:
        problems.add(variable, text, f"must be {key.kind.title}")
    return value


def _number(text: str, *, whole: bool) -> float | None:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return None
