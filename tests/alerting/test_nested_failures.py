"""One failure that is seen more than once, by a part and by the run around it, is one alert."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import msgspec
import pytest

from monitor.bus.contract import Change
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Parents, RunKey, RunKind, RunState, Source, Status
from tests.alerting.engine_scenario import WORKSPACE, engine_scenario
from tests.alerting.run_samples import END, at, run_event, state

OK, BAD = Status.SUCCEEDED, Status.FAILED
FAILED_AT, RECEIVED_AT, SUCCEEDED_AT = at(-120), at(-119.961), at(-60)


def run_of(run_id: str, kind: RunKind, status: Status) -> RunState:
    finished_at = SUCCEEDED_AT if status is OK else FAILED_AT
    run = state(1, status, kind=kind, finished_at=finished_at)
    return msgspec.structs.replace(
        run, key=RunKey(WORKSPACE, kind, run_id), confirmed_at=END, confirmed_by=Source.POLL
    )


def seen() -> dict[str, RunEvent]:
    """Return what shows of a flow run whose part fails, and of a later one that succeeds.

    A callback reports the failure of the part. The workspace shows when that was later, to the
    second, which is a little earlier.
    """
    part = msgspec.structs.replace(
        run_of("1", RunKind.JOB_GROUP, BAD), parents=Parents(flow_run="8")
    )
    claimed = msgspec.structs.replace(
        part,
        finished_at=None,
        unconfirmed_end=BAD,
        unfinished_at=RECEIVED_AT,
        end_seen_at=RECEIVED_AT,
        confirmed_by=Source.CALLBACK,
    )
    return {
        "callback": run_event(claimed),
        "confirmed": run_event(part, EventType.RUN_CONFIRMED),
        "later success": run_event(run_of("9", RunKind.FLOW_RUN, OK)),
        "own end": run_event(run_of("8", RunKind.FLOW_RUN, BAD)),
    }


ORDERS = [
    order for order in permutations(seen()) if order.index("callback") < order.index("confirmed")
]


@pytest.mark.parametrize("order", ORDERS, ids=" then ".join)
async def test_a_failure_seen_by_part_and_run_fires_once(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    """After an outage its news come in any order: one alert fires, and is resolved."""
    events = seen()
    async with engine_scenario(tmp_path, start=END) as scenario:
        for name in order:
            event = events[name]
            await scenario.bus.commit(
                Change(runs=(event.run,), events=(event,)), timeout_seconds=10
            )
            await scenario.round()
        assert await scenario.words() == ["fired", "resolved"]
        await scenario.engine.restore()
        (alert,) = scenario.engine.past.of(scenario.engine.snapshot().alerts[0].fingerprint)
        assert f"{WORKSPACE}:job_group:1:failed" in alert.alert.evidence
