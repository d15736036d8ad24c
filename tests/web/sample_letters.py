"""Dead letters in the store of a server."""

from __future__ import annotations

from monitor.bus.contract import DeadLetter, Start, Step
from tests.web.site import Site


async def refused(site: Site, output: str, *, runs: int, reason: str = "413: too large") -> None:
    """Let an output refuse the starts of so many runs, a second after another, oldest first."""
    await site.bus.subscribe(output, start=Start.OLDEST)
    await site.observe(*(site.run(str(number)) for number in range(1, runs + 1)))
    for recorded in await site.bus.events(after=0, limit=runs):
        await site.clock.advance(1)
        letter = DeadLetter(
            position=recorded.position,
            event=recorded.event,
            reason=reason,
            refused_at=site.clock.now(),
        )
        step = Step(consumer=output, position=recorded.position, dead_letters=(letter,))
        await site.bus.advance(step, timeout_seconds=5)
