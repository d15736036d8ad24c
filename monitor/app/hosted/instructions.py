"""Instructions of daemons to each other: requested by any, executed in order by the holder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.shards import Instruction, ShardInstructions, ShardsElsewhere
from monitor.model.actions import Action, ActionResult
from monitor.model.alerts import Alert, Silence
from monitor.model.errors import (
    ConfigurationError,
    MonitorError,
    NoSuchObjectError,
    TryLaterError,
)
from monitor.model.notifying import MessagePreview
from monitor.model.runs import RunKind
from monitor.model.words import utc
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.web.requests import AlertingRequests, ShardRequests
from monitor.web.shown_shards import ShownShard

log = structlog.get_logger()

_STORE_SECONDS = 10.0
_ANSWER_SECONDS = 5.0  # for the holder to execute a request that waits
_SORTS: dict[str, type[MonitorError]] = {
    "refused": ConfigurationError,
    "missing": NoSuchObjectError,
    "later": TryLaterError,
}


class AddSilence(Struct, frozen=True, kw_only=True, tag=True):
    silence: Silence


class ExpireSilence(Struct, frozen=True, kw_only=True, tag=True):
    id: str


class Acknowledge(Struct, frozen=True, kw_only=True, tag=True):
    fingerprint: str
    starts_at: datetime
    author: str
    comment: str
    until: datetime | None = None


class Track(Struct, frozen=True, kw_only=True, tag=True):
    workspace: str
    kind: RunKind
    id: str


class Untrack(Struct, frozen=True, kw_only=True, tag=True):
    workspace: str
    kind: RunKind
    id: str


class Webhooks(Struct, frozen=True, kw_only=True, tag=True):
    workspace: str
    action: str
    flow: str | None


class Act(Struct, frozen=True, kw_only=True, tag=True):
    workspace: str
    action: Action
    not_after: datetime


class ReplayTo(Struct, frozen=True, kw_only=True, tag=True):
    output: str
    since: datetime


class ProcessLetters(Struct, frozen=True, kw_only=True, tag=True):
    output: str
    action: LetterAction
    event_ids: tuple[str, ...] | None


class PreviewMessages(Struct, frozen=True, kw_only=True, tag=True):
    fingerprint: str


InstructionBody = (
    AddSilence
    | ExpireSilence
    | Acknowledge
    | Track
    | Untrack
    | Webhooks
    | Act
    | ReplayTo
    | ProcessLetters
    | PreviewMessages
)


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of an instruction. ``error`` is one sentence, ``sort`` the kind of error."""

    done: bool | None = None
    detail: str | None = None  # one sentence
    rows: list[dict[str, Any]] | None = None
    acted: ActionResult | None = None
    replayed: Replayed | None = None
    letters: LettersProcessed | None = None
    previews: tuple[MessagePreview, ...] | None = None
    error: str | None = None
    sort: str | None = None


decode_body = msgspec.json.Decoder(InstructionBody).decode
decode_outcome = msgspec.json.Decoder(Outcome).decode


def failed(error: MonitorError) -> Outcome:
    """Return the outcome of an instruction that cannot be executed."""
    sorts = (sort for sort, of in _SORTS.items() if isinstance(error, of))
    return Outcome(error=str(error), sort=next(sorts, "later"))


def raise_error(outcome: Outcome) -> None:
    """Raise what the holder has raised, if it has."""
    if outcome.error is not None:
        raise _SORTS.get(outcome.sort or "", TryLaterError)(outcome.error)


class InstructionRunner:
    """Executes the instructions of a shard that this daemon holds.

    An outcome that could not be stored is stored later; only a holder that dies or loses the shard
    in between leaves an instruction to be executed again, before any later one. Then a silence, an
    acknowledgement or a tracked run stays as it is, webhook tasks are compared again, and what an
    execution id has started is not started again. A replay sends its events again, as a resend does
    its letters that are left, and a test its request: all at least once, under the same ids.
    """

    def __init__(self, instructions: ShardInstructions, *, shown: Callable[[], ShownShard]) -> None:
        self._instructions = instructions
        self._shown = shown
        # The id and outcome of one that is still open, and must not be executed again.
        self._executed: tuple[int, bytes] | None = None

    async def run(self) -> None:
        """Execute until cancelled, the oldest first.

        Raises:
            BusUnavailableError: the next run goes on with the outcome that is not stored yet.
        """
        while True:
            if self._executed is None:
                instruction = await self._instructions.next()
                outcome = await self._execute(instruction)
                self._executed = instruction.id, msgspec.json.encode(outcome)
            await self._instructions.finish(*self._executed, timeout_seconds=_STORE_SECONDS)
            self._executed = None

    async def _execute(self, instruction: Instruction) -> Outcome:
        try:
            body = decode_body(instruction.body)
        except msgspec.MsgspecError as exc:
            return Outcome(error=f"this version does not know the instruction: {exc}", sort="later")
        try:
            outcome = await execute(body, self._shown())
        except MonitorError as exc:
            outcome = failed(exc)
        log.info(
            "instruction executed",
            kind=instruction.kind,
            asked_by=instruction.created_by,
            error=outcome.error,
        )
        return outcome


async def execute(body: InstructionBody, shard: ShownShard) -> Outcome:
    """Execute an instruction by the shard's own requests; raises as these do."""
    match body:
        case Track(workspace=workspace, kind=kind, id=run_id):
            return Outcome(detail=await shard.requests.track(workspace, kind, run_id))
        case Untrack(workspace=workspace, kind=kind, id=run_id):
            return Outcome(detail=await shard.requests.untrack(workspace, kind, run_id))
        case Webhooks(workspace=workspace, action=action, flow=flow):
            return Outcome(rows=await shard.requests.webhooks(workspace, action, flow))
        case Act(workspace=workspace, action=action, not_after=not_after):
            return Outcome(acted=await shard.requests.act(workspace, action, not_after))
        case ReplayTo() | ProcessLetters() | PreviewMessages():
            return await _execute_by_outputs(body, shard.alerting)
        case _:
            return Outcome(done=await _change_alerting(body, shard.alerting))


async def _execute_by_outputs(
    body: ReplayTo | ProcessLetters | PreviewMessages, alerting: AlertingRequests
) -> Outcome:
    match body:
        case ReplayTo():
            return Outcome(replayed=await _replay(body, alerting))
        case ProcessLetters():
            return Outcome(letters=await _process_letters(body, alerting))
        case PreviewMessages(fingerprint=fingerprint):
            return Outcome(previews=tuple(await alerting.preview(fingerprint) or ()))


async def _replay(replay: ReplayTo, alerting: AlertingRequests) -> Replayed:
    if replay.output not in alerting.outputs():
        return Replayed(output=replay.output, sent=0, skipped=0, refused=0, reason="not configured")
    return await alerting.replay(replay.output, replay.since)


async def _process_letters(body: ProcessLetters, alerting: AlertingRequests) -> LettersProcessed:
    if body.output not in alerting.outputs():
        missing = body.event_ids or ()
        return LettersProcessed(output=body.output, missing=missing, reason="not configured")
    return await alerting.process_letters(body.output, body.action, body.event_ids)


async def _change_alerting(
    body: AddSilence | ExpireSilence | Acknowledge, alerting: AlertingRequests
) -> bool:
    match body:
        case AddSilence(silence=silence):
            # Executed again, it must not revive one that was ended meanwhile.
            if all(known.id != silence.id for known in alerting.snapshot().silences):
                await alerting.add_silence(silence)
            return True
        case ExpireSilence(id=silence_id):
            return await alerting.expire_silence(silence_id)
        case Acknowledge():
            return await alerting.acknowledge(
                body.fingerprint, body.starts_at, body.author, body.comment, body.until
            )


class InstructedShard:
    """The requests that change a shard which another daemon holds."""

    def __init__(
        self,
        shard: str,
        elsewhere: ShardsElsewhere,
        *,
        holder: Callable[[], str | None] = lambda: None,
        on_answer: Callable[[], None],
    ) -> None:
        """``holder`` is the id of a daemon. ``on_answer``: what is stored has changed."""
        self._shard = shard
        self._elsewhere = elsewhere
        self._holder = holder
        self._on_answer = on_answer

    async def add_silence(self, silence: Silence) -> None:
        await self._ask(AddSilence(silence=silence))

    async def expire_silence(self, silence_id: str) -> bool:
        return _done(await self._ask(ExpireSilence(id=silence_id)))

    async def acknowledge(
        self,
        fingerprint: str,
        starts_at: datetime,
        author: str,
        comment: str,
        until: datetime | None,
    ) -> bool:
        acknowledge = Acknowledge(
            fingerprint=fingerprint,
            starts_at=starts_at,
            author=author,
            comment=comment,
            until=until,
        )
        return _done(await self._ask(acknowledge))

    async def replay(self, output: str, since: datetime) -> Replayed:
        outcome = await self._ask(ReplayTo(output=output, since=since))
        if outcome is not None and outcome.replayed is not None:
            return outcome.replayed
        return Replayed(output=output, sent=0, skipped=0, refused=0, reason=self._stored())

    async def process_letters(
        self, output: str, action: LetterAction, event_ids: tuple[str, ...] | None
    ) -> LettersProcessed:
        body = ProcessLetters(output=output, action=action, event_ids=event_ids)
        outcome = await self._ask(body)
        if outcome is not None and outcome.letters is not None:
            return outcome.letters
        return LettersProcessed(output=output, reason=self._stored())

    async def previews(self, alert: Alert) -> Sequence[MessagePreview]:
        outcome = await self._ask(PreviewMessages(fingerprint=alert.fingerprint))
        if outcome is None:
            raise TryLaterError(self._stored())
        return outcome.previews or ()

    def alerting(self, shown: AlertingRequests) -> AlertingRequests:
        """Return these requests; those with a change are passed on to the holder."""
        return msgspec.structs.replace(
            shown,
            add_silence=self.add_silence,
            expire_silence=self.expire_silence,
            acknowledge=self.acknowledge,
            replay=self.replay,
            process_letters=self.process_letters,
        )

    def requests(self) -> ShardRequests:
        return ShardRequests(
            track=self._track, untrack=self._untrack, webhooks=self._webhooks, act=self._act
        )

    async def _track(self, workspace: str, kind: RunKind, run_id: str) -> str:
        outcome = await self._ask(Track(workspace=workspace, kind=kind, id=run_id))
        return self._stored() if outcome is None else outcome.detail or ""

    async def _untrack(self, workspace: str, kind: RunKind, run_id: str) -> str:
        outcome = await self._ask(Untrack(workspace=workspace, kind=kind, id=run_id))
        return self._stored() if outcome is None else outcome.detail or ""

    async def _webhooks(
        self, workspace: str, action: str, flow: str | None
    ) -> list[dict[str, Any]]:
        outcome = await self._ask(Webhooks(workspace=workspace, action=action, flow=flow))
        if outcome is None:
            raise TryLaterError(self._stored())
        return outcome.rows or []

    async def _act(self, workspace: str, action: Action, not_after: datetime) -> ActionResult:
        outcome = await self._ask(Act(workspace=workspace, action=action, not_after=not_after))
        if outcome is not None and outcome.acted is not None:
            return outcome.acted
        return ActionResult(detail=f"{self._stored()} until {utc(not_after)}, or not at all")

    async def _ask(self, body: InstructionBody) -> Outcome | None:
        """Return the outcome of an instruction; None where it is stored and still unanswered.

        Raises:
            BusUnavailableError: it may not be stored.
            MonitorError: the holder refused it.
        """
        instruction_id = await self._elsewhere.instruct(
            self._shard,
            type(body).__name__,
            msgspec.json.encode(body),
            timeout_seconds=_STORE_SECONDS,
        )
        stored = await self._elsewhere.outcome(instruction_id, timeout_seconds=_ANSWER_SECONDS)
        self._on_answer()
        if stored is None:
            return None
        outcome = decode_outcome(stored)
        raise_error(outcome)
        return outcome

    def _stored(self) -> str:
        holder = self._holder() or "the next daemon that holds the shard"
        return f"the instruction is stored; {holder} executes it"


def _done(outcome: Outcome | None) -> bool:
    """Return what the holder has answered; what it will execute counts as done."""
    return outcome is None or outcome.done is True
