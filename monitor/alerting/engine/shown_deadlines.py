"""The deadlines of pipelines as snapshots show them: the next one, and how former ones went."""

from __future__ import annotations

from collections import defaultdict

from monitor.alerting.rules.deadlines import AwaitedDeadlines
from monitor.model.alerts import PipelineDeadlines, PipelineOfKind


class ShownDeadlines:
    """Kept by rows of memory: several rules may have deadlines of one pipeline."""

    def __init__(self) -> None:
        self._of_rows: dict[str, PipelineOfKind] = {}
        self._rows: defaultdict[PipelineOfKind, dict[str, AwaitedDeadlines]] = defaultdict(dict)
        self._shown: dict[PipelineOfKind, PipelineDeadlines] = {}

    def clear(self) -> None:
        for rows in (self._of_rows, self._rows, self._shown):
            rows.clear()

    def __contains__(self, key: str) -> bool:
        return key in self._of_rows

    def put(self, key: str, of: PipelineOfKind, awaited: AwaitedDeadlines | None) -> None:
        """Set what one row remembers; None: it is dropped, or its rule is removed."""
        rows = self._rows[of]
        if awaited is None:
            self._of_rows.pop(key, None)
            rows.pop(key, None)
        else:
            self._of_rows[key] = of
            rows[key] = awaited
        if rows:
            self._shown[of] = _shown(list(rows.values()))
        else:
            del self._rows[of]
            self._shown.pop(of, None)

    def all(self) -> dict[PipelineOfKind, PipelineDeadlines]:
        return dict(self._shown)


def _shown(rows: list[AwaitedDeadlines]) -> PipelineDeadlines:
    coming = [row.next.at for row in rows if row.next is not None]
    missed = [row.missed.at for row in rows if row.missed is not None]
    return PipelineDeadlines(
        next_at=min(coming, default=None),
        missed_at=min(missed, default=None),
        met=sum(row.met_count for row in rows),
        missed=sum(row.missed_count for row in rows),
    )
