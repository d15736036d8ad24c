"""To whom a message goes: the address of the channel, or the owner of what it is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec import Struct

from monitor.model.events import AlertEvent
from monitor.outputs.notify.lines import one_line
from monitor.outputs.notify.selection import Sendable
from monitor.tracking.live_state import LiveStateView

# An address as people have it; a workspace may name an owner in any other way.
_ADDRESS = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)")


class Recipient(Struct, frozen=True):
    """``address`` None: that of the channel. ``why`` says why that is not the owner's."""

    address: str | None = None
    why: str | None = None


CHANNEL = Recipient()


def owner_of(event: Sendable, view: LiveStateView, domains: Collection[str]) -> Recipient:
    """Return the owner of the flow or plan, where the workspace names an address in ``domains``."""
    pipeline = event.alert.pipeline if isinstance(event, AlertEvent) else event.run.pipeline
    if pipeline is None:
        return Recipient(why="This is about no flow or plan, so it has no owner.")
    _, owner = view.place(event.workspace, pipeline)
    if owner is None:
        return Recipient(why="The workspace does not show who owns this.")
    address = _ADDRESS.fullmatch(owner)
    if address is None:
        return Recipient(why=f"Its owner {one_line(owner)} has no mail address that is known.")
    if address[1].lower() not in domains:
        return Recipient(why=f"Its owner {owner} is in none of owner_domains.")
    return Recipient(address=owner)
