"""The flow runs of observed job groups, and whether they precede the start of following."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model.observations import Observation, ObservationOutcome
from monitor.polling.context import PollContext

Observed = tuple[Observation, ObservationOutcome]


async def by_flow_run(
    context: PollContext, observed: Sequence[Observed]
) -> dict[str, list[Observation]]:
    """Return the job groups among these that the store holds, by the id of their flow run."""
    # What the observer has not stored shows nothing yet.
    unstored = (ObservationOutcome.NEEDS_DETAIL, ObservationOutcome.UNCONFIRMED)
    stored = [observation for observation, outcome in observed if outcome not in unstored]
    # A row that does not show its flow run is not read again where the store knows it.
    unlinked = [run.key for run in stored if run.parents.flow_run is None]
    known = await context.observer.known(unlinked) if unlinked else {}
    groups: dict[str, list[Observation]] = {}
    for observation in stored:
        state = known.get(observation.key)
        parents = observation.parents if state is None else state.parents
        if parents.flow_run is not None:
            groups.setdefault(parents.flow_run, []).append(observation)
    return groups


async def are_old(context: PollContext, groups: Sequence[Observation]) -> bool:
    """True where all of them ended before we followed: then their flow run may have, too."""
    keys = [group.key for group in groups]
    states = await context.observer.known(keys)
    return all(key in states and states[key].historical for key in keys)
