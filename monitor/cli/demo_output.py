"""What the demo prints: a line for each event, and the table of the three counts."""

from __future__ import annotations

import sys
from typing import Any

from monitor.cli.demo_counts import Summary

_NO_TIME = "(no time)           "


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_summary(summary: Summary) -> int:
    """Print the three counts side by side and return the exit code."""
    line = "{:<10} {:<10} {:>8} {:>8} {:>8}"
    print_line(line.format("kind", "result", "sandbox", "mqtt", "metrics"))
    for row in summary.rows():
        print_line(line.format(*row))
    if empty := summary.empty_kinds:
        print_line(f"no run ended of: {', '.join(empty)}; let it run longer")
    print_line("the three counts agree" if summary.agrees else "the three counts DO NOT agree")
    return 0 if summary.agrees and not summary.empty_kinds else 1


def print_event(event: dict[str, Any]) -> None:
    """Print a CloudEvent as one line."""
    data = event["data"]
    # Never our own time in the workspace's place: a line would seem to come after the next one.
    at = event.get("time") or _NO_TIME
    what = event["type"].removeprefix("dataprep.").removesuffix(".v1")
    if what.startswith("alert."):
        summary = data["annotations"].get("summary") or data["labels"]["alertname"]
        print_line(f"{at}  {what:<14}  {data['labels']['severity']}  {summary}")
        return
    run = data.get("run")
    if run is None:
        print_line(f"{at}  {what:<14}  {data['what']}: {data['before']} -> {data['after']}")
        return
    pipeline = data["pipeline"].get("name") or "unknown"
    error = f": {run['error']}" if run.get("error") else ""
    print_line(f"{at}  {what:<14}  {run['kind']} {run['id']}  {pipeline}{error}")
