"""What is stored of an alert and of its fingerprint. Pure data."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Alert, AlertState
from monitor.model.runs import RunKey


class FingerprintHistory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a fingerprint between its alerts; kept as long as the log keeps event ids."""

    last_end: datetime | None = None
    starts: tuple[datetime, ...] = ()  # of the newest alerts that fired; they decide on flapping


class AlertInstance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert and what its next step depends on. ``since`` and ``quiet_since`` are our clock."""

    alert: Alert
    since: datetime  # of the newest change of its state
    past: FingerprintHistory = FingerprintHistory()
    is_met: bool = True  # the newest evaluation result was `Firing`
    clear_since: datetime | None = None  # of a flapping alert: by the clock of its subject
    quiet_since: datetime | None = None  # the same by our clock
    silenced: int = 0  # how often a silence began for it
    newest_run: RunKey | None = None  # root run of the newest evidence; None: the alert's own

    @property
    def root_run(self) -> RunKey | None:
        """The root run of the newest evidence."""
        return self.newest_run or self.alert.run

    @property
    def is_open(self) -> bool:
        """True where it is pending or firing."""
        return self.alert.state is not AlertState.RESOLVED


# What is stored under one fingerprint.
FingerprintState = AlertInstance | FingerprintHistory
