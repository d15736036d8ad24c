"""A daemon that holds nothing shows and instructs the shard of another one, over PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from monitor.app.hosted.instructions import (
    Acknowledge,
    AddSilence,
    InstructedShard,
    execute,
)
from monitor.bus.shards import ShardRecord
from monitor.model.actions import Rerun
from monitor.model.alerts import Silence
from monitor.model.errors import BusUnavailableError, NoSuchObjectError
from monitor.model.events import AlertEvent, EventType
from monitor.model.live_state import Reachability
from monitor.model.runs import RunKey, RunKind
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.web.health import ClusterProblems
from monitor.web.views.daemon.cluster import without_holder
from tests.app.eventually import eventually
from tests.app.mirror_pair import CLOCK, NIGHTLY, ORDERS, Pair, mirrored_pair, silence
from tests.bus.postgres_stores import LONG_SECONDS
from tests.outputs.alert_histories import alert


@pytest.fixture
async def pair(empty_database: str) -> AsyncIterator[Pair]:
    async with mirrored_pair(empty_database) as made:
        yield made


async def test_a_mirror_shows_what_the_holder_has_stored(pair: Pair) -> None:
    """Active runs, pipelines and when they were confirmed, with holder and time of the read."""
    before = await pair.sales()
    assert before.live.active_runs() == ()
    await pair.holder.store()
    sales = await pair.sales()
    assert [active.run.key.id for active in sales.live.active_runs("sales")] == ["1"]
    assert sales.live.label("sales", ORDERS) == "orders"
    status = sales.live.workspace("sales")
    assert status is not None
    own = pair.holder.live_state.workspaces["sales"]
    assert (status.reachability, status.known_at) == (Reachability.REACHABLE, own.known_at)
    assert (status.edition, status.schedules) == ("PC", (NIGHTLY,))
    assert sales.live.confirmed() == pair.holder.live_state.confirmed
    assert sales.mirrored is not None
    mirrored = sales.mirrored()
    assert (mirrored.holder, mirrored.reason) == ("north", None)
    assert mirrored.read_at is not None
    assert pair.mirrors.shown() is pair.mirrors.shown()
    assert pair.mirrors.problems() == ClusterProblems()
    assert [line.is_well for line in await pair.mirrors.check("cluster")] == [True]


async def test_a_silence_is_made_and_ended_by_the_holder(pair: Pair) -> None:
    """Both know it then; the mirror reads it back from the store."""
    made = silence("5d3c")
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        await sales.alerting.add_silence(made)
        assert pair.holder.engine.snapshot().silences == (made,)
        assert (await pair.sales()).alerting.snapshot().silences == (made,)
        assert await sales.alerting.expire_silence("5d3c")
        assert not await sales.alerting.expire_silence("5d3c")


async def test_a_silence_that_is_asked_for_again_stays_ended(pair: Pair) -> None:
    """As after the death of a holder that had made it, and not said so yet."""
    made = silence("77aa")
    order = AddSilence(silence=made)
    await execute(order, pair.holder.shown())
    assert await pair.holder.engine.expire_silence(made.id)
    assert (await execute(order, pair.holder.shown())).done
    [kept] = pair.holder.engine.snapshot().silences
    assert kept.ends_at <= CLOCK.now()


async def test_an_acknowledgement_by_two_daemons_is_one_event(pair: Pair) -> None:
    """Asked for at a daemon without the shard, and executed again after the death of a holder."""
    await pair.holder.fail()
    (alert,) = pair.holder.engine.snapshot().alerts
    until = CLOCK.now() + timedelta(hours=4)
    sales = await pair.sales()
    named = (alert.fingerprint, alert.starts_at)
    async with asyncio.timeout(LONG_SECONDS):
        assert await sales.alerting.acknowledge(*named, "ann", "on it", until)
    again = Acknowledge(
        fingerprint=named[0], starts_at=named[1], author="ann", comment="on it", until=until
    )
    assert (await execute(again, pair.holder.shown())).done
    (shown,) = (await pair.sales()).alerting.snapshot().alerts
    assert shown.acknowledged is not None
    assert (shown.acknowledged.author, shown.acknowledged.until) == ("ann", until)
    events = [stored.event for stored in await pair.holder.bus.events(after=0, limit=100)]
    words = [event.type for event in events if isinstance(event, AlertEvent)]
    assert words == [EventType.ALERT_FIRED, EventType.ALERT_ACKNOWLEDGED]


async def test_answers_of_the_holder_come_back(pair: Pair) -> None:
    """Sentences, rows and refusals are the same as if the shard were held here."""
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        tracked = await sales.requests.track("sales", RunKind.JOB_GROUP, "17")
        assert tracked == "following sales:job_group:17"
        dropped = await sales.requests.untrack("sales", RunKind.JOB_GROUP, "17")
        assert dropped == "dropped sales:job_group:17"
        again = Rerun(kind=RunKind.JOB_GROUP, id="17", execution_id="e" * 16)
        started = await sales.requests.act("sales", again, CLOCK.now())
        assert started.run == RunKey("sales", RunKind.JOB_GROUP, "18")
        assert [action for action, _ in pair.holder.acted] == [again]
        with pytest.raises(NoSuchObjectError, match="denies"):
            await sales.requests.track("sales", RunKind.JOB_GROUP, "404")
        rows = await sales.requests.webhooks("sales", "sync", "7")
        assert rows == [{"workspace": "sales", "action": "sync", "flow": "7"}]
        assert (await sales.alerting.replay("mqtt", CLOCK.now())).sent == 3
        letters = await sales.alerting.process_letters("mqtt", LetterAction.RESEND, ("a", "b"))
        assert letters == LettersProcessed(output="mqtt", sent=1, missing=("b",), left=4)
        assert not await sales.alerting.acknowledge("9f86", CLOCK.now(), "ann", "", None)
        assert await sales.alerting.preview("9f86") is None
        assert pair.south.store.elsewhere is not None
        asked = InstructedShard("sales", pair.south.store.elsewhere, on_answer=lambda: None)
        (preview,) = await asked.previews(alert(1))
        assert preview.subject == f"about {alert(1).fingerprint}"


async def test_an_instruction_is_executed_once_though_its_outcome_cannot_be_stored(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder keeps the outcome until the store takes it."""
    finish, refused = pair.holder.instructions.finish, list[bytes]()

    async def refuse_first(number: int, outcome: bytes, *, timeout_seconds: float) -> None:
        if not refused:
            refused.append(outcome)
            raise BusUnavailableError("the database is away")
        assert outcome == refused[0]
        await finish(number, outcome, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(pair.holder.instructions, "finish", refuse_first)
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        tracked = await sales.requests.track("sales", RunKind.JOB_GROUP, "17")
    assert tracked == "following sales:job_group:17"
    assert (pair.holder.tracked, len(refused)) == (["17"], 1)


async def test_a_shard_that_was_lost_stays_shown_as_it_was(pair: Pair) -> None:
    """Its workspaces do not vanish while the store cannot be read: what is left is not all."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    assert pair.mirrors.shown()["sales"].mirrored is None
    pair.hosted = {}
    lost = pair.mirrors.shown()["sales"]
    assert lost.mirrored is not None
    assert lost.mirrored().holder is None
    status = lost.live.workspace("sales")
    assert status is not None
    assert status.reachability is Reachability.REACHABLE
    again = await pair.sales()
    assert again.mirrored is not None
    assert again.mirrored().holder == "north"


async def test_a_shard_that_was_never_viewed_is_shown_after_its_loss(pair: Pair) -> None:
    """In an outage of the database it is all that there is to show."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    watching = asyncio.create_task(pair.mirrors.run())
    await eventually(lambda: pair.mirrors._hosted_before == pair.hosted, why="not refreshed")
    pair.hosted = {}
    assert pair.mirrors.shown()["sales"].live.workspace("sales") is not None
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_requests_for_a_lost_shard_go_to_its_holder(pair: Pair) -> None:
    """Here its store is closed; the next daemon that holds it must learn of the silence."""

    async def closed(_: Silence) -> None:
        raise BusUnavailableError("the store is closed")

    shown = pair.holder.shown()
    alerting = msgspec.structs.replace(shown.alerting, add_silence=closed)
    pair.hosted = {"sales": replace(shown, alerting=alerting)}
    pair.mirrors.shown()
    pair.hosted = {}
    made = silence("08fe")
    async with asyncio.timeout(LONG_SECONDS):
        await pair.mirrors.shown()["sales"].alerting.add_silence(made)
    assert pair.holder.engine.snapshot().silences == (made,)


async def test_a_shard_that_leaves_while_others_are_read_stays_shown(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown as it was until it is read as another daemon's; at no time it is missing."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    assert pair.mirrors.shown()["sales"].mirrored is None
    read_states = pair.mirrors._read_states

    async def hand_over(records: Sequence[ShardRecord]) -> None:
        await read_states(records)
        pair.hosted = {}

    with monkeypatch.context() as patched:
        patched.setattr(pair.mirrors, "_read_states", hand_over)
        await pair.mirrors.refresh()
    left = pair.mirrors.shown()["sales"]
    assert left.mirrored is not None
    assert left.live.workspace("sales") is not None

    await pair.mirrors.refresh()
    mirror = pair.mirrors.shown()["sales"]
    assert mirror.mirrored is not None
    assert mirror.mirrored().holder == "north"
    assert mirror.live.workspace("sales") is not None


async def test_a_shard_that_no_configuration_has_is_shown_no_more(pair: Pair) -> None:
    """Its last states are no present, and that it has no holder is no problem."""
    await pair.holder.store()
    await pair.sales()
    await pair.north.store.define([])
    await pair.north.store.release("sales")

    async def is_gone() -> bool:
        pair.mirrors.expect_change()
        await pair.mirrors.refresh()
        return "sales" not in pair.mirrors.shown()

    await eventually(is_gone, why="a removed workspace is still shown")
    status = await pair.south.store.cluster()
    assert status is not None
    assert [shard.is_configured for shard in status.shards] == [False]
    assert without_holder(status) == []
