"""Metrics of a shard's own work: families from one snapshot. Pure, but for the texts."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.bus.contract import StoreStatus
from monitor.outputs.metrics import families
from monitor.outputs.metrics.alert_metrics import alert_families
from monitor.outputs.metrics.consumer import CONSUMER
from monitor.outputs.metrics.exposition_cache import ExpositionPage, FamilyText
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot


def operation_families(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    """Yield what is known of polls, callbacks, alerts and consumers; the same families each time.

    Those without anything known have no series.
    """
    yield _polls(snapshot, page.family_text(families.POLL_SUCCESS))
    yield from _callbacks(snapshot, page)
    yield from alert_families(snapshot.alerting, page, now=snapshot.now)
    yield from _consumers(snapshot.bus, page)


def _polls(snapshot: MetricsSnapshot, family_text: FamilyText) -> FamilyText:
    for poll in snapshot.polls:
        if poll.last_success_at is not None:
            family_text.add((poll.workspace, poll.poll), poll.last_success_at.timestamp())
    return family_text


def _callbacks(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    received = page.family_text(families.CALLBACK_RECEIVED)
    tasks = page.family_text(families.WEBHOOK_TASKS)
    missed = page.family_text(families.CALLBACKS_MISSED)
    for workspace in snapshot.workspaces:
        missed.add((workspace.workspace,), workspace.callbacks_missed)
        if workspace.last_callback_at is not None:
            received.add((workspace.workspace,), workspace.last_callback_at.timestamp())
        for state, count in sorted(workspace.webhook_tasks.items()):
            tasks.add((workspace.workspace, state), count)
    yield from (received, tasks, missed)


def _consumers(status: StoreStatus | None, page: ExpositionPage) -> Iterator[FamilyText]:
    backlog = page.family_text(families.CONSUMER_BACKLOG)
    oldest = page.family_text(families.CONSUMER_OLDEST)
    lost = page.family_text(families.EVENTS_LOST)
    letters = page.family_text(families.DEAD_LETTERS)
    for consumer in () if status is None else status.consumers:
        backlog.add((consumer.consumer,), consumer.backlog)
        lost.add((consumer.consumer,), consumer.lost)
        if consumer.oldest_at is not None:
            oldest.add((consumer.consumer,), consumer.oldest_at.timestamp())
        if consumer.consumer != CONSUMER:
            letters.add((consumer.consumer,), consumer.dead_letters)
    yield from (backlog, oldest, lost, letters)
