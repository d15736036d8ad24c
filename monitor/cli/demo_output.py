"""The output of the demo: where to look, a line for each event, and the table of the counts."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.text import Text

from monitor.cli.demo_mailbox import ReceivedMail

Ends = Mapping[tuple[str, str], int]  # (kind, result) -> how many runs ended so

_RESULTS = ("succeeded", "failed", "canceled", "lost")

TIE = "\N{NO-BREAK SPACE}"
_NO_TIME = "(no time)"
_SECOND = len("2026-11-22T10:00:00")
_WIDEST = 100  # columns of a paragraph
_TIME_WIDTH, _EVENT_WIDTH, _KIND_WIDTH, _ID_WIDTH = 20, 14, 9, 5
_STYLES = {
    "run.succeeded": "green",
    "run.failed": "red",
    "run.canceled": "yellow",
    "run.lost": "yellow",
    "alert.fired": "bold red",
    "alert.resolved": "bold green",
}
_QUIET_STYLE = "dim"  # of what only begins


class Summary(Struct, frozen=True, kw_only=True):
    """The counts of each kind of run that can be followed in the edition."""

    kinds: tuple[str, ...]
    ledger: Counter[tuple[str, str]]
    mqtt: Counter[tuple[str, str]]
    metrics: Counter[tuple[str, str]]

    @property
    def agrees(self) -> bool:
        """True when all three are equal for every kind and result."""
        return all(
            self.ledger[kind, result] == self.mqtt[kind, result] == self.metrics[kind, result]
            for kind in self.kinds
            for result in _RESULTS
        )

    @property
    def empty_kinds(self) -> list[str]:
        """Kinds without an ended run, so that nothing was shown."""
        return [
            kind for kind in self.kinds if not any(self.ledger[kind, result] for result in _RESULTS)
        ]

    def rows(self) -> Iterable[tuple[str, ...]]:
        """Yield kind, result and the three counts, where one of them is not 0."""
        for kind in self.kinds:
            for result in _RESULTS:
                counts = [source[kind, result] for source in (self.ledger, self.mqtt, self.metrics)]
                if any(counts):
                    yield kind, result, *map(str, counts)


def ends_of_ledger(results: Mapping[str, Mapping[str, int]]) -> Counter[tuple[str, str]]:
    """Return the sandbox's own count."""
    return Counter(
        {(kind, result): n for kind, counted in results.items() for result, n in counted.items()}
    )


def ends_of_metrics(text: str) -> Counter[tuple[str, str]]:
    """Return the count of a scrape, read as a scraper reads it."""
    ends: Counter[tuple[str, str]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "dataprep_runs_total":
                ends[sample.labels["kind"], sample.labels["result"]] += int(sample.value)
    return ends


class DemoOutput:
    """Prints on stdout, in colours where that is a terminal and NO_COLOR is not set."""

    def __init__(self, *, shows_events: bool = True) -> None:
        self._console = Console(highlight=False)
        self._shows_events = shows_events

    def print_line(self, line: str, *, style: str = "") -> None:
        # As text, so that a name in square brackets is not taken for a style; in one line, so that
        # what reads lines reads all of it.
        if self._console.no_color:
            style = ""
        self._console.print(Text(line, style=style), soft_wrap=True)

    def print_paragraph(self, text: str) -> None:
        """Print a text between two empty lines, broken into lines that fit the terminal.

        No line ends at a `TIE`, which is printed as a space.
        """
        width = min(_WIDEST, self._console.width) if self._console.is_terminal else _WIDEST
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        for line in ("", *lines, ""):
            self.print_line(line.replace(TIE, " "))

    def print_event(self, event: dict[str, Any]) -> None:
        """Print a CloudEvent as one line of columns, unless events are switched off."""
        if not self._shows_events:
            return
        what = event["type"].removeprefix("dataprep.").removesuffix(".v1")
        # Never our own time in the workspace's place: a line would seem to come after the next one.
        at = event["time"][:_SECOND] + "Z" if event.get("time") else _NO_TIME
        columns = f"{at:<{_TIME_WIDTH}}  {what:<{_EVENT_WIDTH}}  {_details(event['data'], what)}"
        self.print_line(columns, style=_STYLES.get(what, _QUIET_STYLE))

    def print_mail(self, mail: ReceivedMail) -> None:
        """Print that a mail has come as one line of the same columns."""
        if self._shows_events:
            at = f"{mail.received:%Y-%m-%dT%H:%M:%SZ}"
            columns = f"{at:<{_TIME_WIDTH}}  {'mail':<{_EVENT_WIDTH}}  {mail.recipient}"
            self.print_line(f"{columns}: {mail.subject}", style="bold")

    def print_summary(self, summary: Summary) -> int:
        """Print the three counts side by side and return the exit code."""
        line = "{:<10} {:<10} {:>8} {:>8} {:>8}"
        self.print_line(line.format("kind", "result", "sandbox", "mqtt", "metrics"))
        for row in summary.rows():
            self.print_line(line.format(*row))
        if empty := summary.empty_kinds:
            self.print_line(f"no run ended of: {', '.join(empty)}; let it run longer")
        agrees = summary.agrees
        self.print_line("the three counts agree" if agrees else "the three counts DO NOT agree")
        return 0 if agrees and not empty else 1


def _details(data: dict[str, Any], what: str) -> str:
    if what.startswith("alert."):
        labels = data["labels"]
        summary = data["annotations"].get("summary") or labels["alertname"]
        return f"{labels['severity']:<{_KIND_WIDTH}}  {summary}"
    run = data.get("run")
    if run is None:
        return f"{data['what']}: {data['before']} -> {data['after']}"
    pipeline = data["pipeline"].get("name") or "unknown"
    error = f": {run['error']}" if run.get("error") else ""
    return f"{run['kind']:<{_KIND_WIDTH}}  {run['id']:>{_ID_WIDTH}}  {pipeline}{error}"
