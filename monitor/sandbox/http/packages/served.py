"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.packages import environment_parameters, flow_packages, macros

HANDLERS: Handlers = {
    **flow_packages.HANDLERS,
    **macros.HANDLERS,
    **environment_parameters.HANDLERS,
}
