"""Posts events to one receiver, each as a signed CloudEvent of its own, and checks it.

Signatures are by the rules of Standard Webhooks (standardwebhooks.com).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from urllib.parse import quote, urlsplit
from zlib import crc32

from msgspec import Struct

from monitor.bus.contract import Recorded
from monitor.model.checks import CheckLine, failed, is_failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.events import Event
from monitor.outputs.certificates import ANSWER_SECONDS, check_tls
from monitor.outputs.cloudevents import CONTENT_TYPE, encode, message_of
from monitor.outputs.event_output import EventOutput, OutputParts, Run, give_answer
from monitor.outputs.http import HttpReceiver, tls_file_problems
from monitor.outputs.webhook.settings import WEBHOOK, WebhookSettings, signing_key

_WEBHOOK = "webhook"


async def check_webhook(settings: WebhookSettings, *, clock: Clock) -> list[CheckLine]:
    """Connect, and post nothing: a receiver would take any post for an alert."""
    tls = await check_tls(_WEBHOOK, settings.url, settings, clock=clock)
    if is_failed(tls):
        return tls
    parts = urlsplit(settings.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError as exc:
        hint = "see that the receiver runs, and correct url in [webhook]"
        return [
            failed(_WEBHOOK, f"no connection: {str(exc) or 'no answer in time'}", hint),
            *tls,
        ]
    writer.close()
    return [ok(_WEBHOOK, "accepts connections; nothing was posted"), *tls]


def signed_headers(
    body: bytes, *, event_id: str, at: datetime, keys: Iterable[bytes]
) -> dict[str, str]:
    """Return the headers by which a receiver knows who sent the body, and that it is not old.

    ``at`` is the moment of this attempt; the id is the same in all of them. Each key signs, so
    that a receiver that knows any one of them is content.
    """
    # Ids of ours are plain, but for what a workspace may call its things.
    sent_id = event_id if event_id.isascii() and event_id.isprintable() else quote(event_id)
    timestamp = str(int(at.timestamp()))
    signed = b".".join((sent_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": sent_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{_signature(signed, key)}" for key in keys),
    }


def _signature(signed: bytes, key: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class _Request(Struct, frozen=True):
    """One event on its way; the bytes are the same at each attempt of one life."""

    event_id: str
    body: bytes
    answer: asyncio.Future[None]


class WebhookOutput(EventOutput):
    """One receiver. Several requests at a time, but one for each subject: order is kept."""

    record = WEBHOOK
    check = staticmethod(check_webhook)

    def __init__(self, settings: WebhookSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        self._settings = settings
        self._receiver = HttpReceiver(
            settings.url,
            settings=settings,
            clock=parts.clock,
            headers=dict,
            may_send=parts.bus.may_publish,
        )
        self._queues: list[asyncio.Queue[_Request]] = [
            asyncio.Queue()
            for _ in range(settings.workers)  # the delivery's window bounds them
        ]
        self._reason: str | None = None  # why the last request had no answer

    @staticmethod
    def path_problems(settings: WebhookSettings) -> list[str]:
        return tls_file_problems(settings, [settings.url])

    @property
    def is_well(self) -> bool:
        """False while the last request was not answered as it should be."""
        return self._reason is None

    @property
    def status(self) -> str:
        """One sentence for people: whether it answers, or why not."""
        return "no request failed last" if self.is_well else f"does not answer: {self._reason}"

    async def _tasks(self) -> dict[str, Run]:
        return {
            f"worker {number}": partial(self._work, queue)
            for number, queue in enumerate(self._queues)
        }

    async def _close(self) -> None:
        for queue in self._queues:
            while not queue.empty():
                give_answer(queue.get_nowait().answer, OutputUnavailableError("stopped"))
        await self._receiver.close()

    # --- what the delivery calls ---

    async def ready(self) -> None:
        await self._receiver.ready()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Queue one event; None for a type that the settings do not select."""
        event = recorded.event
        if event.type not in self.types:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            body = encode(message_of(event, position=recorded.position, epoch=recorded.epoch))
        except OutputRefusedError as exc:
            answer.set_exception(exc)
        else:
            self._queue_of(event).put_nowait(_Request(event.id, body, answer))
        return answer

    def _queue_of(self, event: Event) -> asyncio.Queue[_Request]:
        return self._queues[crc32(event.subject.encode()) % len(self._queues)]

    async def _work(self, queue: asyncio.Queue[_Request]) -> None:
        while True:
            request = await queue.get()
            try:
                await self._post(request)
            except OutputUnavailableError as exc:
                self._reason = str(exc)
                give_answer(request.answer, exc)
            except OutputRefusedError as exc:
                self._reason = None
                give_answer(request.answer, exc)
            else:
                self._reason = None
                give_answer(request.answer, None)
            finally:
                give_answer(request.answer, OutputUnavailableError("stopped"))

    async def _post(self, request: _Request) -> None:
        secrets = (self._settings.secret, self._settings.former_secret)
        signature = signed_headers(
            request.body,
            event_id=request.event_id,
            at=self._clock.now(),
            keys=[signing_key(secret) for secret in secrets if secret is not None],
        )
        await self._receiver.post(request.body, headers={"Content-Type": CONTENT_TYPE, **signature})
