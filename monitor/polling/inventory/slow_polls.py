"""The slow polls of what a workspace tells beyond its runs, each switched on by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from monitor.catalogue.capabilities import Capability
from monitor.polling.following import Following
from monitor.polling.inventory.configuration import ConfigurationWatch
from monitor.polling.inventory.connections import Connections
from monitor.polling.inventory.objects import Objects
from monitor.polling.inventory.profiles import Profiles
from monitor.polling.inventory.tokens import Tokens
from monitor.polling.inventory.usage import Usage
from monitor.polling.settings import InventorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPoll:
    """One of them. ``forget`` drops what is known when it is switched off or offered no more."""

    name: str
    is_on: bool
    needs: Capability
    poll: Callable[[], Awaitable[object]]
    forget: Callable[[], None]


def slow_polls(following: Following) -> tuple[SlowPoll, ...]:
    """Return all of them; without any settings none is switched on."""
    settings = following.inventory or InventorySettings()
    is_read = following.inventory is not None
    objects, tokens, usage = Objects(following), Tokens(following), Usage(following)
    connections = Connections(following, at_once=settings.connections_at_once)
    configuration = ConfigurationWatch(following, most=settings.settings)
    profiles = Profiles(following, at_once=settings.profiles_at_once, outputs=settings.outputs)
    offered = (
        (settings.objects, "objects", Capability.COUNT_OBJECTS, objects),
        (settings.connections, "connections", Capability.READ_CONNECTIONS, connections),
        (settings.tokens, "tokens", Capability.READ_TOKENS, tokens),
        (settings.configuration, "configuration", Capability.READ_CONFIGURATION, configuration),
        (settings.usage, "usage", Capability.READ_USAGE, usage),
        (settings.profiles, "profiles", Capability.READ_PROFILES, profiles),
    )
    return tuple(
        SlowPoll(
            name=name,
            is_on=is_read and is_on,
            needs=needs,
            poll=part.poll,
            forget=part.forget,
        )
        for is_on, name, needs, part in offered
    )
