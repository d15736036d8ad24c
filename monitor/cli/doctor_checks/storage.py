"""Whether the store can be used, or a running daemon uses it. Leaves everything as it was."""

from __future__ import annotations

import asyncio

from monitor.bus.settings import StorageSettings
from monitor.cli.doctor_checks.addresses import Serving
from monitor.cli.doctor_checks.lines import CheckLine, failed, ok, warning
from monitor.cli.store_trial import try_store, user_name

_SUBJECT = "store"


async def check_storage(settings: StorageSettings, serving: Serving) -> list[CheckLine]:
    """Try the file and its folder, or report the daemon that holds the file."""
    trial = await asyncio.to_thread(try_store, settings.url)
    path = trial.path
    if trial.holder is not None:
        if not serving.is_free:
            return [ok(_SUBJECT, f"{path} is held by the running daemon, {trial.holder}")]
        return [
            warning(
                _SUBJECT,
                f"{path} is held by {trial.holder}, which does not listen on server.listen",
                "restart that daemon with this configuration, or name another file in storage.url",
            )
        ]
    if (obstacle := trial.obstacle) is not None:
        return [failed(_SUBJECT, f"{path} cannot be used: {obstacle.found}", obstacle.hint)]
    if trial.doubts:
        return [warning(_SUBJECT, doubt.found, doubt.hint) for doubt in trial.doubts]
    if trial.exists:
        found = f"{path} is there, no daemon holds it, and user {user_name()} can write it"
    else:
        found = f"{path} does not exist yet, and user {user_name()} can make it"
    return [ok(_SUBJECT, found)]
