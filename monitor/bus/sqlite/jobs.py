"""Writes that wait for the store's thread, and how the thread runs them."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from monitor.bus.sqlite.connection import StoreConnection, unavailable
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


class WriteJob(Generic[T]):
    """One write whose caller waits."""

    __slots__ = (
        *("answer", "error", "expires_at", "given", "is_claimed", "is_patient", "is_probe"),
        *("is_withdrawn", "result", "timeout_seconds", "work"),
    )

    def __init__(
        self,
        work: Work[Any, T],
        given: Any,
        answer: asyncio.Future[T],
        *,
        is_probe: bool,
        is_patient: bool,
    ) -> None:
        self.work = work
        self.is_probe = is_probe
        self.is_patient = is_patient  # it causes no transaction, and goes with the next one
        self.given = given
        self.answer = answer
        self.expires_at = math.inf  # by the loop's clock
        self.timeout_seconds = math.inf
        self.is_claimed = False
        self.is_withdrawn = False
        self.result: Any = None  # a T, once the work has run
        self.error: Exception | None = None

    def end(self) -> None:
        """Give its caller the result or the error, unless that has happened or nobody waits."""
        if self.answer.done():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


WriteGroup = list[WriteJob[Any]]


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
