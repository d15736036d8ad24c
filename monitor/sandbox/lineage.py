"""What a recipe reads, through the recipes that it builds upon."""

from __future__ import annotations

from collections import deque

from monitor.sandbox.objects import Recipe
from monitor.sandbox.world import World


def dataset_ids_of(world: World, recipe: Recipe) -> tuple[int, ...]:
    """Return the imported datasets that a recipe reads, its own first, each once."""
    found: dict[int, None] = {}
    seen = {recipe.id}
    waiting = deque([recipe])
    while waiting:
        one = waiting.popleft()
        found.update(dict.fromkeys(one.dataset_ids))
        for upstream_id in one.upstream_ids:
            upstream = world.recipes.get(upstream_id, with_deleted=True)
            if upstream is not None and upstream_id not in seen:
                seen.add(upstream_id)
                waiting.append(upstream)
    return tuple(found)
