"""Sends callbacks as a workspace with ``retryOnFailure`` does, and keeps the answers."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable

import aiohttp

from tests.app.eventually import pause
from tests.app.fixture import SECRET

EndCallback = tuple[str, str]  # id of the job group, the workspace's word for its end

_AT_ONCE = 32
_AGAIN_SECONDS = 0.1
_TIMEOUT = aiohttp.ClientTimeout(total=15)


class Sender:
    """Sends each callback until it is answered 2xx; also while the daemon is killed."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/hooks/acme"
        self._waiting: deque[EndCallback] = deque()
        self.acknowledged: list[EndCallback] = []
        self.refused: Counter[str] = Counter()  # by status, or by what the connection died of

    @property
    def fingerprints(self) -> set[str]:
        """Return the store's fingerprints of the acknowledged callbacks."""
        return {f"job_group:{run_id}:{word.lower()}" for run_id, word in self.acknowledged}

    async def send(self, callbacks: Iterable[EndCallback], *, within_seconds: float = 60.0) -> None:
        """Return when every one of them was acknowledged."""
        self._waiting.extend(callbacks)
        connector = aiohttp.TCPConnector(limit=_AT_ONCE)
        async with (
            asyncio.timeout(within_seconds),
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(_AT_ONCE):
                group.create_task(self._send_on(session), name="sending callbacks")

    async def _send_on(self, session: aiohttp.ClientSession) -> None:
        while self._waiting:
            callback = self._waiting.popleft()
            while not await self._is_accepted(session, callback):
                await pause(_AGAIN_SECONDS)
            self.acknowledged.append(callback)

    async def _is_accepted(self, session: aiohttp.ClientSession, callback: EndCallback) -> bool:
        body = {"job_id": callback[0], "status": callback[1]}
        try:
            async with session.post(
                self._url, json=body, headers={"X-Monitor-Secret": SECRET}
            ) as answer:
                if answer.status // 100 == 2:
                    return True
                self.refused[str(answer.status)] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            self.refused[type(exc).__name__] += 1
        return False
