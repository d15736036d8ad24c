"""Sends callbacks as a workspace with ``retryOnFailure`` does, and remembers what was answered."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable

import aiohttp

from tests.app.stage import SECRET
from tests.app.waiting import pause

Told = tuple[str, str]  # id of the job group, the workspace's word for its end

_AT_ONCE = 32
_AGAIN_SECONDS = 0.1
_TIMEOUT = aiohttp.ClientTimeout(total=15)


class Sender:
    """Sends each callback until it is answered 2xx; whoever kills the daemon may look on."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/hooks/acme"
        self._waiting: deque[Told] = deque()
        self.acknowledged: list[Told] = []
        self.refused: Counter[str] = Counter()  # by status, or by what the connection died of

    @property
    def fingerprints(self) -> set[str]:
        """Return how the store calls what was acknowledged until now."""
        return {f"job_group:{run_id}:{word.lower()}" for run_id, word in self.acknowledged}

    async def send(self, callbacks: Iterable[Told], *, within_seconds: float = 60.0) -> None:
        """Return when every one of them was acknowledged."""
        self._waiting.extend(callbacks)
        connector = aiohttp.TCPConnector(limit=_AT_ONCE)
        async with (
            asyncio.timeout(within_seconds),
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(_AT_ONCE):
                group.create_task(self._send_on(session))

    async def _send_on(self, session: aiohttp.ClientSession) -> None:
        while self._waiting:
            told = self._waiting.popleft()
            while not await self._is_taken(session, told):
                await pause(_AGAIN_SECONDS)
            self.acknowledged.append(told)

    async def _is_taken(self, session: aiohttp.ClientSession, told: Told) -> bool:
        body = {"job_id": told[0], "status": told[1]}
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
