"""What the faces show while something cannot be followed: read at a few times of a world."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.app.daemon_http import Face
from tests.worlds.blindness import blindnesses, unknown_from
from tests.worlds.script import World

_BEFORE_THE_END = 2.0


class Glimpse(Struct, frozen=True, kw_only=True):
    """What is shown of every workspace at a time."""

    at: float
    reachability: dict[str, str]  # by workspace
    active_kinds: dict[str, set[str]]  # by workspace: kinds of runs with a number that is shown
    # By workspace, kind and name of the firing alerts that do not say that their end is unknown.
    judged_alerts: dict[str, set[tuple[str, str]]] = {}


def glimpse_times(world: World, until: float) -> Iterator[float]:
    """Yield when to read the faces: as soon as all must be unknown, and before it is over."""
    for part in blindnesses(world):
        begin, end = unknown_from(part, world.outages), min(part.span.end, until)
        if part.kinds and begin < end - _BEFORE_THE_END:
            yield begin
            yield end - _BEFORE_THE_END


async def read_glimpse(face: Face, seconds: Callable[[], float]) -> Glimpse:
    """Read the faces now."""
    at = seconds()
    rows = (await face.json("/api/v1/workspaces"))["data"]
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for sample in await face.samples("dataprep_runs_active"):
        kinds[sample.labels["workspace"]].add(sample.labels["kind"])
    judged: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for alert in (await face.json("/api/v1/alerts"))["data"]:
        if alert["state"] == "firing" and alert["kind"] and not alert["unjudged"]:
            judged[alert["workspace"]].add((alert["kind"], alert["name"]))
    return Glimpse(
        at=at,
        judged_alerts=judged,
        reachability={row["workspace"]: row["reachability"] for row in rows},
        active_kinds=kinds,
    )
