"""How the store's thread runs writes: those of one kind together, or each alone."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from monitor.bus.sqlite.connection import StoreConnection, unavailable
from monitor.bus.write_queue import WriteGroup, WriteJob
from monitor.model.errors import BusError

Input = TypeVar("Input")
T = TypeVar("T")
Work = Callable[[StoreConnection, Sequence[Input]], Sequence[T]]

# Errors of one job and not of the store; the rest of the group is not affected.
JOB_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
    BusError,
)


def run_together(db: StoreConnection, jobs: WriteGroup) -> None:
    # Their callers all wait at the same time, so no order between different works was promised.
    by_work: defaultdict[Work[Any, Any], WriteGroup] = defaultdict(list)
    for job in jobs:
        by_work[job.work].append(job)
    for work, jobs_of_work in by_work.items():
        results = work(db, [job.given for job in jobs_of_work])
        for job, result in zip(jobs_of_work, results, strict=True):
            job.result = result


def run_alone(db: StoreConnection, job: WriteJob[Any]) -> None:
    before = db.news.copy()
    db.execute("SAVEPOINT job")
    try:
        (job.result,) = job.work(db, [job.given])
    except JOB_ERRORS as exc:
        db.execute("ROLLBACK TO job")
        db.news = before
        job.error = exc if isinstance(exc, BusError) else unavailable(exc)
        if job.error is not exc:
            job.error.__cause__ = exc
    db.execute("RELEASE job")
