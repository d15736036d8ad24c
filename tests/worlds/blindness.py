"""When a part of a world cannot be followed, by when that must be reported, and until when. Pure.

A workspace that refuses what it showed before, or leaves out what must be there, cannot be
followed: nothing more needs to be known, but that much must be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from tests.worlds.allowances import (
    POLL,
    UNREACHABLE_FOR_SECONDS,
    due,
    return_seconds,
    unknown_by,
)
from tests.worlds.impaired import Impaired
from tests.worlds.impairments import Hiding, ListName, QueryKind, ShortList, Span, Withdrawal
from tests.worlds.script import NEVER, RunKind, World

UNREACHABLE = "workspace_unreachable"
UNSHARED = "pipelines_unshared"
_SLACK_SECONDS = 25.0
_OF_JOB_GROUPS = frozenset({RunKind.JOB_GROUP, RunKind.FLOW_RUN})
_OF_PLAN_RUNS = frozenset({RunKind.PLAN_RUN})
RUN_LISTS = {ListName.JOB_GROUPS: _OF_JOB_GROUPS, ListName.PLAN_RUNS: _OF_PLAN_RUNS}
# How long it may take until the next request shows it; a row is missed for sure when two lack it.
_REQUESTED_SECONDS = {
    ListName.JOB_GROUPS: POLL.idle_seconds,
    ListName.PLAN_RUNS: POLL.idle_seconds,
    ListName.FLOWS: 2 * POLL.names_seconds,
    ListName.PLANS: 2 * POLL.names_seconds,
    ListName.SCHEDULES: 2 * POLL.schedules_seconds,
}
_VANISHED_TOGETHER = 3  # fewer active runs may have been deleted
_UNSHARED_FOR_SECONDS = 60.0  # of the rule about flows that are hidden by rights, by default
_DENIED_SECONDS = 2 * POLL.reconcile_seconds  # two reconciliations deny a run


class Blindness(Struct, frozen=True, kw_only=True):
    """A span in which something cannot be followed.

    ``reported_within`` is how long it may take until an alert says so, of one of ``rules``; None:
    none is owed. ``kinds`` are the runs whose state is unknown from then on, of ``flows`` only.
    """

    text: str
    span: Span
    recovered_at: float  # from then on all of it can be known again
    reported_within: float | None
    kinds: frozenset[RunKind] = frozenset()
    observed_within: float = POLL.idle_seconds  # until then it may count as confirmed
    hides_runs: bool = False
    hides_schedules: bool = False
    hides_pipelines: bool = False
    flows: frozenset[int] | None = None  # these only; None: all
    rules: frozenset[str] = frozenset({UNREACHABLE})


def blindnesses(world: World) -> list[Blindness]:
    """Return everything that cannot be followed for a while or for good."""
    return [
        *(_of_withdrawal(withdrawal) for withdrawal in world.withdrawals),
        *(_of_short_list(world, short) for short in world.short_lists),
        *(
            _of_vanished(world, hiding)
            if hiding.flows is None
            else _of_flows(world, hiding, hiding.flows)
            for hiding in world.hidings
        ),
        *_of_other_person(world),
        *_of_clock(world),
    ]


def due_report(part: Blindness, down: Sequence[Span]) -> float:
    """Return by when an alert must say that this cannot be followed; never where none is owed.

    ``down`` is when the workspace or the daemon is, or what is to be missed cannot be listed.
    """
    if part.reported_within is None:
        return NEVER
    at = due(part.span.begin, part.reported_within, down)
    return at if at < part.span.end else NEVER


def unknown_from(part: Blindness, down: Sequence[Span]) -> float:
    """Return from when on the runs must be shown as unknown."""
    return unknown_by(part.span.begin + part.observed_within, down)


def blind_spans(world: World, stops: Sequence[Span]) -> list[Span]:
    """Return when runs need not become known, whatever flow they are of."""
    return [
        *world.outages,
        *stops,
        *(_unknown(part) for part in blindnesses(world) if part.hides_runs and part.flows is None),
    ]


def hidden_spans(world: World, flow: int) -> list[Span]:
    """Return when the runs of a flow, and the flow itself, cannot be read."""
    return [
        _unknown(part)
        for part in blindnesses(world)
        if part.flows is not None and flow in part.flows
    ]


def unlisted_spans(world: World) -> list[Span]:
    """Return when the deletion of a flow or plan need not become known."""
    return [_unknown(part) for part in blindnesses(world) if part.hides_pipelines]


def unscheduled_spans(world: World) -> list[Span]:
    """Return when the schedules cannot be read."""
    return [_unknown(part) for part in blindnesses(world) if part.hides_schedules]


def _unknown(part: Blindness) -> Span:
    return Span(part.span.begin, part.recovered_at)


def _of_withdrawal(withdrawal: Withdrawal) -> Blindness:
    lists = withdrawal.lists
    kinds: frozenset[RunKind] = frozenset()
    for name, own in RUN_LISTS.items():
        kinds |= own if name in lists else frozenset()
    first = min(_REQUESTED_SECONDS[name] for name in lists)
    return Blindness(
        text=f"{', '.join(sorted(lists))} refused with {withdrawal.refusal}",
        span=withdrawal.span,
        recovered_at=withdrawal.span.end + return_seconds(withdrawal.span),
        reported_within=first + UNREACHABLE_FOR_SECONDS + _SLACK_SECONDS,
        kinds=kinds,
        hides_runs=bool(kinds),
        hides_schedules=ListName.SCHEDULES in lists,
        hides_pipelines=bool(lists & {ListName.FLOWS, ListName.PLANS}),
    )


def _of_short_list(world: World, short: ShortList) -> Blindness:
    is_of_runs = short.list_name in RUN_LISTS
    requested = _REQUESTED_SECONDS[short.list_name]
    missed_from = NEVER if is_of_runs else _missed_from(world, short)
    due_at = missed_from + requested * 1.1 + UNREACHABLE_FOR_SECONDS + _SLACK_SECONDS
    return Blindness(
        text=f"{short.list_name} lacks rows in {', '.join(sorted(short.queries))}",
        span=short.span,
        recovered_at=short.span.end + (POLL.relist_seconds if is_of_runs else requested) * 1.1,
        reported_within=due_at - short.span.begin if due_at < short.span.end else None,
        hides_runs=is_of_runs,
        hides_schedules=short.list_name is ListName.SCHEDULES,
        hides_pipelines=short.list_name in (ListName.FLOWS, ListName.PLANS),
    )


def _missed_from(world: World, short: ShortList) -> float:
    """Return from when on something of the list is missing that was there before, and stays.

    A flow that is hidden as well is not missed before it can be read again.
    """
    pipelines = world.flows if short.list_name is ListName.FLOWS else world.plans
    ids = [pipeline.id for pipeline in pipelines if pipeline.deleted_at == NEVER]
    if short.list_name is ListName.SCHEDULES:
        ids = [schedule.id for schedule in world.schedules]
    impaired = Impaired(world)

    def is_missed(at: float) -> bool:
        present = [({"id": id_}, 0.0, 0.0) for id_ in ids if not impaired.is_hidden(id_, at)]
        return len(impaired.kept(short.list_name, QueryKind.ALL, present, at)) < len(present)

    changes = sorted({short.span.begin, *(hiding.span.end for hiding in world.hidings)})
    inside = (at for at in changes if short.span.begin <= at < short.span.end)
    return next((at for at in inside if is_missed(at)), NEVER)


def _of_vanished(world: World, hiding: Hiding) -> Blindness:
    is_owed = is_missed(world, hiding)
    return Blindness(
        text=f"every run is hidden, and refused by id with {hiding.refusal}",
        span=hiding.span,
        recovered_at=hiding.span.end + POLL.relist_seconds * 1.1,
        reported_within=_DENIED_SECONDS * 1.1 + UNREACHABLE_FOR_SECONDS + _SLACK_SECONDS
        if is_owed
        else None,
        kinds=_OF_JOB_GROUPS if is_owed else frozenset(),
        observed_within=POLL.reconcile_seconds * 1.1,
        hides_runs=True,
    )


def _of_flows(world: World, hiding: Hiding, flows: frozenset[int]) -> Blindness:
    """Return what follows from flows that are hidden by rights: each is missed in their list."""
    listed = POLL.names_seconds * 1.1  # by the first list without it, which its own read confirms
    down = [*world.outages, *world.stops, *_without_list_of_flows(world)]
    is_listed = due(0.0, listed, down) <= hiding.span.begin
    # What another person does not see is no right that was lost: it must be missed before.
    is_of_person = due(hiding.span.begin, listed, down) <= world.other_person_from
    is_left = all(flow.deleted_at == NEVER for flow in world.flows if flow.id in flows)
    is_owed = is_listed and is_of_person and is_left
    is_all = flows >= {flow.id for flow in world.flows}
    return Blindness(
        text=f"flow {sorted(flows)} is hidden, and refused by id with {hiding.refusal}",
        span=hiding.span,
        recovered_at=hiding.span.end + POLL.relist_seconds * 1.1,
        reported_within=listed + _UNSHARED_FOR_SECONDS + _SLACK_SECONDS if is_owed else None,
        kinds=_OF_JOB_GROUPS if is_owed else frozenset(),
        observed_within=listed,
        hides_runs=True,
        flows=flows,
        rules=frozenset({UNREACHABLE, UNSHARED} if is_all else {UNSHARED}),
    )


def _without_list_of_flows(world: World) -> list[Span]:
    """Return when a flow cannot be missed in the list of flows."""
    parts = [
        *(_of_withdrawal(each) for each in world.withdrawals),
        *(_of_short_list(world, each) for each in world.short_lists),
    ]
    return [_unknown(part) for part in parts if part.hides_pipelines]


def is_missed(world: World, hiding: Hiding) -> bool:
    """True where enough active runs were shown for long enough to be missed when all is hidden.

    A daemon that was down or refused meanwhile has never seen them, and nothing shows that they
    are there.
    """
    refused = [withdrawal.span for withdrawal in world.withdrawals]
    at, down = hiding.span.begin, [*world.outages, *world.stops, *refused]
    followed = [
        due(group.shown_from, 2 * POLL.idle_seconds, down)
        <= at
        < min(group.end_shown_from, group.deleted_at)
        for group in world.job_groups
    ]
    return sum(followed) >= _VANISHED_TOGETHER


def _of_other_person(world: World) -> Iterator[Blindness]:
    if world.other_person_from < NEVER:
        yield Blindness(
            text="the token is that of another person",
            span=Span(world.other_person_from, NEVER),
            recovered_at=NEVER,
            reported_within=None,
            hides_schedules=True,
        )


def _of_clock(world: World) -> Iterator[Blindness]:
    """Yield when changes may lie behind the watermark, because the clock was set back."""
    clock_set = world.workspace_clock_set
    if clock_set is not None and clock_set.seconds < 0:
        span = Span(clock_set.at, clock_set.at - clock_set.seconds)
        yield Blindness(
            text=f"the workspace's clock is set back by {-clock_set.seconds:.0f} s",
            span=span,
            recovered_at=span.end + POLL.relist_seconds * 1.1,
            reported_within=None,
            hides_runs=True,
        )
