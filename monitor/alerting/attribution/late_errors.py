"""The error of an alert that has none, from the runs that failed inside its run."""

from __future__ import annotations

from collections import Counter

from monitor.alerting.alerts.pending_step import ALERT, PendingStep
from monitor.alerting.attribution.lineage import parts_of
from monitor.alerting.store import Store
from monitor.model.runs import RunKey, RunKind

_ATTEMPTS = 60  # evaluations in which an alert without an error is looked up
_AT_ONCE = 20  # such alerts in one evaluation


class LateErrors:
    """Looks up alerts without an error in a bounded number of evaluations, not for ever."""

    def __init__(self, *, bus: Store) -> None:
        self._bus = bus
        self._attempts: Counter[tuple[str, RunKey]] = Counter()

    async def find(self, pending: PendingStep) -> dict[str, str]:
        """Return errors by fingerprint. A cancelled call has used up one of the attempts.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        lacking = {
            (key, run)
            for key, instance in pending.rows(ALERT)
            if instance.is_open
            and instance.alert.facts.get("error", "") is None
            and (run := instance.root_run) is not None
            and run.kind is not RunKind.JOB_GROUP
        }
        # The fewest attempts first, so that each alert gets its turn.
        turns = sorted(
            (self._attempts[row], row) for row in lacking if self._attempts[row] < _ATTEMPTS
        )
        chosen = [row for _, row in turns[:_AT_ONCE]]
        self._attempts = Counter({row: self._attempts[row] + (row in chosen) for row in lacking})
        errors: dict[str, str] = {}
        for key, run in chosen:
            for part in await parts_of(run, self._bus):
                if part.error is not None:
                    errors[key] = part.error
                    break
        return errors
