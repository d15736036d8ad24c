"""The faults of the workspace: each by its name, and how it is requested.

A fault is requested in a few words, such as ``latency=0.2,status_500=0.05,library_rows=bare``.
All chances depend on the seed: the same requests in the same order meet the same faults. Seconds
are the clock's; the ``speed`` of work does not divide them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from monitor.catalogue.operations import operation

_DAY_SECONDS = 86_400.0
_YEAR_SECONDS = 365 * _DAY_SECONDS
_BETWEEN = "+"  # names of operations, where one fault takes several


class FaultError(ValueError):
    """The name is no fault, or its value does not fit; the message lists the faults."""


def _ratio(of: str, description: str) -> Meta:
    extra = {"takes": f"0 to 1 of {of}", "alone": "0.1"}
    return Meta(ge=0.0, le=1.0, description=description, extra=extra)


def _seconds(description: str, alone: str | None = None) -> Meta:
    extra = {"takes": "seconds", "alone": alone}
    return Meta(ge=0.0, le=_DAY_SECONDS, description=description, extra=extra)


def _other(description: str, takes: str, alone: str | None) -> Meta:
    return Meta(description=description, extra={"takes": takes, "alone": alone})


def _switch(description: str) -> Meta:
    return _other(description, "true or false", "true")


class WorldOptions(Struct, kw_only=True):
    """Faults and habits of the workspace; all of them may be changed while it runs.

    What a name means stands beside it, for `table` to show.
    """

    # Answers below /v4.
    latency: Annotated[
        float, _seconds("every request waits so long before it is served", "0.2")
    ] = 0.0
    latency_jitter: Annotated[
        float, _seconds("and at most so much later again, by chance", "0.2")
    ] = 0.0
    answer_latency: Annotated[
        float, _seconds("every answer, once made, is so long on its way and grows old", "0.2")
    ] = 0.0
    status_429: Annotated[
        float, _ratio("requests", "refused, with the headers that say when to return")
    ] = 0.0
    retry_after_seconds: Annotated[float, _seconds("the wait that status_429 asks for")] = 1.0
    status_500: Annotated[float, _ratio("requests", "answered 500, and not served")] = 0.0
    status_503: Annotated[float, _ratio("requests", "answered 503, and not served")] = 0.0
    html_error: Annotated[
        float, _ratio("requests", "answered 502 with an HTML page, and not served")
    ] = 0.0
    html_login: Annotated[
        float, _ratio("requests", "answered 200 with an HTML page, and not served")
    ] = 0.0
    dropped: Annotated[
        float, _ratio("requests", "served, then the connection closed without answer")
    ] = 0.0
    truncated: Annotated[
        float, _ratio("requests", "served, then the second half of the JSON left out")
    ] = 0.0
    broken_off: Annotated[
        float, _ratio("requests", "served, then the connection closed in the middle of the body")
    ] = 0.0
    only: Annotated[
        frozenset[str],
        _other("the operations that all faults above are limited to", "names with +", None),
    ] = frozenset()
    lose: Annotated[
        dict[str, float],
        _other(
            "an operation is a route not found from so many seconds after the start",
            "name@seconds",
            None,
        ),
    ] = msgspec.field(default_factory=dict)
    renewal: Annotated[
        float | None,
        _other(
            "from so many seconds after the start only the operations of edition PC are left",
            "seconds",
            "0",
        ),
    ] = None
    specification: Annotated[
        Literal["filtered", "whole"],
        _other(
            "the served document names all operations, whatever the edition has",
            "filtered or whole",
            "whole",
        ),
    ] = "filtered"
    # What lists show.
    library_rows: Annotated[
        Literal["with_flow", "bare"],
        _other(
            "rows of the job library show neither flow nor flow run", "with_flow or bare", "bare"
        ),
    ] = "with_flow"
    poison_row: Annotated[
        Literal["none", "types", "id", "text"],
        _other(
            "the job library's first row, always: wrong types, an id that is none, or a text",
            "none, types, id or text",
            "types",
        ),
    ] = "none"
    late_rows: Annotated[
        float, _ratio("runs", "job groups and plan runs, in lists only late_seconds after a change")
    ] = 0.0
    late_seconds: Annotated[float, _seconds("how late late_rows are")] = 120.0
    missing_rows: Annotated[
        float, _ratio("objects", "in no list and no count, although their ids still show them")
    ] = 0.0
    page_cap: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000,
            description="rows that a page has at most, whatever its limit says; 0 is no cap",
            extra={"takes": "rows", "alone": "37"},
        ),
    ] = 0
    shifted_pages: Annotated[
        float, _ratio("pages", "after the first: rows have moved since the one before")
    ] = 0.0
    page_shift: Annotated[
        int,
        Meta(
            ge=-1_000,
            le=1_000,
            description="rows that shifted_pages hide, or repeat below 0; 0 is one, by chance",
            extra={"takes": "rows", "alone": None},
        ),
    ] = 0
    shuffled_pages: Annotated[float, _ratio("pages", "with their rows in another order")] = 0.0
    forbidden_snapshots: Annotated[
        bool, _switch("the id that a plan run names answers 403 when it is read as a plan")
    ] = False
    late_plan_results: Annotated[
        bool, _switch("the record of a plan names what a run of it started only after that run")
    ] = False
    # What happens in the workspace.
    clock_offset_seconds: Annotated[
        float,
        Meta(
            ge=-_YEAR_SECONDS,
            le=_YEAR_SECONDS,
            description="how far the workspace's clock is ahead; below 0 it is behind",
            extra={"takes": "seconds", "alone": "300"},
        ),
    ] = 0.0
    deleted_runs: Annotated[float, _ratio("runs", "deleted while they are active")] = 0.0
    stuck_runs: Annotated[
        float, _ratio("job groups", "silent in the middle of their work for stuck_seconds")
    ] = 0.0
    stuck_seconds: Annotated[
        float, _seconds("how long stuck_runs show neither heartbeat nor progress")
    ] = 3_600.0
    schedules_skipped: Annotated[
        float, _ratio("times", "at which a schedule should fire, and does not")
    ] = 0.0
    schedules_late: Annotated[
        float,
        _ratio("times", "at which a schedule should fire, and does schedules_late_seconds later"),
    ] = 0.0
    schedules_late_seconds: Annotated[float, _seconds("how late schedules_late are")] = 1_800.0
    unfit_values: Annotated[
        float, _ratio("values", "not of their column's type, in what later runs make")
    ] = 0.0
    samples_per_minute: Annotated[
        float,
        Meta(
            ge=0.0,
            le=60_000.0,
            description="job groups that only sample or refresh; speed does not multiply it",
            extra={"takes": "rate", "alone": "60"},
        ),
    ] = 0.0
    connections_down: Annotated[
        float, _ratio("connections", "whose status is another than SUCCESS")
    ] = 0.0
    # Callbacks of the flows' tasks.
    callback_lost: Annotated[float, _ratio("callbacks", "never sent")] = 0.0
    callback_duplicate: Annotated[float, _ratio("callbacks", "sent twice")] = 0.0
    callback_late: Annotated[float, _ratio("callbacks", "sent callback_late_seconds later")] = 0.0
    callback_late_seconds: Annotated[float, _seconds("how late callback_late is")] = 30.0
    callback_reordered: Annotated[
        float, _ratio("callbacks", "held back until the next one was sent, a minute at most")
    ] = 0.0
    callback_contradicting: Annotated[
        float, _ratio("callbacks", "says Failed where it is Complete, and Complete where it is not")
    ] = 0.0
    callback_unknown_run: Annotated[
        float, _ratio("callbacks", "followed by one for a run that does not exist")
    ] = 0.0
    callback_wrong_secret: Annotated[
        float,
        _ratio(
            "callbacks",
            "followed by a contradicting one with other headers, or another URL where none are",
        ),
    ] = 0.0
    callback_wrong_signature: Annotated[
        float, _ratio("callbacks", "followed by a contradicting one that another key has signed")
    ] = 0.0
    # Answers of the token endpoint, beside /v4.
    token_answer_lost: Annotated[
        float, _ratio("refreshes", "done, then the connection closed without answer")
    ] = 0.0
    token_answer_latency: Annotated[
        float, _seconds("every refresh is done at once, and answered so much later", "30")
    ] = 0.0
    token_refused: Annotated[
        float, _ratio("refreshes", "answered 400 invalid_grant, and not done")
    ] = 0.0
    token_status_503: Annotated[float, _ratio("refreshes", "answered 503, and not done")] = 0.0
    token_reuse_revokes: Annotated[
        bool, _switch("a refresh token that is used a second time revokes its pair")
    ] = False
    # Behaviour that nothing published says.
    plan_runs_name_plans: Annotated[
        bool, _switch("a plan run shows the plan's id, not its snapshot's")
    ] = False
    snapshot_every_plan_run: Annotated[
        bool, _switch("a plan run makes a snapshot although the plan was not edited")
    ] = False
    samples_fire_webhooks: Annotated[bool, _switch("samples send callbacks too")] = False
    cancels_fire_webhooks: Annotated[
        bool, _switch("tasks for the end of any kind are called for a cancel too")
    ] = False
    cancels_fail: Annotated[bool, _switch("canceling a plan run leaves its job groups running")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault as people read about it. ``alone`` is what its name without a value means."""

    name: str
    takes: str
    alone: str | None
    description: str


def table() -> tuple[Fault, ...]:
    """Return every fault, those of one kind side by side."""
    return tuple(_FAULTS.values())


def parse_faults(specs: Iterable[str], options: WorldOptions | None = None) -> WorldOptions:
    """Return ``options``, or a healthy workspace, with the faults that ``specs`` name.

    Each spec is ``name=value`` or ``name``, or several with commas between. A later value
    replaces an earlier one; operations in ``only`` and ``lose`` are added.

    Raises:
        FaultError: a name is no fault, or a value does not fit.
    """
    changed = msgspec.structs.replace(options or WorldOptions())
    for pair in (pair.strip() for spec in specs for pair in spec.split(",") if pair.strip()):
        name, sign, value = (part.strip() for part in pair.partition("="))
        fault = _FAULTS.get(name)
        if fault is None:
            raise FaultError(f"there is no fault {name!r}; {_known()}")
        if not sign and fault.alone is None:
            raise FaultError(f"fault {name!r} needs a value: {fault.takes}; {_known()}")
        try:
            setattr(changed, name, _read(changed, name, value if sign else fault.alone or ""))
        except ValueError as exc:
            raise FaultError(
                f"fault {name!r} cannot be {value!r}: it takes {fault.takes} ({exc}); {_known()}"
            ) from exc
    return changed


def _read(options: WorldOptions, name: str, value: str) -> Any:
    if name == "only":
        return options.only | {_operation(item) for item in value.split(_BETWEEN)}
    if name == "lose":
        losses = (item.partition("@") for item in value.split(_BETWEEN))
        return options.lose | {
            _operation(lost): _seconds_of(after or "0") for lost, _, after in losses
        }
    if name == "renewal":
        return _seconds_of(value)
    return msgspec.convert(value, _TYPES[name], strict=False)


def _operation(name: str) -> str:
    try:
        return operation(name).operation_id
    except KeyError as exc:
        raise ValueError(f"{name!r} is no operation of the API") from exc


def _seconds_of(text: str) -> float:
    limited = Annotated[float, Meta(ge=0.0, le=_YEAR_SECONDS)]
    seconds: float = msgspec.convert(text, limited, strict=False)
    return seconds


def _known() -> str:
    return f"known faults: {', '.join(_FAULTS)}"


def _fault(name: str, annotation: Any) -> Fault:
    meta = next(item for item in annotation.__metadata__ if isinstance(item, Meta))
    extra = meta.extra or {}
    return Fault(
        name=name,
        takes=extra["takes"],
        alone=extra["alone"],
        description=meta.description or "",
    )


_TYPES = {field.name: field.type for field in msgspec.structs.fields(WorldOptions)}
_FAULTS = {name: _fault(name, annotation) for name, annotation in _TYPES.items()}
