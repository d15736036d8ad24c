"""Finds contradictions between settings, each of which is valid alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from monitor.callbacks.settings import SignatureMode
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.listening.settings import split_address
from monitor.model.secrets import Secret

Parts = Mapping[str, ReadTable]


def find_contradictions(workspaces: list[ReadTable], parts: Parts, problems: Problems) -> None:
    """Add a problem for each contradiction between settings."""
    _names(workspaces, problems)
    for workspace in workspaces:
        if "callbacks" in workspace.parts:
            _callbacks(workspace.parts["callbacks"], parts, problems)
    _listener(workspaces, parts, problems)
    _storage(parts.get("storage"), problems)
    for part in _with_those_below([*workspaces, *parts.values()]):
        if hasattr(part.section.settings, "problems"):
            _own_problems(part, problems)


def _with_those_below(parts: Iterable[ReadTable]) -> Iterator[ReadTable]:
    for part in parts:
        yield part
        yield from _with_those_below(part.parts.values())


def _names(workspaces: list[ReadTable], problems: Problems) -> None:
    first: dict[str, str] = {}
    for workspace in workspaces:
        name = workspace.get("name")
        if name is not None and first.setdefault(name, workspace.path) != workspace.path:
            hint = f"is the name of {first[name]} already; choose another"
            problems.add(f"{workspace.path}.name", name, hint)


def _callbacks(part: ReadTable, parts: Parts, problems: Problems) -> None:
    if part.get("public_url") is not None and "callbacks" not in parts:
        hint = "nothing listens for callbacks; add the section [callbacks]"
        problems.add(f"{part.path}.public_url", part.get("public_url"), hint)
    if part.get("signature") is SignatureMode.OBSERVE and part.get("signing_secret") is not None:
        hint = (
            "signing_secret protects nothing: a callback with a wrong signature is counted and "
            "accepted; take require once real callbacks match, or remove signing_secret"
        )
        problems.warn(f"{part.path}.signature", part.get("signature"), hint)


def _listener(workspaces: list[ReadTable], parts: Parts, problems: Problems) -> None:
    listener, server = parts.get("callbacks"), parts.get("server")
    if listener is None:
        return
    if workspaces and not any("callbacks" in workspace.parts for workspace in workspaces):
        hint = "no workspace accepts callbacks; add [workspaces.callbacks] or remove this"
        problems.add("callbacks", {}, hint)
    listen = listener.get("listen")
    port = split_address(listen)[1]
    if server is not None and port and port == split_address(server.get("listen"))[1]:
        hint = "is the port of [server] already; choose another"
        problems.add(f"{listener.path}.listen", listen, hint)


def _storage(part: ReadTable | None, problems: Problems) -> None:
    if part is None or part.get("password") is None:
        return
    # In place of a URL that cannot be used there is a default, which is no problem.
    if part.build().postgres is None and not problems.holds(f"{part.path}.url"):
        hint = "storage.password is not used: a file has none; name the database, or remove it"
        problems.warn(f"{part.path}.url", part.get("url"), hint)


def _own_problems(part: ReadTable, problems: Problems) -> None:
    """Add the problems that the settings report themselves, as sentences ``key: hint``."""
    for sentence in part.build().problems():
        name, _, hint = sentence.partition(": ")
        if isinstance(part.get(name), Secret):
            problems.add_hidden(f"{part.path}.{name}", hint)
        elif part.get(name) is None:
            problems.add_absent(f"{part.path}.{name}", hint)
        else:
            problems.add(f"{part.path}.{name}", part.get(name), hint)
