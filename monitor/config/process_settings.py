"""The settings of the daemon's process and of its log."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from monitor.model.settings import Setting, StartSetting


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The daemon's process."""

    uvloop: Annotated[
        bool,
        StartSetting(
            "Run on uvloop, which takes a tenth less processor time. Where it is not installed, or "
            "with false, the daemon runs on Python's own event loop."
        ),
    ] = True


class LogForm(StrEnum):
    """Format of log lines. ``auto`` is ``console`` on a terminal and ``json`` elsewhere."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important events that are still logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(Struct, frozen=True, kw_only=True):
    """Logging, to stderr."""

    level: Annotated[LogLevel, Setting("Minimum level of log lines.")] = LogLevel.INFO
    form: Annotated[
        LogForm, Setting("Format of log lines; auto is console on a terminal and json elsewhere.")
    ] = LogForm.AUTO
    slow_steps: Annotated[
        bool,
        Setting(
            "For debugging: log each step that held the event loop for more than 2 ms, with "
            "the task that took it. It doubles the daemon's processor time."
        ),
    ] = False
