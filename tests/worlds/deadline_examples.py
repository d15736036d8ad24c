"""A flow with one deadline, and what a daemon may say of it, for tests of the judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.worlds.deadline_judge import deadline_findings
from tests.worlds.findings import Kind
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import Arrival, Received
from tests.worlds.script import Deadline, DeadlineDays, End, JobGroup, Pipeline, World

ZERO = datetime(2026, 10, 25, 0, 55, tzinfo=UTC)  # 02:55 in Berlin; it is 02:00 again at 300
FLOW, RULE, UNTIL = 1, "deadline-0-0", 700.0
AT = 240.0  # the deadline is at 02:59
DEADLINE = Deadline(
    rule=RULE,
    kind="flow",
    pipeline=FLOW,
    zone="Europe/Berlin",
    due_minutes=4,
    opens_minutes=1,
    is_by_shown_clock=False,
    counts="started",
    days=DeadlineDays.EVERY,
)


def example_world(*groups: JobGroup, **changes: Any) -> World:
    """Return a world of one flow with these runs and one deadline."""
    values = {
        "seed": 0,
        "ingredients": (),
        "flows": (Pipeline(id=FLOW, name="Flow", parts=(2,)),),
        "deadlines": (DEADLINE,),
        "begins_at": ZERO,
    }
    return World(job_groups=groups, **{**values, **changes})


def run_of(
    ended: float,
    *,
    seconds: float = 20,
    shown_from: float | None = None,
    end: End = End.COMPLETE,
) -> JobGroup:
    """Return a run that took so many seconds; its end is ``shown_from`` then, or at once."""
    return JobGroup(
        id=int(ended),
        flow=FLOW,
        recipe=2,
        created=ended - seconds,
        started=ended - seconds + 1,
        ended=ended,
        end=end,
        shown_from=ended - seconds,
        end_shown_from=shown_from or ended,
    )


def said_met(
    at: float,
    *,
    deadline: float = AT,
    flow: int = FLOW,
    number: int = 1,
    zero: datetime = ZERO,
) -> Arrival:
    """Return the event of a deadline that is met."""
    event = {
        "id": f"world-0:deadline:{number}",
        "type": "dataprep.deadline.met.v1",
        "data": {
            "what": f"deadline:{RULE}:flow/{flow}",
            "after": (zero + timedelta(seconds=deadline)).isoformat(),
        },
    }
    return Arrival(at, "dataprep/v1/world-0/event/deadline", json.dumps(event).encode())


def said_alert(
    at: float,
    word: str,
    *,
    deadline: float = AT,
    number: int = 1,
    rule: str = RULE,
    zero: datetime = ZERO,
) -> Arrival:
    """Return an event of an alert that starts when the ``deadline`` was, or at that second."""
    event = {
        "id": f"{rule}:{word}:{number}",
        "type": f"dataprep.alert.{word}.v1",
        "data": {
            "labels": {"kind": "flow_run", "pipeline_id": str(FLOW)},
            "startsAt": (zero + timedelta(seconds=deadline)).isoformat(),
            "evidence": [],
        },
    }
    return Arrival(at, f"dataprep/v1/world-0/alert/{rule}/01/event", json.dumps(event).encode())


def texts_of(
    world: World, *arrivals: Arrival, stops: Sequence[Span] = (), blind: Sequence[Span] = ()
) -> list[str]:
    """Return what the judge finds, without the name of the deadline."""
    zero = world.begins_at or ZERO
    played = Played(
        zero=zero,
        planned=zero,
        until=UNTIL,
        arrivals=sorted(arrivals, key=lambda arrival: arrival.at),
        delivered={},
        blind={world.name: [*world.outages, *stops, *blind]},
        faces={},
        stops=list(stops),
    )
    found = list(deadline_findings(world, Received(played.arrivals, world.name), played))
    assert {finding.kind for finding in found} <= {Kind.DEADLINES}
    return [finding.text.removeprefix(f"{RULE} at {AT:.0f} ") for finding in found]
