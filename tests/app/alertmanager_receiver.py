"""A real Alertmanager beside a daemon, and the receiver of its notifications."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager


class Notified:
    """Everything that an Alertmanager would have mailed, by default each alert in its own mail."""

    def __init__(self, folder: Path, *, group_by: str = "'...'", group_wait: str = "100ms") -> None:
        self._folder = folder
        self._route = {"group_by": group_by, "group_wait": group_wait}
        self._stack = AsyncExitStack()
        self._receiver = PostReceiver()
        self._url = ""

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._receiver)
        alertmanager = Alertmanager(self._folder, notify_url=self._receiver.url, **self._route)
        self._url = (await self._stack.enter_async_context(alertmanager)).url
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def settings(self, *, resend_seconds: float = 1.0) -> AlertmanagerSettings:
        """Return the settings of a daemon that posts to this Alertmanager."""
        return AlertmanagerSettings(
            urls=(self._url,),
            resend_seconds=resend_seconds,
            backoff_base_seconds=0.1,
            backoff_cap_seconds=0.5,
        )

    @property
    def mails(self) -> list[list[dict[str, str]]]:
        """The labels of the alerts in each notification, oldest first."""
        return [
            [alert["labels"] for alert in got.json()["alerts"]] for got in self._receiver.requests
        ]

    def addresses(self) -> set[str]:
        """Return where the mails' links lead: to the runs, as far as they are known."""
        return {
            alert["generatorURL"]
            for got in self._receiver.requests
            for alert in got.json()["alerts"]
        }

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The alerts of all notifications, in their order."""
        return [alert for got in self._receiver.requests for alert in got.json()["alerts"]]

    async def active(self) -> list[dict[str, Any]]:
        """Return the alerts that are active at the Alertmanager now."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}/api/v2/alerts") as answer,
        ):
            rows: list[dict[str, Any]] = await answer.json()
            return rows

    def words(self) -> dict[str, list[str]]:
        """Return for each rule the statuses of its notifications, in their order."""
        received: defaultdict[str, list[str]] = defaultdict(list)
        for got in self._receiver.requests:
            for alert in got.json()["alerts"]:
                received[alert["labels"]["alertname"]].append(alert["status"])
        return dict(received)
