"""What it costs to evaluate an event by many rules, in processor time of this process.

Failures of 10,000 pipelines, one after the other, go through what alerting does with an event
before it is stored: the rules that match are found and evaluated, and their memory is encoded as it
is stored. With 10 rules and with 1,000 exactly one matches each event, so the two should cost the
same; beside them 1,000, ten of them matching.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.rules.compiled import Compiled, Traits
from monitor.alerting.rules.contract import AnyRuleDefinition, EventInput, Firing
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from tests.bench.figures import Figure, ratios, table

TITLE = "Evaluation of rules"
_BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
WORKSPACE = "acme"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    pipelines: int = 10_000


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the cost of an event for each set of rules, and the ratio of many to few."""
    sizes = sizes or Sizes()
    kinds = {
        "10 rules, one matches": Compiled(failure_rules(f"{literal}*" for literal in range(10))),
        "1,000 rules, one matches": Compiled(
            failure_rules(f"{literal:03d}*" for literal in range(1_000))
        ),
        "1,000 rules, ten match": Compiled(
            failure_rules(f"{literal % 100:02d}*" for literal in range(1_000))
        ),
    }
    costs: dict[str, list[float]] = {name: [] for name in kinds}
    events = [failure(number, pipeline=number) for number in range(sizes.pipelines)]
    for number in range(-1, sizes.repetitions):
        for name, compiled in kinds.items():
            cost = _cost(compiled, events)
            if number >= 0:  # the first repetition only warms all up
                costs[name].append(cost)
    few, many, ten = (
        Figure(name=name, values=tuple(values), unit="us") for name, values in costs.items()
    )
    return [
        few,
        many,
        ratios("1,000 rules over 10", many, few, target=1.3),
        ten,
    ]


def failure_rules(globs: Iterable[str]) -> tuple[RuleSettings, ...]:
    """Return a rule for each glob of pipelines' names."""
    return tuple(
        msgspec.structs.replace(
            default_rule(RuleKind.RUN_FAILED), name=f"rule-{number}", match=Match(pipeline=(glob,))
        )
        for number, glob in enumerate(globs)
    )


def _cost(compiled: Compiled, events: list[RunEvent]) -> float:
    """Return microseconds for one event."""
    memories: dict[tuple[str, str], bytes] = {}
    firing = 0
    began = time.process_time()
    for event in events:
        firing += _on_event(compiled, event, memories)
    seconds = time.process_time() - began
    if firing < len(events):
        raise RuntimeError(f"{firing} firing of {len(events)} failures")
    return 1e6 * seconds / len(events)


def _on_event(compiled: Compiled, event: RunEvent, memories: dict[tuple[str, str], bytes]) -> int:
    run = event.run
    pipeline = run.pipeline
    if pipeline is None:
        return 0
    traits = Traits(
        workspace=WORKSPACE,
        kind=run.key.kind,
        pipeline=pipeline.name,
        pipeline_id=pipeline.id,
        folder="",
        owner=run.owner,
        trigger=run.trigger,
    )
    event_input = EventInput(event=event, root_run=run.key)
    return sum(
        _evaluate(rule.settings, rule.definition, event_input, memories)
        for rule in compiled.rules_for_event(event.type, traits)
    )


def _evaluate(
    settings: RuleSettings,
    definition: AnyRuleDefinition,
    event_input: EventInput,
    memories: dict[tuple[str, str], bytes],
) -> bool:
    if definition.on_event is None:
        return False
    key = (settings.name, event_input.root_run.id)
    stored = memories.get(key)
    memory = None if stored is None else msgspec.json.decode(stored, type=definition.memory)
    evaluation = definition.on_event(event_input, memory, settings)
    if evaluation.memory is not None:
        memories[key] = msgspec.json.encode(evaluation.memory)
    return isinstance(evaluation.result, Firing)


def failure(number: int, *, pipeline: int) -> RunEvent:
    """Return the failure of run ``number`` of that pipeline, at ``number`` seconds."""
    key = RunKey(WORKSPACE, RunKind.JOB_GROUP, str(number))
    finished_at = _BEGAN + timedelta(seconds=number)
    run = RunState(
        key=key,
        status=Status.FAILED,
        finished_at=finished_at,
        pipeline=Pipeline(
            kind=PipelineKind.FLOW,
            id=str(pipeline),
            name=f"{pipeline % 1_000:03d} orders {pipeline}",
        ),
        trigger=Trigger.SCHEDULE,
        owner="ada@example.com",
        error="Column 'amount' could not be converted to Decimal",
        confirmed_at=finished_at,
        confirmed_by=Source.POLL,
    )
    return RunEvent(
        id=run_event_id(key, EventType.RUN_FAILED),
        type=EventType.RUN_FAILED,
        run=run,
        before=Status.RUNNING,
        occurred_at=finished_at,
        recorded_at=finished_at,
        observed_by=Source.POLL,
    )


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
