"""The store is reached twice, lost, damaged or changed: the daemon says so, and ends."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.app.eventually import eventually, pause
from tests.crash.conftest import ReportCounts
from tests.crash.lone_daemon import ended, flood, lone_daemon, reason_of, settings_for, start_of
from tests.crash.scenario import scenario

# A commit that was under way when the store went may still be answered.
_GRACE_SECONDS = 1.0
_LOG_BYTES = 200_000  # of a daemon that ends at once; one that spins writes 18 MB a second


def link_file(store: Path, other: Path) -> Path:
    other.symlink_to(store)
    return other


def link_folder(store: Path, other: Path) -> Path:
    other.symlink_to(store.parent)
    return other / store.name


def link_hard(store: Path, other: Path) -> Path:
    other.hardlink_to(store)
    return other


async def test_one_store_has_one_daemon(tmp_path: Path, report_counts: ReportCounts) -> None:
    """A second one by a link is refused; the first goes on, until its lock file is removed."""
    first = settings_for(tmp_path / "first")
    async with lone_daemon(first) as (daemon, sender):
        for number, (reach, reason) in enumerate(
            [
                (link_file, f"is held by process {daemon.process_id} since"),
                (link_folder, f"is held by process {daemon.process_id} since"),
                (link_hard, "has 2 hard links"),
            ]
        ):
            other = tmp_path / f"other-{number}"
            second = settings_for(tmp_path / f"second-{number}", reach(first.store, other))
            assert reason in reason_of(await start_of(second))
            if reach is link_hard:
                other.unlink()
            await sender.send([(str(number + 1), "Complete")])
        first.store.with_name("state.db.lock").unlink()
        assert await ended(daemon) == 1
        assert "state.db.lock was deleted or moved away while in use" in daemon.log
        assert "Traceback" not in daemon.log
        report_counts("one store, one daemon", refused=3, acknowledged=len(sender.acknowledged))


def delete(store: Path) -> None:
    store.unlink()


def delete_all(store: Path) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()


def delete_log(store: Path) -> None:
    store.with_name(f"{store.name}-wal").unlink()


def replace(store: Path) -> None:
    copy = store.with_name("copy.db")
    copy.write_bytes(store.read_bytes())
    copy.replace(store)


@pytest.mark.parametrize(
    "lose",
    [
        delete_all,
        replace,
        pytest.param(delete, marks=pytest.mark.soak),
        pytest.param(delete_log, marks=pytest.mark.soak),
    ],
)
async def test_a_store_lost_under_load_acknowledges_nothing(
    tmp_path: Path, report_counts: ReportCounts, lose: Callable[[Path], None]
) -> None:
    """Deleted or replaced while callbacks come: no 2xx any more, exit code 1 and one line."""
    settings = settings_for(tmp_path)
    async with lone_daemon(settings) as (daemon, sender):
        at_loss = 0

        async def lose_it() -> None:
            nonlocal at_loss
            lose(settings.store)
            await pause(_GRACE_SECONDS)
            at_loss = len(sender.acknowledged)
            assert await ended(daemon) == 1

        assert await flood(sender, lose_it) == at_loss
        (line,) = [line for line in daemon.log.splitlines() if line.startswith("error: ")]
        assert "while in use" in line
        assert "Traceback" not in daemon.log
        report_counts(f"store lost ({lose.__name__})", acknowledged=at_loss)


async def test_a_log_changed_by_another_program_ends_the_daemon(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """After positions that it did not give it ends at once: it neither spins nor grows."""
    async with scenario(tmp_path, seed=seed) as crash:
        job_groups = crash.start_job_groups(10, work_seconds=(0.5, 1))
        await crash.until_received("started", job_groups)
        with closing(sqlite3.connect(crash.store, timeout=10)) as db, db:
            db.execute("UPDATE sqlite_sequence SET seq = seq + 3 WHERE name = 'event'")
        before = len(crash.daemon.log)
        crash.start_job_groups(10, work_seconds=(0.5, 1))
        assert await ended(crash.daemon) == 1
        grown = crash.daemon.log[before:]
        assert "the log was changed by another program" in grown
        assert "Traceback" not in grown
        assert len(grown) < _LOG_BYTES
        assert crash.store.with_name("state.db.lock").exists()
        report_counts("log changed", seed=seed, log_bytes=len(grown))


async def test_a_damaged_store_is_refused_in_one_line(
    tmp_path: Path, report_counts: ReportCounts
) -> None:
    """Flipped at the front and in the middle: no start. Gone: a start that says so."""
    settings = settings_for(tmp_path)
    async with lone_daemon(settings) as (daemon, sender):
        await flood(sender, lambda: pause(0), acknowledged=100)
        assert await daemon.end(signal.SIGTERM) == 0
        sound = settings.store.read_bytes()
        middle = len(sound) // 8_192 * 4_096
        damages = {"front": _flipped(sound, 0), "middle": _flipped(sound, middle)}
        for damage, content in damages.items():
            settings.store.write_bytes(content)
            line = reason_of(await start_of(settings))
            assert "restore a backup, or move the file away to start over" in line, damage

        settings.store.write_bytes(sound)
        await daemon.start()
        assert await daemon.face.answers()
        settings.store.unlink()
        assert await ended(daemon) == 1
        await daemon.start()
        await eventually(
            lambda: "new store beside leftover files of a former one" in daemon.log,
            why=lambda: daemon.log[-2_000:],
        )
        assert await daemon.end() == 0
        report_counts("store damaged", refused=len(damages), acknowledged=len(sender.acknowledged))


def _flipped(content: bytes, offset: int) -> bytes:
    flipped = bytes(byte ^ 0xFF for byte in content[offset : offset + 100])
    return content[:offset] + flipped + content[offset + 100 :]
