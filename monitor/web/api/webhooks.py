"""``/api/v1/webhooks``: the webhook tasks that the monitor has registered in flows."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from monitor.web.api.routes import ApiWrite, NoParameters
from monitor.web.requests import Requests
from monitor.web.views.view import View


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


class RegisteredWebhooks(Struct, frozen=True, kw_only=True):
    """Webhook tasks, each with its flow and state, or what became of it."""

    data: list[dict[str, Any]]


def webhooks_view(requests: Requests) -> View:
    async def read(query: WebhooksQuery) -> RegisteredWebhooks:
        return RegisteredWebhooks(data=await requests.webhooks(query.workspace, "list", None))

    return View(
        name="webhooks",
        summary="The webhook tasks that the monitor has registered.",
        api="/api/v1/webhooks",
        query=WebhooksQuery,
        answer=RegisteredWebhooks,
        read=read,
    )


def webhooks_write(requests: Requests) -> ApiWrite:
    async def act(_: NoParameters, body: WebhooksRequest) -> RegisteredWebhooks:
        return RegisteredWebhooks(
            data=await requests.webhooks(body.workspace, body.action.value, body.flow)
        )

    return ApiWrite(
        name="act_on_webhooks",
        summary="Register, test or delete webhook tasks.",
        api="/api/v1/webhooks",
        body=WebhooksRequest,
        answer=RegisteredWebhooks,
        problems={409: "The workspace is not known, or cannot do that."},
        perform=act,
    )
