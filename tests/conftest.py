"""How many workers a run of tests gets, in which order, what hypothesis may take, what is shown."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.summary import SECTIONS

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

# Tests wait more than they compute.
_WORKERS_PER_PROCESSOR = 2
_MOST_WORKERS = 16

# After the limit of a test, until it is ended in whatever it does then.
_NEXT_ALARM_SECONDS = 3.0

# Stores wait for the disk at each commit, and a disk makes each wait for all. In memory it costs
# nothing, and what a killed process wrote is there as well. Containers have too little of it.
_MEMORY = Path("/dev/shm")  # noqa: S108 - each user's folders in it are his own
_MEMORY_BYTES = 4 * 2**30

# Begun first, all by one worker: a browser and the workspace that it shows take seconds to start.
_SHARING = ("tests/browser/",)
# Begun next, because the run ends no sooner than the last of them.
_LONG = ("tests/worlds/test_worlds.py", "tests/crash/", "tests/sandbox/test_fuzzing.py")

# A busy machine makes an example slow, not wrong; pytest's own limit ends what hangs.
settings.register_profile(
    "gate", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.register_profile("soak", settings.get_profile("gate"), max_examples=1_000)
settings.load_profile("gate")


def pytest_configure() -> None:
    """Keep temporary files in memory, where the environment does not say where they belong."""
    if "TMPDIR" in os.environ or not _MEMORY.is_dir() or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        # Workers and servers inherit it.
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the collected tests: all of them stay to the end.

    Its searches were a third of the processor time of collecting, and a seventh of the tests' own.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # when those that do not run are gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each worker its share of long tests, and let it begin with them.

    Work is stolen from the end of the equal parts that workers are given at first.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    sharing = [item for item in items if item.nodeid.startswith(_SHARING)]
    long = [item for item in items if item.nodeid.startswith(_LONG)]
    others = [item for item in items if not item.nodeid.startswith((*_SHARING, *_LONG))]
    ordered = sharing
    for number in range(workers):
        ordered += long[number::workers]
        room = max(0, len(items) * (number + 1) // workers - len(ordered))
        ordered += others[:room]
        del others[:room]
    items[:] = [*ordered, *others]


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Raise the alarm of a test again and again: a task that it meets takes it for its own error.

    The test would wait without end for what that task does no more, and hold the whole run.
    """
    timer = yield
    seconds, _ = signal.getitimer(signal.ITIMER_REAL)
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds, _NEXT_ALARM_SECONDS)
    return timer


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return 0, which starts no workers, where files or tests were named rather than folders."""
    chosen = (config.invocation_params.dir / argument for argument in config.args)
    if not any(Path(path).is_dir() for path in chosen):
        return 0
    return min(_WORKERS_PER_PROCESSOR * len(os.sched_getaffinity(0)), _MOST_WORKERS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show one line for each crash scenario that held, and the figures of scripted worlds."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
    ]
    for title, shown in SECTIONS.items():
        lines = [
            value for report in reports for name, value in report.user_properties if name == shown
        ]
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(str(line))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return a PostgreSQL for all tests of this worker."""
    from tests.postgres_server import server_of_worker  # noqa: PLC0415 - asyncpg is slow to import

    with server_of_worker() as server:
        yield server


@pytest.fixture
async def empty_database(postgres: PostgresServer) -> AsyncIterator[str]:
    """Return the URL of a new database, which is dropped after the test."""
    name = await postgres.create_database()
    yield postgres.url(name)
    await postgres.drop_database(name)
