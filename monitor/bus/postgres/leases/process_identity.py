"""The process of a daemon, so that its successor sees at once that it is gone."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# After the name of the program, which may hold spaces and brackets: field 3 is the state, field 22
# the start in clock ticks since the boot.
_STATE, _STARTED = 0, 19


def this_process() -> str:
    """Return boot, process namespace, number and start of this process; "" where unknown."""
    where = _boot_and_namespace()
    started = _started(os.getpid())
    return f"{where}/{os.getpid()}/{started}" if where and started else ""


def is_surely_gone(process: str) -> bool:
    """True where that process was one of this machine, since its boot, and has ended.

    Two containers have process namespaces of their own: of the other's processes nothing is known.
    """
    where, _, ending = process.rpartition("/")
    where, _, number = where.rpartition("/")
    if not where or where != _boot_and_namespace() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists, and is another user's
    started = _started(int(number))
    return started is not None and started != ending


def _boot_and_namespace() -> str:
    try:
        boot = _BOOT_ID.read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return ""


def _started(number: int) -> str | None:
    """Return when the process started; "" where it has ended unnoticed."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[_STATE] in {"Z", "X"} else fields[_STARTED]
