"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.outputs import destinations, output_objects

HANDLERS: Handlers = {
    **destinations.HANDLERS,
    **output_objects.HANDLERS,
}
