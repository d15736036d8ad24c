"""Parses the body of a webhook task, as people wrote it, into a statement and an observation.

Bodies are free text in these products; only ``$jobId`` and ``$jobStatus`` are known to be
replaced. So names are compared without case, dots, dashes and underscores, and JSON and forms are
distinguished by their first character. A plan's HTTP task can name its run and not its end: it is
sent by a node of the plan, while the plan goes on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from monitor.bus.contract import StoredCallback
from monitor.model.errors import PayloadError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.outside import NumberedId, RunIdText, is_id_of, is_run_id
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Source, Status, status_of

TEST_FIELD = "dataprep_monitor_test"
_TEST_MARK = TEST_FIELD.encode()

# The first of these names that a body has names its run.
_RUN_IDS = (
    *((RunKind.PLAN_RUN, name) for name in ("planrunid", "plansnapshotrunid", "planrun")),
    *((RunKind.FLOW_RUN, name) for name in ("flowrunid", "flowrun")),
    *((RunKind.JOB_GROUP, name) for name in ("jobgroupid", "jobid", "jobgroup", "job", "id")),
)
_STATUSES = ("jobstatus", "status", "state", "result")
_IDS_END = 10**20  # Python refuses to write out numbers of thousands of digits
_WORDS = re.compile(r"\A[A-Za-z][A-Za-z _-]{0,31}\Z")
_FORM_FIELDS = 64
_NAMES_KEPT = 64  # senders use the same few over and over; one may be as long as a body
_decode_object = msgspec.json.Decoder(dict[str, object]).decode
_NOT_PLAIN = re.compile(r"[^a-z0-9]")


class CallbackStatement(Struct, frozen=True, kw_only=True):
    """What a body reports. ``native_status`` None means that it only names a run to be read."""

    kind: RunKind
    run_id: str
    native_status: str | None
    flow_id: str | None = None
    task_key: str | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for bodies that say the same of the same run."""
        return f"{self.kind}:{self.run_id}:{(self.native_status or '').lower()}"


def template(*, workspace: str, flow_id: str, task_key: str) -> str:
    """Return the body of our own tasks, with the two variables that are known to work."""
    fields = {
        "workspace": workspace,
        "flow_id": flow_id,
        "task": task_key,
        "job_id": "$jobId",
        "job_status": "$jobStatus",
    }
    return msgspec.json.encode(fields).decode()


def is_test(body: bytes) -> bool:
    """True for the body with which the registrar tries whether the listener can be reached."""
    if _TEST_MARK not in body:
        return False  # nearly always, and without reading the body twice
    try:
        return TEST_FIELD in _fields(body)
    except PayloadError:
        return False


def read(body: bytes) -> CallbackStatement:
    """Return what a body says.

    Raises:
        PayloadError: neither JSON nor a form, or no usable id of a run; names the field.
    """
    if (statement := _read_own(body)) is not None:
        return statement
    fields = _fields(body)
    for kind, name in _RUN_IDS:
        if name in fields:
            tells_its_end = kind is not RunKind.PLAN_RUN
            return CallbackStatement(
                kind=kind,
                run_id=_run_id(kind, fields, name),
                native_status=_status(fields) if tells_its_end else None,
                flow_id=_id_or_none(fields, "flowid"),
                task_key=_id_or_none(fields, "task"),
            )
    raise PayloadError("the body names no run: expected job_id, flow_run_id or plan_run_id")


class _OwnBody(Struct, gc=False, forbid_unknown_fields=True):
    """What the template of our own tasks becomes."""

    workspace: str
    flow_id: RunIdText
    task: RunIdText
    job_id: NumberedId
    job_status: Annotated[str, Meta(pattern=_WORDS.pattern)]


_decode_own = msgspec.json.Decoder(_OwnBody).decode


def _read_own(body: bytes) -> CallbackStatement | None:
    """Return what a task of ours says, as nearly all callbacks do; None: read it as any other."""
    try:
        own = _decode_own(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return CallbackStatement(
        kind=RunKind.JOB_GROUP,
        run_id=own.job_id,
        native_status=own.job_status,
        flow_id=own.flow_id,
        task_key=own.task,
    )


def _fields(body: bytes) -> dict[str, object]:
    stripped = body.strip()
    if stripped.startswith(b"{"):
        try:
            decoded = _decode_object(stripped)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise PayloadError("the body begins like JSON and is not JSON") from exc
        return _plain(decoded)
    try:
        text = stripped.decode()
        pairs = parse_qsl(text, strict_parsing=True, max_num_fields=_FORM_FIELDS)
    except ValueError as exc:
        raise PayloadError("the body is neither a JSON object nor a form") from exc
    return _plain(dict(pairs))


def _plain(fields: Mapping[str, object]) -> dict[str, object]:
    plain: dict[str, object] = {}
    for name, value in fields.items():
        # The test field keeps its name, so that no user's field can be taken for it.
        plain.setdefault(name if name == TEST_FIELD else _plain_name(name), value)
    return plain


@lru_cache(_NAMES_KEPT)
def _plain_name(name: str) -> str:
    lowered = name.lower().replace("_", "")
    # Few names have anything else, and a search is cheaper than a replacement.
    is_plain = lowered.isascii() and lowered.isalnum()
    return lowered if is_plain else _NOT_PLAIN.sub("", lowered)


def _run_id(kind: RunKind, fields: Mapping[str, object], name: str) -> str:
    text = _id(fields, name)
    if not is_id_of(kind, text):
        raise PayloadError(f"{name} is not the id of a {kind}; was its variable replaced?")
    return text


def _id(fields: Mapping[str, object], name: str) -> str:
    value = fields[name]
    text = value if isinstance(value, str) else ""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _IDS_END:
        text = str(value)
    if not is_run_id(text):
        raise PayloadError(f"{name} is not an id; was its variable replaced?")
    return text


def _id_or_none(fields: Mapping[str, object], name: str) -> str | None:
    """Only our own template means an id by these names; a user may have typed anything there."""
    try:
        return _id(fields, name) if fields.get(name) is not None else None
    except PayloadError:
        return None


def _status(fields: Mapping[str, object]) -> str | None:
    for name in _STATUSES:
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not _WORDS.fullmatch(value):
            raise PayloadError(f"{name} is not a status word; was its variable replaced?")
        return value
    return None


def run_of(callback: StoredCallback) -> RunKey:
    return RunKey(callback.workspace, callback.kind, callback.run_id)


def observations_of(callbacks: Sequence[StoredCallback]) -> list[Observation]:
    return [observation_of(callback) for callback in callbacks]


def is_failure(observation: Observation) -> bool:
    return status_of(observation.native_status) is Status.FAILED


def ended(
    observations: Sequence[Observation], outcomes: Sequence[ObservationOutcome]
) -> list[Observation]:
    """Return the ends that are new; what they lack is read later."""
    return [
        observation
        for observation, outcome in zip(observations, outcomes, strict=True)
        if outcome is ObservationOutcome.CHANGED
        and (status := status_of(observation.native_status)) is not None
        and status.is_terminal
    ]


def observation_of(callback: StoredCallback) -> Observation:
    """Return what a callback reports, as an observation of its run."""
    is_of_a_flow = callback.flow_id is not None and callback.kind is not RunKind.PLAN_RUN
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=callback.flow_id or "") if is_of_a_flow else None
    return Observation(
        key=run_of(callback),
        source=Source.CALLBACK,
        observed_at=callback.received_at,
        native_status=callback.native_status,
        pipeline=pipeline,
        only_of_flow=callback.task_flow_id,
        inbox_id=callback.id or None,
    )
