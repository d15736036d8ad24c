"""Finds settings that are right each by itself and wrong together."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from monitor.callbacks.settings import SignatureMode
from monitor.config.checks import MIN_CALLBACK_SECRET_CHARACTERS, is_loopback, joined_address
from monitor.config.faults import Faults
from monitor.config.reading import Part
from monitor.model.secrets import Secret
from monitor.outputs.settings import DeliverySettings

Parts = Mapping[str, Part]


def find_misfits(workspaces: list[Part], parts: Parts, faults: Faults) -> None:
    """Add a fault for everything that does not fit together."""
    _names(workspaces, faults)
    for workspace in workspaces:
        _intervals(workspace, faults)
        if "callbacks" in workspace.parts:
            _callbacks(workspace.parts["callbacks"], parts, faults)
    _listener(workspaces, parts, faults)
    if "server" in parts:
        _server(parts["server"], faults)
    if "mqtt" in parts:
        _mqtt(parts["mqtt"], faults)
    for name in ("alertmanager", "webhook", "metrics"):
        if name in parts and parts[name].is_whole:
            _own_faults(parts[name], {}, faults)
    if "storage" in parts and "retention" in parts["storage"].parts:
        _retention(parts["storage"].parts["retention"], faults)


def _names(workspaces: list[Part], faults: Faults) -> None:
    first: dict[str, str] = {}
    for workspace in workspaces:
        name = workspace.get("name")
        if name is not None and first.setdefault(name, workspace.path) != workspace.path:
            way_out = f"is the name of {first[name]} already; choose another"
            faults.add(f"{workspace.path}.name", name, way_out)


def _intervals(workspace: Part, faults: Faults) -> None:
    total = workspace.get("total_timeout_seconds")
    for name in ("connect_timeout_seconds", "read_timeout_seconds"):
        if workspace.get(name) > total:
            way_out = f"must not be above total_timeout_seconds, which is {total:g}"
            faults.add(f"{workspace.path}.{name}", workspace.get(name), way_out)
    poll = workspace.parts.get("poll")
    if poll is not None and poll.get("idle_seconds") < poll.get("active_seconds"):
        way_out = f"must not be below active_seconds, which is {poll.get('active_seconds'):g}"
        faults.add(f"{poll.path}.idle_seconds", poll.get("idle_seconds"), way_out)


def _callbacks(part: Part, parts: Parts, faults: Faults) -> None:
    if part.get("public_url") is not None and "callbacks" not in parts:
        way_out = "nothing listens for callbacks; add the section [callbacks]"
        faults.add(f"{part.path}.public_url", part.get("public_url"), way_out)
    secret = part.get("secret")
    if isinstance(secret, Secret) and len(secret.reveal()) < MIN_CALLBACK_SECRET_CHARACTERS:
        way_out = (
            f"must hold at least {MIN_CALLBACK_SECRET_CHARACTERS} characters; "
            "make one with: openssl rand -hex 32"
        )
        faults.add_hidden(f"{part.path}.secret", way_out)
    if part.get("signature") is SignatureMode.REQUIRE and part.get("signing_secret") is None:
        way_out = "needs the key that is signed with; add signing_secret_file, or take observe"
        faults.add(f"{part.path}.signature", part.get("signature"), way_out)


def _listener(workspaces: list[Part], parts: Parts, faults: Faults) -> None:
    listener, server = parts.get("callbacks"), parts.get("server")
    if listener is None:
        return
    if workspaces and not any("callbacks" in one.parts for one in workspaces):
        way_out = "no workspace accepts callbacks; add [workspaces.callbacks] or remove this"
        faults.add("callbacks", {}, way_out)
    port = listener.get("port")
    if server is not None and port and port == server.get("port"):
        way_out = "is the port of [server] already; choose another"
        faults.add(f"{listener.path}.listen", joined_address(listener.get("host"), port), way_out)


def _server(part: Part, faults: Faults) -> None:
    host, username, password = part.get("host"), part.get("username"), part.get("password")
    if username is not None and password is None:
        faults.add(f"{part.path}.username", username, "has no password; add password_file")
    if password is not None and username is None:
        faults.add_absent(f"{part.path}.username", "is needed beside the password; add it")
    has_auth = part.get("token") is not None or password is not None
    if not (is_loopback(host) or has_auth or part.get("allow_anonymous")):
        way_out = (
            "others can reach this address: add token_file, or username and password_file, "
            "or set allow_anonymous = true"
        )
        faults.add(f"{part.path}.listen", joined_address(host, part.get("port")), way_out)


def _mqtt(part: Part, faults: Faults) -> None:
    _own_faults(part, {"delivery": DeliverySettings(**part.of(DeliverySettings))}, faults)


def _own_faults(part: Part, more: Mapping[str, msgspec.Struct], faults: Faults) -> None:
    """Add what the settings find wrong with themselves, as sentences ``key: way out``."""
    for sentence in part.build(**more).faults():
        name, _, way_out = sentence.partition(": ")
        if isinstance(part.get(name), Secret):
            faults.add_hidden(f"{part.path}.{name}", way_out)
        elif part.get(name) is None:
            faults.add_absent(f"{part.path}.{name}", way_out)
        else:
            faults.add(f"{part.path}.{name}", part.get(name), way_out)


def _retention(part: Part, faults: Faults) -> None:
    count, cap = part.get("events_count"), part.get("events_hard_cap")
    if cap < count:
        way_out = f"must not be below events_count, which is {count}"
        faults.add(f"{part.path}.events_hard_cap", cap, way_out)
