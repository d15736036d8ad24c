"""The person whose token it is."""

from __future__ import annotations

from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.http.reading.parameters import boolean


def get_current_person(call: Call) -> Reply:
    if not boolean(call.query, "includePrivileges"):
        return call.show("people", call.person)
    return call.show("people", call.person, extra={"maximalPrivileges": []})


HANDLERS: Handlers = {"getCurrentPerson": get_current_person}
