"""The settings of the daemon's process."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from monitor.model.settings import StartSetting


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The daemon's process."""

    uvloop: Annotated[
        bool,
        StartSetting(
            "Run on uvloop, which takes a tenth less processor time. Where it is not installed, or "
            "with false, the daemon runs on Python's own event loop."
        ),
    ] = True
