"""Finds settings that are valid alone and do not fit together."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.callbacks.settings import SignatureMode
from monitor.config.checks import (
    MIN_PASSWORD_CHARACTERS,
    MIN_SECRET_CHARACTERS,
    joined_address,
)
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.outside import is_loopback
from monitor.model.secrets import Secret

Parts = Mapping[str, ReadTable]


def find_misfits(workspaces: list[ReadTable], parts: Parts, problems: Problems) -> None:
    """Add a problem for all settings that do not fit together."""
    _names(workspaces, problems)
    for workspace in workspaces:
        _intervals(workspace, problems)
        if "callbacks" in workspace.parts:
            _callbacks(workspace.parts["callbacks"], parts, problems)
    _listener(workspaces, parts, problems)
    if "server" in parts:
        _server(parts["server"], problems)
    for part in parts.values():
        if hasattr(part.section.target, "problems") and part.is_whole:
            _own_problems(part, problems)
    if "storage" in parts and "retention" in parts["storage"].parts:
        _retention(parts["storage"].parts["retention"], problems)


def _names(workspaces: list[ReadTable], problems: Problems) -> None:
    first: dict[str, str] = {}
    for workspace in workspaces:
        name = workspace.get("name")
        if name is not None and first.setdefault(name, workspace.path) != workspace.path:
            hint = f"is the name of {first[name]} already; choose another"
            problems.add(f"{workspace.path}.name", name, hint)


def _intervals(workspace: ReadTable, problems: Problems) -> None:
    total = workspace.get("total_timeout_seconds")
    for name in ("connect_timeout_seconds", "read_timeout_seconds"):
        if workspace.get(name) > total:
            hint = f"must not be above total_timeout_seconds, which is {total:g}"
            problems.add(f"{workspace.path}.{name}", workspace.get(name), hint)
    poll = workspace.parts.get("poll")
    if poll is not None and poll.get("idle_seconds") < poll.get("active_seconds"):
        hint = f"must not be below active_seconds, which is {poll.get('active_seconds'):g}"
        problems.add(f"{poll.path}.idle_seconds", poll.get("idle_seconds"), hint)


def _callbacks(part: ReadTable, parts: Parts, problems: Problems) -> None:
    if part.get("public_url") is not None and "callbacks" not in parts:
        hint = "nothing listens for callbacks; add the section [callbacks]"
        problems.add(f"{part.path}.public_url", part.get("public_url"), hint)
    _lengths(
        part, {"secret": MIN_SECRET_CHARACTERS, "signing_secret": MIN_SECRET_CHARACTERS}, problems
    )
    if part.get("signature") is SignatureMode.REQUIRE and part.get("signing_secret") is None:
        hint = "needs the key that is signed with; add signing_secret_file, or take observe"
        problems.add(f"{part.path}.signature", part.get("signature"), hint)
    if part.get("signature") is SignatureMode.OBSERVE and part.get("signing_secret") is not None:
        hint = (
            "signing_secret protects nothing: a callback with a wrong signature is counted and "
            "accepted; take require once real callbacks match, or remove signing_secret"
        )
        problems.warn(f"{part.path}.signature", part.get("signature"), hint)


def _lengths(part: ReadTable, minimum: Mapping[str, int], problems: Problems) -> None:
    """Add a problem for each secret that is too short to withstand guessing."""
    for name, characters in minimum.items():
        secret = part.get(name)
        if isinstance(secret, Secret) and len(secret.reveal()) < characters:
            hint = (
                f"must hold at least {characters} characters; make one with: openssl rand -hex 32"
            )
            problems.add_hidden(f"{part.path}.{name}", hint)


def _listener(workspaces: list[ReadTable], parts: Parts, problems: Problems) -> None:
    listener, server = parts.get("callbacks"), parts.get("server")
    if listener is None:
        return
    if workspaces and not any("callbacks" in workspace.parts for workspace in workspaces):
        hint = "no workspace accepts callbacks; add [workspaces.callbacks] or remove this"
        problems.add("callbacks", {}, hint)
    port = listener.get("port")
    if server is not None and port and port == server.get("port"):
        hint = "is the port of [server] already; choose another"
        problems.add(f"{listener.path}.listen", joined_address(listener.get("host"), port), hint)


def _server(part: ReadTable, problems: Problems) -> None:
    host, username, password = part.get("host"), part.get("username"), part.get("password")
    if username is not None and password is None:
        problems.add(f"{part.path}.username", username, "has no password; add password_file")
    if password is not None and username is None:
        problems.add_absent(f"{part.path}.username", "is needed beside the password; add it")
    _lengths(part, {"token": MIN_SECRET_CHARACTERS, "password": MIN_PASSWORD_CHARACTERS}, problems)
    has_auth = part.get("token") is not None or password is not None
    if not (is_loopback(host) or has_auth or part.get("allow_anonymous")):
        hint = (
            "others can reach this address: add token_file, or username and password_file, "
            "or set allow_anonymous = true"
        )
        problems.add(f"{part.path}.listen", joined_address(host, part.get("port")), hint)


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


def _retention(part: ReadTable, problems: Problems) -> None:
    count, cap = part.get("events_count"), part.get("events_hard_cap")
    if cap < count:
        hint = f"must not be below events_count, which is {count}"
        problems.add(f"{part.path}.events_hard_cap", cap, hint)
