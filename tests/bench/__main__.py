"""Runs all benchmarks, or those named as arguments, and prints one table for each.

``--slowed`` holds each server to a quarter of the machine's processors, and leaves out what has no
server. ``--save FILE`` keeps the figures. ``compare OLD NEW`` prints two such files beside each
other, ``rows FILE`` the Markdown rows of a file's targets.

Exits 1 where a ratio misses its target. A target is a wish of this project for an idle machine
with two cores, so nothing else depends on that.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from tests.bench import (
    alert_engine,
    alert_rules,
    alerts,
    backtest,
    cluster,
    ended_runs,
    idle_shards,
    ingest,
    job_library,
    outage,
    page_bytes,
    page_reads,
    page_viewers,
    pipelines,
    requests,
    run_memory,
    stores,
    subscriber,
)
from tests.bench.figures import Figure, table
from tests.bench.results import Measured, comparison, load, results, save, target_rows
from tests.bench.slowed import QUARTER

BENCHMARKS = {
    "ingest": ingest,
    "subscriber": subscriber,
    "outage": outage,
    "pipelines": pipelines,
    "requests": requests,
    "run_memory": run_memory,
    "ended_runs": ended_runs,
    "job_library": job_library,
    "alerts": alerts,
    "alert_rules": alert_rules,
    "alert_engine": alert_engine,
    "backtest": backtest,
    "page_reads": page_reads,
    "page_viewers": page_viewers,
    "page_bytes": page_bytes,
    "stores": stores,
    "idle_shards": idle_shards,
    "cluster": cluster,
}


# What has a server that can be slowed down. One core kept busy beside would leave it nothing.
SLOWED: dict[str, Callable[[], Coroutine[None, None, list[Figure]]]] = {
    "ingest": lambda: ingest.measure(ingest.Sizes(share=QUARTER)),
    "subscriber": lambda: subscriber.measure(
        subscriber.Sizes(
            share=QUARTER,
            paces=tuple(pace for pace in subscriber.Sizes().paces if not pace.is_core_busy),
        )
    ),
    "pipelines": lambda: pipelines.measure(pipelines.Sizes(share=QUARTER)),
    "alerts": lambda: alerts.measure(alerts.Sizes(share=QUARTER, with_default=False)),
    "page_reads": lambda: page_reads.measure(page_reads.Sizes(share=QUARTER)),
    "page_viewers": lambda: page_viewers.measure(page_viewers.Sizes(share=QUARTER)),
}


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return the exit code."""
    match list(arguments):
        case ["compare", old, new]:
            sys.stdout.write(comparison(load(Path(old)), load(Path(new))))
            return 0
        case ["rows", saved]:
            sys.stdout.write(target_rows(load(Path(saved))))
            return 0
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--slowed", action="store_true", help="each server on a quarter")
    parser.add_argument("--save", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    possible = list(SLOWED if options.slowed else BENCHMARKS)
    if unknown := set(options.names) - set(possible):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    benchmarks: dict[str, Measured] = {}
    for name in options.names or possible:
        benchmarks[name] = _measure(name, is_slowed=options.slowed)
        if options.save is not None:  # after each, so that one that fails loses no other
            save(options.save, results(benchmarks, share=QUARTER if options.slowed else 1.0))
    return 0 if all(_is_met(measured) for measured in benchmarks.values()) else 1


def _measure(name: str, *, is_slowed: bool) -> Measured:
    module, began = BENCHMARKS[name], time.monotonic()
    figures = asyncio.run(SLOWED[name]() if is_slowed else module.measure())
    sys.stdout.write(table(module.TITLE, figures) + "\n")
    sys.stdout.flush()
    return Measured(title=module.TITLE, figures=tuple(figures), seconds=time.monotonic() - began)


def _is_met(measured: Measured) -> bool:
    return all(figure.is_met for figure in measured.figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
