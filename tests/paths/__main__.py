"""Prints how wide the code is: lines by room, and files and calls of the paths through it.

``python -m tests.paths``, or with ``--functions`` each function that was entered, by its file.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import structlog

from tests.paths.call_tracer import TracedPath
from tests.paths.daemon_paths import Aim, trace_paths
from tests.paths.lines import line_report


def path_report(aim: Aim, traced: TracedPath) -> Iterable[str]:
    """Yield what one path took, by room."""
    verdict = "met" if len(traced.files) <= aim.files else "MISSED"
    yield (
        f"{aim.title}: {len(traced.files)} files (aim {aim.files}, {verdict}), "
        f"{traced.calls:,} calls, {traced.shard_lookups} lookups of shards"
    )
    for room, files in traced.files_by_room().items():
        calls = sum(count for (file, _), count in traced.functions.items() if file in files)
        names = " ".join(file.removeprefix(f"{room}/").removesuffix(".py") for file in files)
        yield f"  {len(files):>3} files {calls:>5,} calls  {room}: {names}"


def function_report(traced: TracedPath) -> Iterable[str]:
    """Yield each file of a path, and the functions that were entered there."""
    for file in sorted(traced.files):
        entered = {name: count for (of, name), count in traced.functions.items() if of == file}
        yield f"  {sum(entered.values()):>5,} calls  {file}"
        yield from (f"    {count:>5,}  {name}" for name, count in sorted(entered.items()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.paths")
    parser.add_argument("--functions", action="store_true")
    has_functions = parser.parse_args().functions
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as folder:
        paths = asyncio.run(trace_paths(Path(folder)))
    lines = [*line_report()]
    for aim, traced in paths.items():
        lines += ["", *path_report(aim, traced)]
        lines += function_report(traced) if has_functions else ()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
