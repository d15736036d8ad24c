"""The ledger of true transitions, with which others are compared."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from monitor.sandbox.world.records.runs import SAMPLING_LIKE, NativeStatus

KINDS = ("flow_run", "job_group", "plan_run")
DELETED = "Deleted"  # an active run was deleted; the workspace itself has no such word

# Native word -> the word of the monitor's results.
RESULTS = {
    NativeStatus.COMPLETE.value: "succeeded",
    NativeStatus.FAILED.value: "failed",
    NativeStatus.CANCELED.value: "canceled",
    DELETED: "lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One run took one step. ``before`` is None where the run came to be."""

    number: int
    kind: str
    run_id: int
    before: str | None
    after: str
    at: datetime  # workspace time
    pipeline_kind: str
    pipeline_id: int
    pipeline_name: str
    ran_from: str
    ran_for: str | None = None  # job groups only
    recipe_id: int | None = None
    flow_run_id: int | None = None
    plan_run_id: int | None = None

    @property
    def is_sampling_like(self) -> bool:
        """True for work that the workspace does for its editor, which is no run of a pipeline."""
        return self.ran_for in SAMPLING_LIKE


class Ledger:
    """Append-only. The counts cover everything; the transitions only the newest ``kept``."""

    def __init__(self, *, kept: int = 1_000_000) -> None:
        self._transitions: deque[Transition] = deque(maxlen=kept)
        self._counts: Counter[tuple[str, str, bool]] = Counter()
        self._active: dict[tuple[str, int], bool] = {}  # -> whether it is sampling-like
        self._number = 0

    def record(self, **values: Any) -> Transition:
        """Append one transition; its number is the next."""
        self._number += 1
        transition = Transition(number=self._number, **values)
        self._transitions.append(transition)
        self._counts[transition.kind, transition.after, transition.is_sampling_like] += 1
        run = (transition.kind, transition.run_id)
        if transition.after in RESULTS:
            self._active.pop(run, None)
        else:
            self._active[run] = transition.is_sampling_like
        return transition

    def forget_ended(self) -> None:
        """Forget what has ended: only the transitions of active runs are kept."""
        kept = [
            transition
            for transition in self._transitions
            if (transition.kind, transition.run_id) in self._active
        ]
        self._transitions.clear()
        self._transitions.extend(kept)
        self._counts = Counter(
            (transition.kind, transition.after, transition.is_sampling_like) for transition in kept
        )

    def transitions(self, kind: str | None = None, run_id: int | None = None) -> list[Transition]:
        """Return what is still kept, oldest first, of one kind or one run where they are given."""
        return [
            transition
            for transition in self._transitions
            if (kind is None or transition.kind == kind)
            and (run_id is None or transition.run_id == run_id)
        ]

    def results(self, *, with_samples: bool = False) -> dict[str, dict[str, int]]:
        """Return kind -> result -> how many runs ended so; every kind and result is there."""
        counted = {kind: dict.fromkeys(RESULTS.values(), 0) for kind in KINDS}
        for (kind, after, is_sampling_like), count in self._counts.items():
            if after in RESULTS and (with_samples or not is_sampling_like):
                counted[kind][RESULTS[after]] += count
        return counted

    def begun(self, *, with_samples: bool = False) -> dict[str, int]:
        """Return kind -> how many runs came to be."""
        created = NativeStatus.CREATED.value
        return {
            kind: self._counts[kind, created, False]
            + (self._counts[kind, created, True] if with_samples else 0)
            for kind in KINDS
        }

    def active(self, *, with_samples: bool = False) -> set[tuple[str, int]]:
        """Return kind and id of every run that came to be and has not ended."""
        return {run for run, sampling in self._active.items() if with_samples or not sampling}

    def document(self, *, newest: int = 1_000) -> dict[str, Any]:
        """Return a JSON-able summary: the counts, and the ``newest`` transitions."""
        chosen = list(self._transitions)[-newest:] if newest > 0 else []
        return {
            "results": self.results(),
            "begun": self.begun(),
            "active": [{"kind": kind, "id": run_id} for kind, run_id in sorted(self.active())],
            "transitions": [
                {**asdict(transition), "at": transition.at.isoformat()} for transition in chosen
            ],
        }
