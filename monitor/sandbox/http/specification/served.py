"""The handler of the specification."""

from __future__ import annotations

from monitor.catalogue.operations import Edition
from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.http.specification.document import document


def get_specification(call: Call) -> Reply:
    """Return the OpenAPI document of this edition's operations."""
    is_whole = call.world.options.specification == "whole"
    edition = Edition.OPEN if is_whole else call.services.edition
    return Reply(body=document(edition, call.base_url))


HANDLERS: Handlers = {"getOpenApiSpec": get_specification}
