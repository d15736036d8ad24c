"""The settings of a sandbox. Durations are seconds of work before ``speed``."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.faults import WorldOptions

__all__ = [
    "DeliverySettings",
    "OAuthSettings",
    "SandboxSettings",
    "TrafficSettings",
    "WorkSettings",
    "WorldOptions",
]


class WorkSettings(Struct, frozen=True, kw_only=True):
    """How long things take and how often they go wrong."""

    speed: float = 1.0  # divides every duration of work; never a schedule or a time stamp
    queue_seconds: tuple[float, float] = (2.0, 12.0)  # Created to InProgress
    work_seconds: tuple[float, float] = (20.0, 100.0)  # InProgress to the end
    hand_over_seconds: tuple[float, float] = (1.0, 6.0)  # one run's end to the next one's start
    steps_per_job: int = 4  # heartbeats in a job's life; at least 2
    cancel_ratio: float = 0.04  # of job groups, where no outcome was ordered
    is_regular: bool = False  # each recipe takes its usual time, by weekday, with a slow drift
    failure_factor: float = 1.0  # multiplies each flow's own failure ratio
    runs_kept: int = 50_000  # ended job groups; older ones are forgotten
    ledger_kept: int = 1_000_000  # transitions; the counts go on


class TrafficSettings(Struct, frozen=True, kw_only=True):
    """What people and programs start, per hour of work; ``speed`` multiplies it. 0 is none."""

    flow_runs_per_hour: float = 15.0
    plan_runs_per_hour: float = 8.0
    job_groups_per_hour: float = 20.0
    samples_per_hour: float = 6.0
    active_runs: int = 400  # with this many active nothing is started


class DeliverySettings(Struct, frozen=True, kw_only=True):
    """How callbacks are sent. ``speed`` does not touch these."""

    time_limit_seconds: float = 30.0
    retries: int = 3  # after the first attempt, where the task is set to retry
    backoff_seconds: float = 1.0  # before the first retry; doubles
    backoff_cap_seconds: float = 30.0
    at_once: int = 16  # requests in the air
    waiting: int = 10_000  # deliveries not yet over; more are dropped and logged
    log_kept: int = 20_000  # deliveries in the log


class OAuthSettings(Struct, frozen=True, kw_only=True):
    """How pairs of tokens live, where the workspace takes no others. Seconds, by its clock."""

    access_token_seconds: int = 3_600
    refresh_token_seconds: int = 365 * 86_400  # of the pair, however often it is refreshed
    client_secret: str | None = None  # None: clients have none


class SandboxSettings(Struct, frozen=True, kw_only=True):
    """One sandbox."""

    edition: Edition = Edition.RL
    seed: int = 1
    token: str | None = None  # None takes one that the seed makes
    options: WorldOptions = msgspec.field(default_factory=WorldOptions)  # each sandbox copies it
    work: WorkSettings = WorkSettings()
    traffic: TrafficSettings | None = TrafficSettings()  # None starts nothing by itself
    schedules_fire: bool = True
    is_busy_at_once: bool = True  # else traffic and schedules wait for `Sandbox.open_for_work`
    is_held: bool = False  # all waits for it, also runs that have begun
    flows: int | None = None  # so many are seeded; None seeds the usual ones
    deliveries: DeliverySettings = DeliverySettings()
    oauth: OAuthSettings | None = None  # None: access tokens of people, without refresh
