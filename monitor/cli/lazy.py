"""The modules that do the work of commands. Each loads when a command first uses it.

The module of a command holds its options and little more: help and completion read nothing else,
so a key press in a shell waits for no HTTP client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from monitor.cli import (
        access_entries,
        admin,
        api_call,
        backtest,
        channel_tests,
        completed_names,
        configuration_report,
        daemon_address,
        daemon_process,
        demo_session,
        doctor_report,
        event_lines,
        event_stream,
        message_previews,
        run_wait,
        sandbox_faults,
        sandbox_process,
        settings_files,
        store_dump,
        store_examination,
    )

__all__ = [
    "access_entries",
    "admin",
    "api_call",
    "backtest",
    "channel_tests",
    "completed_names",
    "configuration_report",
    "daemon_address",
    "daemon_process",
    "demo_session",
    "doctor_report",
    "event_lines",
    "event_stream",
    "message_previews",
    "run_wait",
    "sandbox_faults",
    "sandbox_process",
    "settings_files",
    "store_dump",
    "store_examination",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(name)
        return importlib.import_module(f"monitor.cli.{name}")
