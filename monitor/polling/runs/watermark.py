"""Up to which moment of workspace time the changes of one kind are known."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from monitor.bus.contract import decode_entries
from monitor.polling.context import PollContext

WATERMARK = "watermark"  # topic of its state entries

_DECODER: msgspec.json.Decoder[datetime] = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)])


class Watermark:
    """Durable; it moves only to the moment at which a poll that came to its end began."""

    def __init__(self, context: PollContext, poll: str) -> None:
        self._context = context
        self._poll = poll
        self._at: datetime | None = None
        # Monotonic: when the last poll began, and the one that moved the watermark.
        self._began: float | None = None
        self._completed: float | None = None

    @property
    def at(self) -> datetime | None:
        return self._at

    async def load(self) -> None:
        state_entries = await self._context.bus.state_entries(self._context.name, WATERMARK)
        # Without it the next poll begins where the first did: late, and no event repeats.
        own = {self._poll: state_entries[self._poll]} if self._poll in state_entries else {}
        self._at = decode_entries(own, _DECODER, topic=WATERMARK).get(self._poll)

    def since(self) -> datetime:
        """Return the time since which a poll that begins now requests changes."""
        settings = self._context.settings
        self._began = self._context.clock.monotonic()
        if self._at is None:
            followed_since = self._context.followed_since() or self._context.workspace_now()
            return followed_since - timedelta(seconds=settings.first_look_seconds)
        # A stamp may be cut to its second: without an overlap, too, this second is requested whole.
        return (self._at - timedelta(seconds=settings.overlap_seconds)).replace(microsecond=0)

    async def move(self, at: datetime | None) -> None:
        """Remember that everything before ``at`` is committed. None leaves it where it is.

        Durable on return; after a cancelled call the next poll reads from the old watermark or the
        new one, which only repeats rows.
        """
        before, self._completed = self._completed, self._began
        if at is None or at == self._at:
            return
        if self._at is not None and at < self._at and self._began is not None:
            # The workspace's clock was set back. What was written since the last complete poll
            # carries stamps of the new time, which lie before the old watermark: unseen so far.
            # Polls that came to their end before that was believed requested by the former time.
            set_ = self._context.client.requester.time.last_set
            before = self._began if before is None else before
            if set_ is not None and set_.noticed >= before:
                before = min(before, set_.after)
            at -= timedelta(seconds=self._began - before)
        await self._store(at)

    async def move_back(self, at: datetime | None) -> None:
        """Read again from ``at`` on: what was read since cannot be believed. Durable on return."""
        if at is None or self._at is None or at >= self._at:
            return
        await self._store(at)

    async def _store(self, at: datetime) -> None:
        state_entry = self._context.state_entry(WATERMARK, self._poll, msgspec.json.encode(at))
        await self._context.observer.observe((), state_entries=(state_entry,))
        self._at = at
