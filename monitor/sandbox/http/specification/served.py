"""The handler of the specification."""

from __future__ import annotations

from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.http.specification.document import document


def get_specification(call: Call) -> Reply:
    """Return the OpenAPI document of this edition's operations."""
    return Reply(body=document(call.services.edition, call.base_url))


HANDLERS: Handlers = {"getOpenApiSpec": get_specification}
