"""An observation: one run as one source showed it at one time."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.runs import (
    EndBasis,
    FailedPart,
    JobDetails,
    Parents,
    Pipeline,
    Recipe,
    RunKey,
    Source,
    Trigger,
)


class Observation(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Run ``key`` had ``native_status`` by ``source``. None means "not reported".

    Instants are the workspace's except ``observed_at``, which is ours. ``requested_at`` is when
    the read began that shows it, so the workspace did not show it earlier. An observation with
    ``jobs`` comes from the job records; ``is_detail_final`` says that no job record will ever
    add to it, either because they were read after the end or because the workspace does not
    offer them. ``may_have_ended``: the status was derived from the parts of a run, which show that
    it has begun and not that it is still going on. ``only_of_flow``: the source may speak about
    runs of this flow only. ``finished_by`` None: the time of the end was reported, or derived
    where it is approximate or comes with ``jobs``.
    """

    key: RunKey
    source: Source
    observed_at: datetime
    requested_at: datetime | None = None
    native_status: str | None = None
    may_have_ended: bool = False
    is_gone: bool = False  # no such run in two reconciliations
    has_children: bool = False  # the run has started another one
    are_parts_known: bool = False  # ``failed_part`` is what its parts show now, None as well
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    approximate: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    only_of_flow: str | None = None
    recipe: Recipe | None = None
    parents: Parents = Parents()
    trigger: Trigger = Trigger.UNKNOWN
    ran_for: str | None = None
    owner: str | None = None
    error: str | None = None
    url: str | None = None
    finished_by: EndBasis | None = None
    failed_part: FailedPart | None = None
    jobs: JobDetails | None = None
    is_detail_final: bool = False
    inbox_id: int | None = None  # the stored callback that this observation processes


class ObservationOutcome(StrEnum):
    """What the observer did with an observation; label ``outcome`` of ``observations_total``."""

    CHANGED = "changed"  # at least one event was published
    ENRICHED = "enriched"  # the stored state grew; no event
    UNCHANGED = "unchanged"
    HISTORICAL = "historical"  # an old run: state only
    CONTRADICTED = "contradicted"  # another end than the published one, which does not count (yet)
    UNCONFIRMED = "unconfirmed"  # a callback names a run, or its flow, not confirmed so far
    OTHER_FLOW = "other_flow"  # the task of one flow called about a run of another: not believed
    NO_ROOM = "no_room"  # an active run more than active_runs_limit; it stays unknown
    NEEDS_DETAIL = "needs_detail"  # only the job records show whether this end is an old one
