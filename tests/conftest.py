"""How many workers a run of tests gets, what hypothesis may take, and what the end shows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
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

# A busy machine makes an example slow, not wrong; pytest's own limit ends what hangs.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return 0, which starts no workers, where files or tests were named rather than folders."""
    chosen = (config.invocation_params.dir / argument for argument in config.args)
    if not all(Path(path).is_dir() for path in chosen):
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
