"""Rendezvous hashing: every daemon computes the same, and little moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from monitor.bus.postgres.leases.rendezvous import best_daemon

NAMES = st.text("abcdefghij-0123456789", min_size=1, max_size=12)
SHARDS = st.lists(NAMES, min_size=1, max_size=40, unique=True)


@given(shards=SHARDS, daemons=st.lists(NAMES, min_size=1, max_size=8, unique=True), new=NAMES)
def test_a_daemon_that_comes_takes_only_what_is_its_own_now(
    shards: list[str], daemons: list[str], new: str
) -> None:
    """Whatever moves because a daemon came, moves to that daemon."""
    before = {shard: best_daemon(shard, daemons) for shard in shards}
    after = {shard: best_daemon(shard, {*daemons, new}) for shard in shards}

    assert {after[shard] for shard in shards if after[shard] != before[shard]} <= {new}


@given(shards=SHARDS, daemons=st.lists(NAMES, min_size=2, max_size=8, unique=True))
def test_a_daemon_that_goes_moves_only_its_own_shards(
    shards: list[str], daemons: list[str]
) -> None:
    """A shard of a daemon that stays, stays there."""
    gone, *rest = daemons
    for shard in shards:
        before = best_daemon(shard, daemons)
        assert before == gone or best_daemon(shard, rest) == before


@given(shard=NAMES, daemons=st.lists(NAMES, min_size=1, max_size=8, unique=True))
def test_every_daemon_computes_the_same(shard: str, daemons: list[str]) -> None:
    """The order in which a daemon knows the others changes nothing."""
    assert best_daemon(shard, daemons) == best_daemon(shard, list(reversed(daemons)))


def test_shards_spread_over_the_daemons() -> None:
    """Of a thousand shards each of four daemons has about a quarter."""
    daemons = [f"monitor-{number}" for number in range(4)]
    shares = Counter(best_daemon(f"workspace-{number}", daemons) for number in range(1_000))

    assert set(shares) == set(daemons)
    assert min(shares.values()) > 200


def test_without_daemons_a_shard_has_no_holder() -> None:
    """A shard that no daemon defines gets no holder."""
    assert best_daemon("sales", ()) is None
