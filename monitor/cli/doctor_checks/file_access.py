"""Checks whether other users can read the secrets, or write what the daemon trusts.

Judged by the rights of the file and of every folder above it. Root counts as the same user, and a
group of one user as that user.
"""

from __future__ import annotations

import grp
import stat
from collections.abc import Iterable, Sequence
from os import stat_result
from pathlib import Path

from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.words import listed

_SECRETS, _CONFIGURATION = "secret files", "configuration file"
# Every file there may be read by every user of the container, which has only the daemon's.
_CONTAINER_SECRETS = Path("/run/secrets")
_SHOWN = 3


def check_files(configuration: Path, secrets: Sequence[Path]) -> list[CheckLine]:
    """Check the configuration file and the files from which secrets were read."""
    try:
        return [_configuration_line(configuration), *_secret_lines(secrets)]
    except OSError as exc:  # a file that was there a moment ago
        found = f"{exc.filename} cannot be looked at: {exc.strerror}"
        return [failed(_CONFIGURATION, found, "run doctor again")]


def _configuration_line(path: Path) -> CheckLine:
    writers = _writers(path)
    if not writers:
        return ok(_CONFIGURATION, f"no other user can change {path}")
    return warning(
        _CONFIGURATION,
        f"{listed(writers, most=_SHOWN)} can change {path}, and so send the token and every event "
        "elsewhere",
        "chmod go-w that, or move the file to a folder that only you can change",
    )


def _secret_lines(secrets: Sequence[Path]) -> list[CheckLine]:
    if not secrets:
        return []
    exposed: list[str] = []
    for path in dict.fromkeys(secrets):
        if readers := _readers(path):
            exposed.append(f"{listed(readers, most=_SHOWN)} can read {path}")
        if writers := _writers(path):
            exposed.append(f"{listed(writers, most=_SHOWN)} can change {path}")
    if not exposed:
        return [ok(_SECRETS, f"no other user can read or change them ({len(set(secrets))})")]
    hint = "chmod 600 them; the user that runs the daemon has to be their owner"
    return [warning(_SECRETS, "; ".join(exposed), hint)]


def _readers(path: Path) -> list[str]:
    real = path.resolve()
    if real.is_relative_to(_CONTAINER_SECRETS):
        return []
    status, folders = real.stat(), [folder.stat() for folder in real.parents]
    group = status.st_gid
    if status.st_mode & stat.S_IROTH and all(folder.st_mode & stat.S_IXOTH for folder in folders):
        return ["everybody"]
    if (
        status.st_mode & stat.S_IRGRP
        and _is_of_others(group, status.st_uid)
        and all(_admits(folder, group) for folder in folders)
    ):
        return [f"the group {_group_name(group)}"]
    return []


def _writers(path: Path) -> list[str]:
    """Return who can write the file, or put another one in its place."""
    real = path.resolve()
    writers: set[str] = set()
    for place in (real, *real.parents):
        status = place.stat()
        # In a folder like /tmp a user cannot remove the files of others.
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
            continue
        if status.st_mode & stat.S_IWOTH:
            writers.add(f"everybody (by {place})")
        elif status.st_mode & stat.S_IWGRP and _is_of_others(status.st_gid, status.st_uid):
            writers.add(f"the group {_group_name(status.st_gid)} (by {place})")
    return sorted(writers)


def _admits(folder: stat_result, group: int) -> bool:
    wanted = stat.S_IXGRP if folder.st_gid == group else stat.S_IXOTH
    return bool(folder.st_mode & wanted)


def _is_of_others(group: int, owner: int) -> bool:
    """Return whether the group can hold anybody but root and the owner of the file."""
    return group != 0 and not (group == owner and not _members(group))


def _members(group: int) -> Iterable[str]:
    try:
        return grp.getgrgid(group).gr_mem
    except KeyError:
        return ()


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
