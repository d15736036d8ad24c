"""A wall clock of processes that a test sets while they run, by libfaketime.

Clocks that cannot be set, monotonic and boot time, stay the machine's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

_LIBRARIES = Path("/usr/lib")
# Under this name libfaketime is right for threads.
_LIBRARY = "*/faketime/libfaketimeMT.so.1"


class SetClock:
    """Start processes with its ``environment``; they see a change of the clock within a second."""

    def __init__(self, file: Path) -> None:
        """``file`` is made; the user of the processes must be able to read it."""
        libraries = list(_LIBRARIES.glob(_LIBRARY))
        if not libraries:
            reason = "libfaketime is not installed; `make servers` installs it"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        self._file = file
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.ahead_by(0)

    def ahead_by(self, seconds: float) -> None:
        """Let the clock show so many seconds more than the machine's, or less."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+.3f}\n")
        new.chmod(0o644)
        new.replace(self._file)  # no process may read half of it
