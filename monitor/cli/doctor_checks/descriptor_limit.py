"""Checks whether the process may open the file descriptors that its connections need."""

from __future__ import annotations

from monitor.config import Configuration
from monitor.listening.file_descriptors import connection_cap
from monitor.model.checks import CheckLine, ok, warning

_SUBJECT = "file descriptors"
# Of people, scrapers and scripts at once.
_CLIENTS = 100
_LISTENERS = 2
# Store, log, broker and receivers.
_OWN_DESCRIPTORS = 64


def check_file_descriptors(configuration: Configuration, *, descriptors: int) -> CheckLine:
    """Compare how many descriptors a process may open with what the configuration wants."""
    cap = connection_cap(descriptors)
    listeners = [("the server's clients", _CLIENTS)]
    if configuration.callbacks is not None:
        listeners.append(("callbacks.in_flight_limit", configuration.callbacks.in_flight_limit))
    rest = descriptors - _LISTENERS * cap
    wanted = sum(workspace.workspace.connections for workspace in configuration.workspaces)
    short = [f"{cap} for {name}, {count} are wanted" for name, count in listeners if cap < count]
    if rest < wanted + _OWN_DESCRIPTORS:
        short.append(f"{rest} for all else, {wanted + _OWN_DESCRIPTORS} are wanted")
    if not short:
        return ok(
            _SUBJECT, f"a process of this user may open {descriptors}, {cap} on each listener"
        )
    return warning(
        _SUBJECT,
        f"a process of this user may open {descriptors}: {'; '.join(short)}",
        "raise the hard limit: LimitNOFILE=65536 in the unit, or ulimit -n before the start",
    )
