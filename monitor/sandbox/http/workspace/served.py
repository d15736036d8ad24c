"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.workspace import configuring, functions, transfer, usage

HANDLERS: Handlers = {
    **configuring.HANDLERS,
    **functions.HANDLERS,
    **transfer.HANDLERS,
    **usage.HANDLERS,
}
