"""The one judge: compares everything that the daemon has said of a world with the truth."""

from __future__ import annotations

from collections.abc import Iterator

from tests.worlds.alert_judge import alert_findings
from tests.worlds.blind_judge import blind_findings
from tests.worlds.deadline_judge import deadline_findings
from tests.worlds.explain_judge import explain_findings
from tests.worlds.findings import Figures, Finding
from tests.worlds.gauge_judge import gauge_findings
from tests.worlds.notification_judge import notification_findings
from tests.worlds.play import Played
from tests.worlds.reason_judge import link_findings, reason_findings
from tests.worlds.received import Received
from tests.worlds.run_judge import lost_findings, run_findings
from tests.worlds.schedule_judge import schedule_findings
from tests.worlds.script import World
from tests.worlds.steady_judge import steady_findings
from tests.worlds.truth import own_ends, true_ends


def judge(worlds: list[World], played: Played) -> Figures:
    """Return what disagrees in the worlds of a batch."""
    findings = [finding for world in worlds for finding in _findings(world, played)]
    return Figures(worlds=tuple(worlds), findings=tuple(findings))


def _findings(world: World, played: Played) -> Iterator[Finding]:
    received = Received(played.arrivals, world.name)
    blind, delivered = played.blind[world.name], played.delivered[world.name]
    ends = true_ends(world, delivered, blind)
    faces = played.faces[world.name]
    yield from run_findings(
        world,
        received,
        delivered=delivered,
        blind=blind,
        until=played.until,
        forgotten=played.forgotten,
    )
    yield from lost_findings(world, received, played.stops, played.until)
    yield from alert_findings(world, ends, received, played)
    yield from blind_findings(world, received, played)
    yield from schedule_findings(world, received, played)
    yield from deadline_findings(world, received, played)
    yield from steady_findings(world, received, played)
    yield from notification_findings(world, received, played)
    yield from explain_findings(world, ends, received, faces, until=played.until)
    own = own_ends(world, blind)
    yield from gauge_findings(
        world,
        own,
        received,
        faces,
        until=played.until,
        is_store_older=bool(played.forgotten),
    )
    yield from link_findings(world, faces)
    yield from reason_findings(world, own, faces, until=played.until)
