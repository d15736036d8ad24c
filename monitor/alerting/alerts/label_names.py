"""The labels that every alert may have; a rule's own labels come on top of them."""

from __future__ import annotations

# Never a run, an owner or a message: those are facts of one moment, and labels stay.
SHOWN_LABELS = (
    "alertname",
    "rule",
    "severity",
    "workspace",
    "kind",
    "pipeline",
    "pipeline_id",
    # What else the alert is about, by its kind of subject.
    "schedule",
    "output",
    "token_id",
    "part",  # of the daemon: "backlog:mqtt", "dead_letters:mqtt", "lost:mqtt", "store"
)
