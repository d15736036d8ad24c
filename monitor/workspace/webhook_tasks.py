"""The operations on registered callbacks, which the monitor makes, tests and deletes by itself.

The API can create, read, test and delete them. It cannot list them: a flow read with
``embed=webhookflowtasks`` is the only way to find some (an assumption, as is the key of the
answer).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from monitor.model.errors import NoSuchObjectError
from monitor.model.secrets import Secret
from monitor.workspace import row_kinds
from monitor.workspace.payloads import WebhookTaskRow, WebhookTest
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Requester, decoded

_NO_HEADERS: Mapping[str, Secret | str] = MappingProxyType({})


class WebhookTasks:
    """Creates, reads, tests and deletes registered callbacks."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def create(
        self,
        *,
        flow_id: str,
        name: str,
        url: Secret | str,
        body: str,
        headers: Mapping[str, Secret | str] = _NO_HEADERS,
        secret_key: Secret | None = None,
        trigger_event: str = "onJobDone",
        retry_on_failure: bool = True,
        ssl_verification: bool = True,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> str:
        """Register a callback for all outputs of a flow and return the task's id.

        Not tried again when it may have arrived: after such an error the task may exist.
        """
        sent = {
            "name": name,
            "flowId": number_or_text(flow_id),
            "triggerEvent": trigger_event,
            "triggerObject": "any",
            "retryOnFailure": retry_on_failure,
            **_target(url, body, headers, secret_key),
            "sslVerification": ssl_verification,
        }
        answer = await self._requester.request(
            "createWebhookFlowTask",
            body=sent,
            secrets=_secrets(url, headers, secret_key),
            priority=priority,
            wait_seconds=wait_seconds,
        )
        return decoded(row_kinds.CREATED, answer, "createWebhookFlowTask")

    async def read(
        self, task_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> WebhookTaskRow:
        """Read one task."""
        answer = await self._requester.request(
            "getWebhookFlowTask", task_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.WEBHOOK_TASK, answer, "getWebhookFlowTask")

    async def delete(self, task_id: str, *, priority: Priority, wait_seconds: float = 30.0) -> None:
        """Return when the workspace has no such task, whether or not it had one before."""
        try:
            await self._requester.request(
                "deleteWebhookFlowTask", task_id, priority=priority, wait_seconds=wait_seconds
            )
        except NoSuchObjectError:
            return

    async def test(
        self,
        *,
        url: Secret | str,
        body: str = "{}",
        headers: Mapping[str, Secret | str] = _NO_HEADERS,
        secret_key: Secret | None = None,
        ssl_verification: bool = True,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> WebhookTest:
        """Let the workspace call the URL once, and return what it got. Runs no job."""
        sent = {
            **_target(url, body, headers, secret_key),
            "sslVerification": ssl_verification,
        }
        answer = await self._requester.request(
            "testWebhook",
            body=sent,
            secrets=_secrets(url, headers, secret_key),
            priority=priority,
            wait_seconds=wait_seconds,
        )
        return decoded(row_kinds.WEBHOOK_TEST, answer, "testWebhook")

    async def of_flow(
        self, flow_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> tuple[WebhookTaskRow, ...]:
        """Return the readable tasks of a flow; empty also where the answer leaves them out."""
        answer = await self._requester.request(
            "getFlow",
            flow_id,
            query={"embed": "webhookflowtasks"},
            priority=priority,
            wait_seconds=wait_seconds,
        )
        return decoded(row_kinds.WEBHOOK_TASKS_OF_FLOW, answer, "getFlow")


def _target(
    url: Secret | str,
    body: str,
    headers: Mapping[str, Secret | str],
    secret_key: Secret | None,
) -> dict[str, Any]:
    """Return how a callback is sent; the one place where its secrets are written out."""
    sent: dict[str, Any] = {
        "url": _plain(url),
        "method": "post",
        "body": body,
        "headers": {name: _plain(value) for name, value in headers.items()},
    }
    if secret_key is not None:
        sent["secretKey"] = secret_key.reveal()
    return sent


def _plain(value: Secret | str) -> str:
    return value.reveal() if isinstance(value, Secret) else value


def _secrets(
    url: Secret | str, headers: Mapping[str, Secret | str], secret_key: Secret | None
) -> list[Secret]:
    parts = [url, secret_key, *headers.values()]
    return [part for part in parts if isinstance(part, Secret)]


def number_or_text(object_id: str) -> int | str:
    """Return an id as the workspace has it in a body."""
    # Ids are text here and mostly numbers there; newer objects have ids of letters.
    is_number = object_id.isascii() and object_id.isdigit()
    return int(object_id) if is_number else object_id
