"""Decides what is really sent when a flow's task is called for an end: the faults of callbacks.

Each decision depends on the seed, the task and the job group alone.
"""

from __future__ import annotations

import random
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

    def struck(fault: str, copy: int = 0) -> random.Random | None:
        return world.struck(fault, task.id, job_group.id, copy)

    truth = Statement(run_id=job_group.id, status=job_group.status)
    lie = replace(truth, status=_contrary(truth.status))
    late_seconds = world.options.callback_late_seconds
    found = [
        replace(
            lie if struck("callback_contradicting", copy) else truth,
            wait_seconds=late_seconds if struck("callback_late", copy) else 0.0,
            is_held_back=struck("callback_reordered", copy) is not None,
            is_lost=struck("callback_lost", copy) is not None,
        )
        for copy in range(2 if struck("callback_duplicate") else 1)
    ]
    if chance := struck("callback_unknown_run"):
        found.append(replace(truth, run_id=FIRST_UNKNOWN_ID + chance.randrange(_UNKNOWN_IDS)))
    if struck("callback_wrong_secret"):
        found.append(replace(lie, has_wrong_secret=True))
    if task.secret_key and struck("callback_wrong_signature"):
        found.append(replace(lie, has_wrong_signature=True))
    return found


def _contrary(status: NativeStatus) -> NativeStatus:
    return NativeStatus.FAILED if status is NativeStatus.COMPLETE else NativeStatus.COMPLETE
