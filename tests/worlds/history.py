"""Prints a world in the order of time: what happened, what was shown, what was said."""

from __future__ import annotations

from collections.abc import Iterator

from tests.worlds.blindness import blindnesses
from tests.worlds.deadline_truth import awaited_deadlines
from tests.worlds.play import Played
from tests.worlds.received import Received
from tests.worlds.script import NEVER, World

Line = tuple[float, str]


def history(world: World, played: Played) -> list[str]:
    """Return one line for each fact and each message, by seconds since the beginning."""
    lines = sorted([*_facts(world, played), *_messages(world, played)], key=lambda line: line[0])
    return [world.describe(), *(f"{at:8.1f}  {text}" for at, text in lines)]


def _facts(world: World, played: Played) -> Iterator[Line]:
    for group in world.job_groups:
        inside = "" if group.flow_run is None else f" of flow run {group.flow_run}"
        name = f"job group {group.id} of recipe {group.recipe}, flow {group.flow}{inside}"
        yield group.created, f"{name} is created, shown from {group.shown_from}"
        yield group.ended, f"{name} ends {group.end}, shown from {group.end_shown_from}"
        if group.deleted_at < NEVER:
            yield group.deleted_at, f"{name} is deleted"
    for flow_run in world.flow_runs:
        inside = "" if flow_run.plan_run is None else f" of plan run {flow_run.plan_run}"
        shown = f"shown from {flow_run.end_shown_from}"
        yield flow_run.ended, f"flow run {flow_run.id}{inside} ends {flow_run.end}, {shown}"
    for run in world.plan_runs:
        yield run.created, f"plan run {run.id} of plan {run.plan} is created"
        yield run.ended, f"plan run {run.id} ends {run.end}, shown from {run.end_shown_from}"
        for child, at in run.children_named_from.items():
            yield at, f"plan run {run.id} names its flow run {child}"
    yield from _happenings(world, played)


def _happenings(world: World, played: Played) -> Iterator[Line]:
    for callback in played.delivered[world.name]:
        yield callback.at, f"callback: job group {callback.job_group} {callback.status}"
    for span in played.blind[world.name]:
        yield span.begin, f"blind until {span.end:.1f}"
    yield from _impairments(world)
    planned, blind = played.planned or played.zero, played.blind[world.name]
    for each in awaited_deadlines(world, planned, played.zero, blind):
        whose = f"{each.deadline.rule} of {each.deadline.kind} {each.deadline.pipeline}"
        counts = f"counts what {each.deadline.counts} from {each.opens:.0f}"
        if each.at < played.until:
            yield each.at, f"{whose} is due, {counts}; to be decided by {each.decided_by:.1f}"
    for pipeline in (*world.flows, *world.plans):
        for at, word in ((pipeline.renamed_at, "renamed"), (pipeline.deleted_at, "deleted")):
            if at < NEVER:
                yield at, f"{pipeline.name} is {word}"


def _impairments(world: World) -> Iterator[Line]:
    for part in blindnesses(world):
        known = f"known again by {part.recovered_at:.1f}"
        yield part.span.begin, f"{part.text} until {part.span.end:.1f}, {known}"
    for clock_set in world.our_clock_sets:
        yield clock_set.at, f"our clock is set by {clock_set.seconds:.1f} s"
    if world.workspace_clock_set is not None:
        clock_set = world.workspace_clock_set
        yield clock_set.at, f"the workspace's clock is set by {clock_set.seconds:.1f} s"
    for schedule in world.schedules:
        for due_at in schedule.due:
            started = schedule.starts.get(due_at, "nothing")
            yield due_at, f"schedule {schedule.id} of flow {schedule.flow} starts {started}"


def _messages(world: World, played: Played) -> Iterator[Line]:
    received = Received(played.arrivals, world.name)
    for (kind, run), words in received.runs.items():
        for word in words:
            yield word.at, f"    >> {kind} {run} {word.word}"
    for (rule, _), others in received.other_alerts.items():
        for other in others:
            yield other.at, f"    >> ALERT {rule} {other.labels} {other.word}: {other.reason}"
    for at, state in received.workspace_states:
        yield at, f"    >> the workspace is {state}"
    for at, change in received.changes:
        yield at, f"    >> changed: {change}"
    for (rule, subject), alerts in received.alerts.items():
        for alert in alerts:
            start = (alert.starts_at - played.zero).total_seconds()
            evidence = ", ".join(f"{kind} {run}" for kind, run in sorted(alert.evidence))
            yield (
                alert.at,
                (
                    f"    >> ALERT {rule} {subject.kind} {subject.pipeline} {alert.word}, "
                    f"starts at {start:.1f}, evidence {evidence}"
                ),
            )
