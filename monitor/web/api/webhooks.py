"""``/api/v1/webhooks``: the webhook tasks that the monitor has registered in flows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from monitor.web.api.route_types import ApiWrite
from monitor.web.audit.recording import Write
from monitor.web.principals import Role
from monitor.web.requests import Requests
from monitor.web.views.view import NoParameters, View


class WebhookAction(StrEnum):
    """What is done with the tasks: registered where missing, called once, or removed."""

    SYNC = "sync"
    TEST = "test"
    DELETE = "delete"


class WebhooksQuery(Struct, frozen=True, kw_only=True):
    """Whose tasks. ``workspace`` may be left out where there is only one."""

    workspace: str | None = None


class WebhooksRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on the tasks of one flow, or of all."""

    action: WebhookAction
    workspace: str | None = None
    flow: str | None = None


class RegisteredTask(Struct, frozen=True, kw_only=True):
    """The task of one flow.

    ``state`` is registered, pending (not made yet), over_limit (the flow is full of other tasks),
    failed (``reason`` says why; tried again) or removed (until the next sync or start).
    """

    workspace: str
    flow_id: str
    flow: str
    state: str
    task_id: str | None
    reason: str | None


class RegisteredWebhooks(Struct, frozen=True, kw_only=True):
    """Webhook tasks, by the name of their flow."""

    data: list[RegisteredTask]


class WebhookResult(Struct, frozen=True, kw_only=True):
    """What became of one task, as in the list of tasks; or of the test of a workspace.

    A test has ``ok``, ``status_code``, the answer to the call, and ``error``; nothing else has.
    """

    workspace: str
    flow_id: str | UnsetType = UNSET
    flow: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    task_id: str | UnsetType | None = UNSET
    reason: str | UnsetType | None = UNSET
    ok: bool | UnsetType = UNSET
    status_code: int | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class WebhookResults(Struct, frozen=True, kw_only=True):
    """What became of each task, or of each test."""

    data: list[WebhookResult]


def webhooks_view(requests: Requests) -> View:
    async def read(query: WebhooksQuery) -> RegisteredWebhooks:
        rows = await requests.webhooks(query.workspace, "list", None)
        return RegisteredWebhooks(data=msgspec.convert(rows, list[RegisteredTask]))

    return View(
        name="webhooks",
        summary="The webhook tasks that the monitor has registered.",
        api="/api/v1/webhooks",
        query=WebhooksQuery,
        answer=RegisteredWebhooks,
        read=read,
    )


def webhooks_write(requests: Requests) -> ApiWrite:
    async def act(_: NoParameters, body: WebhooksRequest, write: Write) -> WebhookResults:
        if body.action is not WebhookAction.TEST:
            tasks = await requests.webhooks(body.workspace, "list", None)
            write.before = _by_state(row for row in tasks if body.flow in (None, row["flow_id"]))
        rows = await requests.webhooks(body.workspace, body.action.value, body.flow)
        write.after = _by_state(rows)
        return WebhookResults(data=msgspec.convert(rows, list[WebhookResult]))

    return ApiWrite(
        name="act_on_webhooks",
        summary="Register, test or delete webhook tasks.",
        api="/api/v1/webhooks",
        role=Role.ADMIN,
        body=WebhooksRequest,
        answer=WebhookResults,
        problems={409: "The workspace is not known, or cannot do that."},
        perform=act,
    )


def _by_state(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the flows by the state of their tasks: of a thousand tasks the rows would be long."""
    flows: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        tested = "test passed" if row.get("ok") else "test failed"
        flows[str(row.get("state", tested))].append(str(row.get("flow_id", row["workspace"])))
    return dict(flows)
