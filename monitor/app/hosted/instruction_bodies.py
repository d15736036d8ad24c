"""The instructions of daemons to each other and their outcomes, as they are stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.alerts import Silence
from monitor.model.errors import (
    ConfigurationError,
    MonitorError,
    NoSuchObjectError,
    TryLaterError,
)
from monitor.model.runs import RunKind
from monitor.outputs.replaying import Replayed


class AddSilence(Struct, frozen=True, kw_only=True, tag=True):
    silence: Silence


class ExpireSilence(Struct, frozen=True, kw_only=True, tag=True):
    id: str


class Acknowledge(Struct, frozen=True, kw_only=True, tag=True):
    fingerprint: str
    starts_at: datetime
    author: str
    comment: str


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


class ReplayTo(Struct, frozen=True, kw_only=True, tag=True):
    output: str
    since: datetime


InstructionBody = AddSilence | ExpireSilence | Acknowledge | Track | Untrack | Webhooks | ReplayTo


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of an instruction. ``error`` is one sentence, ``sort`` the kind of error."""

    done: bool | None = None
    detail: str | None = None  # one sentence
    rows: list[dict[str, Any]] | None = None
    replayed: Replayed | None = None
    error: str | None = None
    sort: str | None = None


_SORTS: dict[str, type[MonitorError]] = {
    "refused": ConfigurationError,
    "missing": NoSuchObjectError,
    "later": TryLaterError,
}
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
