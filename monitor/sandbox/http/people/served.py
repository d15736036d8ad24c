"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.people import access_tokens, aws, dataflow_options, people

HANDLERS: Handlers = {
    **access_tokens.HANDLERS,
    **aws.HANDLERS,
    **dataflow_options.HANDLERS,
    **people.HANDLERS,
}
