"""Two daemons with one name in `storage.daemon`: never do both of them follow a workspace."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from monitor.bus.postgres.leases.lease import RENEWALS
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.processes import Watched
from tests.crash.cluster.member import ClusterAddresses, Member, MemberSettings
from tests.crash.cluster.networks import Network
from tests.crash.cluster.peers import process_of
from tests.crash.cluster.watches import AlertmanagerWatch, BrokerWatch
from tests.outputs.receiving import PostReceiver
from tests.postgres_server import PostgresServer

_LEASE_SECONDS = 6.0
_PATIENCE_SECONDS = 60.0
_TOLD_SECONDS = _LEASE_SECONDS / RENEWALS + 5  # a heartbeat, and the end of a process
_REFUSED = "storage.daemon: another daemon"


class Twins:
    """Two daemons that differ in their folders and ports only, and what each of them sends."""

    def __init__(
        self,
        members: dict[str, Member],
        watches: tuple[BrokerWatch, AlertmanagerWatch],
        subscriber: Subscriber,
    ) -> None:
        self.first, self.second = members["first"], members["second"]
        self._watches = watches
        self._subscriber = subscriber

    def sent(self, member: Member) -> list[float]:
        """Return when it has sent a state to the broker, or an alert."""
        broker, alertmanager = self._watches
        states = [*broker.published, *alertmanager.sent]
        return sorted(state.at for state in states if state.daemon == member.name)

    def received(self) -> list[str]:
        """Return which of them each state is of that a subscriber has received, in that order."""
        senders: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        for state in self._watches[0].published:
            senders[state.what, state.payload].append(state.daemon)
        return [
            those.popleft()
            for message in list(self._subscriber.messages)
            if (those := senders[message.topic, message.payload.decode()])
        ]

    async def until_sent(self, member: Member) -> None:
        await eventually(
            lambda: bool(self.sent(member)) and member.name in self.received(),
            why=lambda: member.process.log[-3000:],
            within_seconds=_PATIENCE_SECONDS,
        )


@asynccontextmanager
async def twins(folder: Path, postgres: PostgresServer, database: str) -> AsyncIterator[Twins]:
    """Yield two daemons that have not started, before a workspace in which much happens."""
    members: dict[str, Member] = {}

    def find_daemon(port: int, to: int) -> str | None:
        by_process = {
            member.process.process_id: name
            for name, member in members.items()
            if member.process.is_started
        }
        found = process_of(port, to=to, process_ids=by_process)
        return None if found is None else by_process[found]

    sandbox = fixture.sandbox()
    async with AsyncExitStack() as stack:
        watched = Watched(
            "acme", await stack.enter_async_context(fixture.started(sandbox)), sandbox.token
        )
        sandbox.open_for_work()
        broker = await stack.enter_async_context(keeping_broker(folder))
        broker_watch = BrokerWatch(broker.port, find_daemon=find_daemon)
        await stack.enter_async_context(broker_watch)
        subscriber = await stack.enter_async_context(Subscriber(broker.port))
        receiver = await stack.enter_async_context(PostReceiver())
        alertmanager_watch = AlertmanagerWatch(receiver.url, find_daemon=find_daemon)
        await stack.enter_async_context(alertmanager_watch)
        addresses = ClusterAddresses(
            broker=f"mqtt://127.0.0.1:{broker_watch.port}",
            alertmanager=alertmanager_watch.url,
            lease_seconds=_LEASE_SECONDS,
        )
        for name in ("first", "second"):
            network = await stack.enter_async_context(Network(postgres.port))
            own = folder / name
            own.mkdir()
            url = database.replace(f":{postgres.port}/", f":{network.port}/")
            settings = MemberSettings(
                own, name, watched, addresses=addresses, storage_url=url, daemon="north"
            )
            members[name] = Member(settings, [network])
            stack.push_async_callback(members[name].process.leave)
        yield Twins(members, (broker_watch, alertmanager_watch), subscriber)


@pytest.mark.parametrize("away", ["stopped", pytest.param("cut off", marks=pytest.mark.soak)])
async def test_of_two_daemons_with_one_name_one_publishes(
    tmp_path: Path, postgres: PostgresServer, empty_database: str, away: str
) -> None:
    """The second is refused while the first lives; one away for too long is fenced and ends."""
    async with twins(tmp_path, postgres, empty_database) as scenario:
        first, second = scenario.first, scenario.second
        await first.start()
        await scenario.until_sent(first)
        with pytest.raises(pytest.fail.Exception, match=_REFUSED):
            await second.start()
        assert await second.process.ended() == 1
        if away == "stopped":
            first.freeze()
        else:
            first.hold_networks()
        await second.start()
        await scenario.until_sent(second)
        first.thaw()
        first.release_networks()
        async with asyncio.timeout(_TOLD_SECONDS):
            assert await first.process.ended() == 1, first.process.log[-3000:]
        assert _REFUSED in first.process.log
        assert scenario.sent(first)[-1] < scenario.sent(second)[0]
        assert_in_turn(scenario.received(), first, second)
        await second.stop()


@pytest.mark.parametrize("late_seconds", [0.0, pytest.param(0.02, marks=pytest.mark.soak)])
async def test_of_two_daemons_with_one_name_that_start_at_once_one_goes_on(
    tmp_path: Path, postgres: PostgresServer, empty_database: str, late_seconds: float
) -> None:
    """The other one is refused before it has published anything, also by a slow database."""
    async with twins(tmp_path, postgres, empty_database) as scenario:
        members = (scenario.first, scenario.second)
        for member in members:
            member.slow_networks(late_seconds)
        starts = [asyncio.create_task(member.start()) for member in members]
        await asyncio.wait(starts)
        failures = [start.exception() for start in starts]
        assert [failure is None for failure in failures].count(True) == 1, failures
        left, refused = members if failures[0] is None else reversed(members)
        assert await refused.process.ended() == 1
        assert _REFUSED in refused.process.log
        await scenario.until_sent(left)
        assert set(scenario.received()) == {left.name}
        await left.stop()


def assert_in_turn(received: list[str], first: Member, second: Member) -> None:
    """Nothing of the first was received after the first message of the second."""
    assert set(received) == {first.name, second.name}
    assert received.index(second.name) == received.count(first.name)
