"""Runs all benchmarks, or those named as arguments, and prints one table for each.

Exits 1 where a ratio misses its target. A target is a wish of this project for an idle machine
with two cores, so nothing else depends on that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from tests.bench import (
    alert_engine,
    alert_rules,
    alerts,
    backtest,
    ingest,
    job_library,
    node_red,
    requests,
    run_memory,
    scrapes,
    subscriber,
)
from tests.bench.figures import table

BENCHMARKS = {
    "ingest": ingest,
    "subscriber": subscriber,
    "node_red": node_red,
    "scrapes": scrapes,
    "requests": requests,
    "run_memory": run_memory,
    "job_library": job_library,
    "alerts": alerts,
    "alert_rules": alert_rules,
    "alert_engine": alert_engine,
    "backtest": backtest,
}


def main(names: Sequence[str]) -> int:
    """Run what is named, all where nothing is."""
    is_met = True
    for name in names or list(BENCHMARKS):
        module = BENCHMARKS[name]
        figures = asyncio.run(module.measure())
        is_met = is_met and all(figure.is_met for figure in figures)
        sys.stdout.write(table(module.TITLE, figures) + "\n")
        sys.stdout.flush()
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
