"""When an executing job group last gave a sign: by heartbeat, percentage or state of its jobs."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.runs import JobDetails


class Sign(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What job records said, and the newest instant at which they are known to have moved."""

    at: datetime
    percent: float | None = None
    heartbeat_at: datetime | None = None
    jobs: str = ""


def newest_sign(held: Sign | None, jobs: JobDetails | None) -> Sign | None:
    """Return the sign as of the newest reading; None where job records can show none.

    A heartbeat counts as of its own stamp. A percentage, or a job that began or ended, moved at
    some moment before the reading that first shows it, and so counts as of that reading.
    """
    if jobs is None or jobs.read_at is None:
        return held
    if jobs.percent_complete is None and jobs.heartbeat_at is None:
        return None
    told = " ".join(f"{count.job_type}:{count.status}:{count.count}" for count in jobs.counts)
    # The stamps are of other machines: a heartbeat of the future is one of now.
    beat_at = min(jobs.heartbeat_at or jobs.read_at, jobs.read_at)
    if held is None:
        at = beat_at
    elif (held.percent, held.jobs) != (jobs.percent_complete, told):
        at = jobs.read_at
    elif jobs.heartbeat_at is not None and jobs.heartbeat_at != held.heartbeat_at:
        at = max(held.at, beat_at)
    else:
        return held
    return Sign(at=at, percent=jobs.percent_complete, heartbeat_at=jobs.heartbeat_at, jobs=told)
