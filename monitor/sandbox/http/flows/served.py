"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.flows import flows, folders

HANDLERS: Handlers = {
    **flows.HANDLERS,
    **folders.HANDLERS,
}
