"""Checks whether the store can be used, or a running daemon uses it. Changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from monitor.bus.sqlite.soundness import REPAIR, FoundDamage
from monitor.bus.sqlite.store_check import StoreCheck
from monitor.cli.database_check import check_database
from monitor.cli.doctor_checks.addresses import Serving
from monitor.cli.store_access import check_store_access, user_name
from monitor.config import Configuration
from monitor.model.checks import CheckLine, failed, ok, warning

_SUBJECT = "store"
# Read within a second; `store check` reads any.
_EXAMINED_BYTES = 64 * 1024 * 1024


async def check_storage(configuration: Configuration, serving: Serving) -> list[CheckLine]:
    """Try the file and its folder, or report the daemon that holds the file; or try a database."""
    settings = configuration.storage
    if (address := settings.postgres) is not None:
        return await check_database(configuration, address)
    checked = await asyncio.to_thread(check_store_access, settings.url)
    if checked.holder is not None:
        return [_holder_line(checked.path, checked.holder, serving)]
    if (problem := checked.problem) is not None:
        return [failed(_SUBJECT, f"{checked.path} cannot be used: {problem.found}", problem.hint)]
    if checked.doubts:
        return [warning(_SUBJECT, doubt.found, doubt.hint) for doubt in checked.doubts]
    return [await asyncio.to_thread(_usable, checked.path)]


def _holder_line(path: Path, holder: str, serving: Serving) -> CheckLine:
    if not serving.is_free:
        return ok(_SUBJECT, f"{path} is held by the running daemon, {holder}")
    return warning(
        _SUBJECT,
        f"{path} is held by {holder}, which does not listen on server.listen",
        "restart that daemon with this configuration, or name another file in storage.url",
    )


def _usable(path: Path) -> CheckLine:
    user = user_name()
    if not path.exists():
        return ok(_SUBJECT, f"{path} does not exist yet, and user {user} can make it")
    if damage := _damage(path):
        first = f"{damage[0].part}: {damage[0].what}"
        return failed(_SUBJECT, f"{path} is damaged, {len(damage)} problems: {first}", REPAIR)
    return ok(_SUBJECT, f"{path} is there, no daemon holds it, and user {user} can write it")


def _damage(path: Path) -> list[FoundDamage]:
    """Return what is wrong with a store of moderate size; of a larger one nothing.

    Nor of one whose daemon was killed: to read its write-ahead log makes a file, which a daemon of
    another user could not open.
    """
    size = path.stat().st_size
    if not 0 < size <= _EXAMINED_BYTES or path.with_name(f"{path.name}-wal").exists():
        return []
    return StoreCheck(path).run(lambda _: None)
