"""Templates, and what they are compiled to: kept in memory, and as Python keeps modules on disk.

To compile all of them takes a fifth of the processor time of a start. The files are beside the
compiled modules of this folder; where that cannot be written, every process compiles them again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import sys
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

import jinja2
from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
    select_autoescape,
)
from jinja2.bccache import Bucket


class CompiledTemplates(FileSystemBytecodeCache):
    """Code by template, used only where the same source is compiled by the same program."""

    def __init__(self, folder: Path, *, compiled_by: str) -> None:
        super().__init__(str(folder), f"%s.{sys.implementation.cache_tag}.jinja")
        self._compiled_by = compiled_by
        # By key and checksum; servers of one process, as in tests, share it.
        self._code: dict[tuple[str, str], CodeType] = {}

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256(f"{self._compiled_by}\0{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))
        if bucket.code is None:
            with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):  # cut by a crash
                super().load_bytecode(bucket)
            self._keep(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._keep(bucket)
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):  # as an installation that only root may change
                super().dump_bytecode(bucket)

    def _keep(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._code[bucket.key, bucket.checksum] = bucket.code


def templates_of_page() -> Environment:
    """Return the templates of the page, to which filters and globals have to be added."""
    return Environment(
        loader=PackageLoader("monitor.web.page"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        # What a filter makes of a constant is not compiled: the filter may change.
        optimized=False,
        undefined=StrictUndefined,  # a renamed attribute fails, instead of showing nothing
        bytecode_cache=_compiled(),
        auto_reload=False,  # an upgrade in place must not mix new templates with old code
    )


@functools.cache
def _compiled() -> CompiledTemplates:
    folder = Path(cache_from_source(__file__)).parent
    # This file says how they are compiled.
    program = f"{jinja2.__version__} {Path(__file__).read_text(encoding='utf-8')}"
    return CompiledTemplates(folder, compiled_by=program)
