"""Judges alerts about lost runs: each is about a deleted run, and each lost run has one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.worlds.findings import Finding, Kind
from tests.worlds.received import Received
from tests.worlds.script import NEVER, RunKind, World
from tests.worlds.truth import Subject

RULE = "run_lost"


def lost_alert_findings(world: World, received: Received) -> Iterator[Finding]:
    """Yield alerts without a deleted run, and lost runs without an alert."""
    deleted = {
        **{
            (RunKind.JOB_GROUP, group.id): Subject(RunKind.JOB_GROUP, group.flow)
            for group in world.job_groups
            if group.deleted_at < NEVER and group.flow_run is None and group.plan_run is None
        },
        **{
            (RunKind.PLAN_RUN, run.id): Subject(RunKind.PLAN_RUN, run.plan)
            for run in world.plan_runs
            if run.deleted_at < NEVER
        },
    }
    fired = {
        (words[0].labels["kind"], words[0].labels.get("pipeline_id", ""))
        for (rule, _), words in received.other_alerts.items()
        if rule == RULE
    }
    known = {(subject.kind.value, str(subject.pipeline)) for subject in deleted.values()}
    for kind, pipeline in sorted(fired - known):
        if pipeline.isdigit():
            text = f"{RULE} fired about {kind}s of {pipeline}, and none was deleted"
            yield Finding(seed=world.seed, kind=Kind.FALSE_RED, text=text)
    for run, subject in deleted.items():
        is_lost = any(word.word == "lost" for word in received.runs[run])
        if is_lost and (subject.kind.value, str(subject.pipeline)) not in fired:
            text = f"{run[0]} {run[1]} was lost, and {RULE} did not fire"
            yield Finding(seed=world.seed, kind=Kind.FALSE_GREEN, text=text)
