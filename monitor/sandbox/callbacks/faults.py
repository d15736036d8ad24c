"""Decides what is really sent when a flow's task is called for an end: the faults of callbacks.

Each decision depends on the seed, the task and the job group alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus
from monitor.sandbox.world.shelves import World

# No job group ever has such an id.
FIRST_UNKNOWN_ID = 90_000_000
_UNKNOWN_IDS = 9_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One callback to be sent, and what is wrong with it."""

    run_id: int
    status: NativeStatus
    wait_seconds: float = 0.0
    is_held_back: bool = False  # until another one was sent
    is_lost: bool = False
    has_wrong_secret: bool = False
    has_wrong_signature: bool = False


def statements(world: World, task: WebhookFlowTask, job_group: JobGroup) -> list[Statement]:
    """Return what to send about this end: the truth once, where there are no faults."""
    lots = _Lots(world, task, job_group)
    truth = Statement(run_id=job_group.id, status=job_group.status)
    copies = 2 if lots.strikes("callback_duplicate") else 1
    return [*(_spoiled(truth, lots, copy) for copy in range(copies)), *_forged(truth, lots, task)]


class _Lots:
    """The draws about one task and one job group."""

    def __init__(self, world: World, task: WebhookFlowTask, job_group: JobGroup) -> None:
        self.world = world
        self._names = (task.id, job_group.id)

    def strikes(self, name: str, copy: int = 0) -> bool:
        ratio: float = getattr(self.world.options, name)
        # Without the fault nothing is drawn: this runs at every end.
        return ratio > 0 and self.world.random(name, *self._names, copy).random() < ratio

    def unknown_id(self) -> int:
        chance = self.world.random("unknown run", *self._names)
        return FIRST_UNKNOWN_ID + chance.randrange(_UNKNOWN_IDS)


def _spoiled(truth: Statement, lots: _Lots, copy: int) -> Statement:
    is_late = lots.strikes("callback_late", copy)
    is_lie = lots.strikes("callback_contradicting", copy)
    return replace(
        truth,
        status=_contrary(truth.status) if is_lie else truth.status,
        wait_seconds=lots.world.options.callback_late_seconds if is_late else 0.0,
        is_held_back=lots.strikes("callback_reordered", copy),
        is_lost=lots.strikes("callback_lost", copy),
    )


def _forged(truth: Statement, lots: _Lots, task: WebhookFlowTask) -> list[Statement]:
    callbacks = []
    if lots.strikes("callback_unknown_run"):
        callbacks.append(replace(truth, run_id=lots.unknown_id()))
    lie = replace(truth, status=_contrary(truth.status))
    if lots.strikes("callback_wrong_secret"):
        callbacks.append(replace(lie, has_wrong_secret=True))
    if task.secret_key and lots.strikes("callback_wrong_signature"):
        callbacks.append(replace(lie, has_wrong_signature=True))
    return callbacks


def _contrary(status: NativeStatus) -> NativeStatus:
    return NativeStatus.FAILED if status is NativeStatus.COMPLETE else NativeStatus.COMPLETE
