"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.people import people

HANDLERS: Handlers = {
    **people.HANDLERS,
}
