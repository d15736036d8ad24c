"""Checks whether the process may open the file descriptors that its connections need."""

from __future__ import annotations

from monitor.config import Configuration
from monitor.listening.handles import connection_cap
from monitor.model.check_lines import CheckLine, ok, warning

_SUBJECT = "handles"
# Of people, scrapers and scripts at once.
_CLIENTS = 100
_LISTENERS = 2
# Store, log, broker and receivers.
_OWN_HANDLES = 64


def check_handles(configuration: Configuration, *, handles: int) -> CheckLine:
    """Compare how many handles a process may open with what the configuration wants at once."""
    cap = connection_cap(handles)
    listeners = [("the server's clients", _CLIENTS)]
    if configuration.callbacks is not None:
        listeners.append(("callbacks.in_flight_limit", configuration.callbacks.in_flight_limit))
    rest = handles - _LISTENERS * cap
    wanted = sum(workspace.workspace.connections for workspace in configuration.workspaces)
    short = [f"{cap} for {name}, {count} are wanted" for name, count in listeners if cap < count]
    if rest < wanted + _OWN_HANDLES:
        short.append(f"{rest} for all else, {wanted + _OWN_HANDLES} are wanted")
    if not short:
        return ok(_SUBJECT, f"a process of this user may open {handles}, {cap} on each listener")
    return warning(
        _SUBJECT,
        f"a process of this user may open {handles}: {'; '.join(short)}",
        "raise the hard limit: LimitNOFILE=65536 in the unit, or ulimit -n before the start",
    )
