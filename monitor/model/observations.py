"""One look at one run, whoever looked."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.runs import JobDetails, Parents, Pipeline, Recipe, RunKey, Source, Trigger


class Observation(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Run ``key`` was seen with ``native_status`` by ``source``. None means "was not told".

    Instants are the workspace's except ``observed_at``, which is ours. An observation with
    ``jobs`` comes from the job records; ``is_detail_final`` says that no job record will ever
    add to it, either because they were read after the end or because the workspace does not
    offer them.
    """

    key: RunKey
    source: Source
    observed_at: datetime
    native_status: str | None = None
    is_gone: bool = False  # the workspace says that there is no such run (twice, see the audit)
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    approximate: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    recipe: Recipe | None = None
    parents: Parents = Parents()
    trigger: Trigger = Trigger.UNKNOWN
    ran_for: str | None = None
    owner: str | None = None
    error: str | None = None
    url: str | None = None
    jobs: JobDetails | None = None
    is_detail_final: bool = False
    inbox_id: int | None = None  # the stored callback that this observation settles


class ObservationOutcome(StrEnum):
    """What became of a observation; the label ``outcome`` of ``observations_total``."""

    CHANGED = "changed"  # at least one event was published
    ENRICHED = "enriched"  # the stored state grew; nothing to tell
    UNCHANGED = "unchanged"
    HISTORICAL = "historical"  # an old run: state only
    CONTRADICTED = "contradicted"  # the API tells another end than the one already told
    UNCONFIRMED = "unconfirmed"  # a callback names a run that the workspace has not shown yet
    NEEDS_DETAIL = "needs_detail"  # only the job records can tell whether this end is an old one
