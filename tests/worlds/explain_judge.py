"""Judges `explain`: a failure is in an alert, or has a reason; what was reported is not denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.worlds.alert_judge import RULE
from tests.worlds.configuration import LASTING
from tests.worlds.final_faces import FinalFaces
from tests.worlds.findings import Finding, Kind
from tests.worlds.received import Received, runs_of
from tests.worlds.script import End, World
from tests.worlds.truth import Run, TrueEnd

_RULES = (RULE, LASTING)
# Reasons that deny that a rule about failures was met.
_DENIALS = frozenset(
    {"historical", "no event", "no matching rule", "condition not met", "not evaluated yet"}
)


def explain_findings(
    world: World,
    ends: Sequence[TrueEnd],
    received: Received,
    faces: FinalFaces,
    *,
    until: float,
) -> Iterator[Finding]:
    """Yield every failed run that was reported and is denied, or is silent without a reason."""
    reported = reported_runs(received, faces)
    failed = {end.run: end for end in ends if _must_be_reported(end, until)}
    for run in sorted(failed.keys() | reported):
        if run not in faces.explanations:
            continue  # a callback reported a failure that was none
        explanation, named = faces.explanations[run], f"{run[0]} {run[1]}"
        if explanation is None:
            text = f"{named}: explain does not know it"
            yield Finding(seed=world.seed, kind=Kind.SILENCE, text=text)
        elif run in reported:
            if explanation["reason"] in _DENIALS:
                text = f"{named} is evidence of an alert; explain: {explanation['answer']}"
                yield Finding(seed=world.seed, kind=Kind.DENIAL, text=text)
        elif not reported & failed[run].parts and not _is_explained(explanation):
            text = f"{named} is in no alert; explain: {explanation['answer']}"
            yield Finding(seed=world.seed, kind=Kind.SILENCE, text=text)


def _must_be_reported(end: TrueEnd, until: float) -> bool:
    return end.end is End.FAILED and not end.is_only_possible and end.due_at < until


def _is_explained(explanation: dict[str, Any]) -> bool:
    """True where there is a reason for the silence, or the alert that broke it."""
    reason = explanation["reason"]
    return bool(explanation["alerts"]) if reason is None else reason not in _DENIALS


def reported_runs(received: Received, faces: FinalFaces) -> set[Run]:
    """Return the runs that are evidence of an alert about failures."""
    runs: set[Run] = set()
    for (rule, _), words in received.alerts.items():
        if rule in _RULES:
            runs |= {run for word in words for run in word.evidence}
    for alert in faces.alerts:
        if alert["name"] in _RULES:
            runs |= set(runs_of(alert["evidence"]))
    return runs
