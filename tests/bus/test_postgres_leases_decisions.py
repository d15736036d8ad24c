"""What a daemon decides about leases, from any view of who is alive."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.bus.postgres.leases.lease import Lease, LeaseDeadline
from monitor.bus.postgres.leases.lease_decisions import (
    CLAIMED,
    HANDED_OVER,
    TAKEN_OVER,
    Claim,
    Forfeit,
    LeaseView,
    LivingDaemon,
    ReleaseUnused,
    ShardLease,
)

FIRST, SECOND = UUID(int=1), UUID(int=2)
SALES = ShardLease(number=1, name="sales", holder=None, incarnation=None, epoch=0, digest="")


def daemon(name: str, digest: str | None = "d", *, incarnation: UUID = FIRST) -> LivingDaemon:
    digests = {} if digest is None else {"sales": digest}
    return LivingDaemon(id=name, incarnation=incarnation, digests=digests)


def view(me: str, *daemons: LivingDaemon, incarnation: UUID = FIRST) -> LeaseView:
    return LeaseView(me=me, incarnation=incarnation, daemons=daemons)


def held_by(name: str, *, incarnation: UUID = FIRST, epoch: int = 3) -> ShardLease:
    return replace(SALES, holder=name, incarnation=incarnation, epoch=epoch, digest="d")


DAEMONS = st.lists(
    st.builds(
        daemon,
        st.sampled_from("abcde"),
        st.sampled_from(["d", "other", None]),
        incarnation=st.sampled_from([FIRST, SECOND]),
    ),
    unique_by=lambda daemon: daemon.id,
)
LEASES = st.builds(
    ShardLease,
    number=st.just(1),
    name=st.just("sales"),
    holder=st.sampled_from(["a", "b", "x", None]),
    incarnation=st.sampled_from([FIRST, SECOND]),
    epoch=st.integers(0, 5),
    digest=st.sampled_from(["", "d", "other"]),
)


@given(daemons=DAEMONS, lease=LEASES)
def test_of_daemons_with_one_view_at_most_one_claims(
    daemons: list[LivingDaemon], lease: ShardLease
) -> None:
    """With any holder and any daemons alive: two daemons never claim it both."""
    actions = [
        LeaseView(me=me.id, incarnation=me.incarnation, daemons=daemons).action(
            lease, hosted_epoch=None
        )
        for me in daemons
    ]

    assert sum(isinstance(action, Claim) for action in actions) <= 1


@given(daemons=DAEMONS, lease=LEASES)
def test_a_shard_of_a_living_daemon_is_not_claimed(
    daemons: list[LivingDaemon], lease: ShardLease
) -> None:
    """Only the holder itself may claim a shard whose holder is alive: to begin it again."""
    living = {(daemon.id, daemon.incarnation) for daemon in daemons}
    for me in daemons:
        of_another = (lease.holder, lease.incarnation) in living and lease.holder != me.id
        decided = view(me.id, *daemons, incarnation=me.incarnation)
        assert not (of_another and decided.action(lease, hosted_epoch=None) is not None)


@given(daemons=DAEMONS, lease=LEASES)
def test_a_defined_shard_without_a_holder_is_claimed(
    daemons: list[LivingDaemon], lease: ShardLease
) -> None:
    """A free shard that any living daemon defines has exactly one that claims it."""
    living = {(daemon.id, daemon.incarnation) for daemon in daemons}
    if (lease.holder, lease.incarnation) in living:
        return
    claims = [
        isinstance(
            view(me.id, *daemons, incarnation=me.incarnation).action(lease, hosted_epoch=None),
            Claim,
        )
        for me in daemons
    ]

    assert sum(claims) == any("sales" in daemon.digests for daemon in daemons)


@given(daemons=DAEMONS)
def test_a_shard_moves_only_to_an_equal_configuration(daemons: list[LivingDaemon]) -> None:
    """A holder hands its shard to a daemon with the same digest, and that one would keep it."""
    for me in daemons:
        successor = view(me.id, *daemons, incarnation=me.incarnation).successor("sales")
        if successor is not None:
            other = next(daemon for daemon in daemons if daemon.id == successor)
            assert other.digests["sales"] == me.digests["sales"]
            then = view(successor, *daemons, incarnation=other.incarnation)
            assert then.successor("sales") is None


@given(daemons=DAEMONS, digest=st.sampled_from(["d", "other"]))
def test_who_claims_a_free_shard_keeps_it(daemons: list[LivingDaemon], digest: str) -> None:
    """A claim is never followed by a handover while the same daemons are alive."""
    free = replace(SALES, epoch=4, digest=digest)
    for me in daemons:
        decided = view(me.id, *daemons, incarnation=me.incarnation)
        if isinstance(decided.action(free, hosted_epoch=None), Claim):
            assert decided.successor("sales") is None


@pytest.mark.parametrize(
    ("lease", "last_change"),
    [
        (SALES, CLAIMED),
        (replace(SALES, epoch=2, digest="d"), HANDED_OVER),
        (held_by("b"), TAKEN_OVER),
        (held_by("a", incarnation=SECOND), CLAIMED),
    ],
)
def test_a_claim_says_how_the_shard_came(lease: ShardLease, last_change: str) -> None:
    """Never held, handed over, taken from a dead daemon, or from this one's former life."""
    assert view("a", daemon("a")).action(lease, hosted_epoch=None) == Claim(
        lease=lease, last_change=last_change
    )


def test_a_hosted_shard_with_another_epoch_is_forfeited() -> None:
    """The row decides: a bus of an older epoch is not this daemon's any more."""
    lease = held_by("a", epoch=4)
    assert view("a", daemon("a")).action(lease, hosted_epoch=4) is None
    assert view("a", daemon("a")).action(lease, hosted_epoch=3) == Forfeit(lease=lease)
    assert view("a", daemon("a"), daemon("b")).action(held_by("b"), hosted_epoch=3) == Forfeit(
        lease=held_by("b")
    )


def test_a_row_that_nothing_hosts_is_released_to_who_should_have_it() -> None:
    """A draining daemon, which would hold nothing, names free what its row still says."""
    lease = held_by("a")
    decided = view("a", daemon("a", None), daemon("b"))
    assert decided.action(lease, hosted_epoch=None) == ReleaseUnused(lease=lease)


def test_the_last_digest_goes_before_another_one() -> None:
    """A daemon with another configuration claims a shard only when none has the former one."""
    free = replace(SALES, epoch=2, digest="d")
    for other in ("b", "c", "e", "f"):
        both = (daemon("a"), daemon(other, "other"))
        assert isinstance(view("a", *both).action(free, hosted_epoch=None), Claim)
        assert view(other, *both).action(free, hosted_epoch=None) is None
    alone = view("b", daemon("b", "other"))
    assert isinstance(alone.action(free, hosted_epoch=None), Claim)


class Boottime:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@given(
    st.lists(st.tuples(st.floats(0, 20), st.floats(0, 5), st.booleans()), max_size=20),
    st.floats(2, 60),
)
def test_the_deadline_is_never_later_than_the_expiry_of_the_server(
    exchanges: list[tuple[float, float, bool]], lease_seconds: float
) -> None:
    """Whatever the delays of renewals, and whichever of them are lost, this process ends first."""
    boottime = Boottime()
    deadline = LeaseDeadline(lease_seconds=lease_seconds, boottime=boottime)
    expires_at = 0.0
    for wait, delay, is_answered in exchanges:
        boottime.seconds += wait
        sent_at = boottime.seconds
        expires_at = max(expires_at, sent_at + delay / 2 + lease_seconds)
        boottime.seconds += delay
        if is_answered:
            deadline.renewed(sent_at)
        assert boottime.seconds + deadline.seconds_left() <= max(expires_at, boottime.seconds)
        assert deadline.has_passed() == (deadline.seconds_left() == 0.0)


def test_a_lost_lease_stays_lost() -> None:
    """A renewal does not bring back a shard whose loss was seen."""
    boottime = Boottime()
    deadline = LeaseDeadline(lease_seconds=9, boottime=boottime)
    losses: list[str] = []
    lease = Lease(
        shard="sales",
        number=1,
        holder="a",
        epoch=3,
        deadline=deadline,
        on_loss=lambda _lease, reason: losses.append(reason),
    )
    assert not lease.may_publish()
    deadline.renewed(100.0)
    assert lease.may_publish()
    boottime.seconds = 106.0
    assert not lease.may_publish()
    lease.lose("too late")
    lease.lose("again")
    deadline.renewed(106.0)

    assert not lease.may_publish()
    assert losses == ["too late"]
