"""An output that records what it is sent, for tests of what is sent beside its delivery."""

from __future__ import annotations

import asyncio

from monitor.bus.contract import Recorded
from monitor.model.errors import OutputError
from monitor.model.events import EventType


class RecordingOutput:
    """An output that answers at once, as the test configures."""

    name = "recording"

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.problems: dict[str, list[OutputError]] = {}  # event id -> answers before the good one
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.is_stopped = False  # answers nothing any more

    async def ready(self) -> None:
        await self.is_up.wait()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        if recorded.event.type is EventType.ALERT_SILENCED:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ids.append(recorded.event.id)
        if self.is_stopped:
            return answer
        if problems := self.problems.get(recorded.event.id):
            answer.set_exception(problems.pop(0))
        else:
            answer.set_result(None)
        return answer
