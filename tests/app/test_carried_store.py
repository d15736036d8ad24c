"""A daemon whose store went from a file into a database, and back, while it was away."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.bus.settings import StorageSettings
from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.bus.dump_scenario import carried, file_url


async def test_nothing_is_lost_or_reported_twice_over_a_change_of_the_store(
    tmp_path: Path, empty_database: str
) -> None:
    """Three lives, on a file, a database and a file: each run once, and counters go on."""
    workspace, kinds = fixture.sandbox(), fixture.kinds_of(Edition.RL)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            workspace.open_for_work()
            await eventually(lambda: len(subscriber.received().ends()) >= 3, why="no ends")
            counted = await face.ends()
        await fixture.until_ended(workspace, kinds, at_least=3)

        stored, dump = file_url(tmp_path / "state.db"), tmp_path / "a.dump"
        await carried(stored, empty_database, dump, {"acme": "small"})
        database = StorageSettings(url=empty_database, daemon="monitor-1")
        [table] = settings.workspaces
        table = msgspec.structs.replace(
            table, workspace=msgspec.structs.replace(table.workspace, shard="small")
        )
        shared = msgspec.structs.replace(settings, storage=database, workspaces=(table,))
        async with fixture.daemon(shared) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed again")
            assert counted <= await face.ends()
            await fixture.until_quiet(workspace)
            await fixture.until_agreed(workspace, kinds, subscriber, face)
            counted = await face.ends()

        back = file_url(tmp_path / "back.db")
        await carried(empty_database, back, tmp_path / "b.dump")
        file = StorageSettings(url=back)
        async with fixture.daemon(msgspec.structs.replace(settings, storage=file)) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed on the file")
            assert await face.ends() == counted
            await fixture.until_agreed(workspace, kinds, subscriber, face)
