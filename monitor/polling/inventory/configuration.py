"""Changes of the workspace's own settings, published with their old and new value."""

from __future__ import annotations

import secrets

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NoSuchObjectError, NotAvailableError, RequestRejectedError
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.inventory.masking import secret_names_in, tracked_settings
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.tracking.workspace_changes import TrackedValue

log = structlog.get_logger()

CONFIGURATION = "configuration"
_MASKING = "masking"  # key of the state entry that holds how secrets are digested
_SALT_BYTES = 16


class _Masking(Struct, frozen=True, kw_only=True):
    """What a secret setting is digested with, and which ones the workspace has called secret."""

    salt: bytes
    secret_names: frozenset[str] = frozenset()


_DECODER = msgspec.json.Decoder(_Masking)


class ConfigurationWatch:
    """Compares the settings with those of the last reading, also of one before a restart."""

    def __init__(self, context: PollContext, *, most: int) -> None:
        self._context = context
        self._most = most
        self._masking: _Masking | None = None

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context,
                "configuration",
                self.poll,
                forget=self.forget,
                needs=Capability.READ_CONFIGURATION,
            ),
        )

    async def poll(self) -> None:
        """Read all settings and publish what is new, changed or gone."""
        context = self._context
        # First what is secret: a failure here must not show what it would have hidden.
        masking = await self._known_masking()
        configuration = await context.client.inventory.configuration()
        settings = tracked_settings(
            configuration, secret_names=masking.secret_names, salt=masking.salt
        )
        changed = await context.observer.changes.learn_many(
            context.name, CONFIGURATION, self._bounded(settings), reports_additions=True
        )
        if changed:
            log.info("workspace configuration changed", workspace=context.name, names=changed)

    def forget(self) -> None:
        """Keep what is stored: if the settings can be read again, their changes are published."""

    def _bounded(self, settings: dict[str, TrackedValue]) -> dict[str, TrackedValue]:
        if len(settings) <= self._most:
            return settings
        log.warning(
            "settings left out of the comparison",
            workspace=self._context.name,
            settings=len(settings),
            compared=self._most,
        )
        return dict(sorted(settings.items())[: self._most])

    async def _known_masking(self) -> _Masking:
        context = self._context
        if self._masking is None:
            stored = await context.bus.state_entries(context.name, CONFIGURATION)
            self._masking = decode_entries(stored, _DECODER, topic=CONFIGURATION).get(_MASKING)
        known = self._masking or _Masking(salt=secrets.token_bytes(_SALT_BYTES))
        # What was called secret once stays so.
        names = known.secret_names | await self._names_served_as_secret()
        masking = msgspec.structs.replace(known, secret_names=names)
        if masking != self._masking:
            state_entry = context.state_entry(CONFIGURATION, _MASKING, msgspec.json.encode(masking))
            await context.observer.observe((), state_entries=(state_entry,))
            self._masking = masking
        return masking

    async def _names_served_as_secret(self) -> frozenset[str]:
        try:
            return secret_names_in(await self._context.client.inventory.configuration_schema())
        except (NotAvailableError, NoSuchObjectError, RequestRejectedError):
            return frozenset()  # then only names and values decide
