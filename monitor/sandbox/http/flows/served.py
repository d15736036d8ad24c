"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.flows import edges, flows, folders, library, parameters, sharing

HANDLERS: Handlers = {
    **edges.HANDLERS,
    **flows.HANDLERS,
    **folders.HANDLERS,
    **library.HANDLERS,
    **parameters.HANDLERS,
    **sharing.HANDLERS,
}
