"""Flows: listed and read."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.http.reading.parameters import integer
from monitor.sandbox.objects import Flow


def _flows(call: Call) -> Iterable[Flow]:
    query = call.list_query()
    folder_id = integer(call.query, "folderId", 0)
    return (
        one
        for one in call.world.flows
        if (query.include_deleted or one.deleted_at is None)
        and call.view.in_scope(one, query.scope)
        and (not folder_id or one.folder_id == folder_id)
    )


def list_flows(call: Call) -> Reply:
    return call.list("flows", _flows(call))


def count_flows(call: Call) -> Reply:
    return call.count("flows", _flows(call))


def get_flow(call: Call) -> Reply:
    return call.show("flows", call.thing(call.world.flows, "flow"))


HANDLERS: Handlers = {
    "listFlows": list_flows,
    "countFlows": count_flows,
    "getFlow": get_flow,
}
