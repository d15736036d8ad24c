"""The module that prints on a terminal. It loads, with its library, when there is one.

Apart from `lazy`, because modules that load there print tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from monitor.cli import terminal

__all__ = ["terminal"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(name)
        return importlib.import_module(f"monitor.cli.{name}")
