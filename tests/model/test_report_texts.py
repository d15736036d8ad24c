"""A report in words: narrow lines, no markup of names, nothing left out in silence."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import msgspec
import pytest

from monitor.model.report_texts import (
    MOST_LINES,
    report_html,
    report_markdown,
    report_sections,
    report_text,
)
from monitor.model.reports import (
    Report,
    ReportedFailure,
    RunCount,
    SlowRun,
    UnwatchedTime,
    summary_of,
)
from monitor.model.runs import PipelineKind, RunKind, Status

UNTIL = datetime(2026, 11, 28, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVIL = '<img src=x onerror="alert(1)"> [here](http://evil) *b* \u202e # `c`\n## head | x'


def failure(name: str = "orders", **more: object) -> ReportedFailure:
    made = {
        "workspace": "acme",
        "pipeline": name,
        "pipeline_kind": PipelineKind.FLOW,
        "pipeline_id": "7",
        "kind": RunKind.FLOW_RUN,
        "part": None,
        "failures": 1,
        "status": Status.FAILED,
        "first_ended_at": UNTIL - 3 * HOUR,
        "last_ended_at": UNTIL - 3 * HOUR,
        "is_time_certain": True,
        "run_ids": ("31",),
        "reason": "no such table",
        "owner": None,
    }
    return ReportedFailure(**{**made, **more})  # type: ignore[arg-type]  # any field


def report(**lines: object) -> Report:
    made = Report(
        since=UNTIL - 13 * HOUR,
        until=UNTIL,
        made_at=UNTIL,
        verdict="",
        counts=(RunCount(kind=RunKind.FLOW_RUN, result=Status.FAILED, count=1),),
        **lines,  # type: ignore[arg-type]  # any lines
    )
    return msgspec.structs.replace(made, verdict=summary_of(made))


def test_the_text_reads_in_eighty_columns() -> None:
    """However long names and reasons are, and a terminal gets no control characters."""
    found = report(
        failed_and_still_failing=(failure(EVIL * 3, reason="reason " * 60),),
        slower_than_usual=(
            SlowRun(
                workspace="acme",
                pipeline="sales",
                kind=RunKind.PLAN_RUN,
                run_id="9",
                ended_at=UNTIL,
                seconds=900,
                usual_seconds=300,
                over_seconds=600,
            ),
        ),
    )

    text = report_text(found)

    assert max(map(len, text.splitlines())) <= 80
    assert all(line.isprintable() for line in text.splitlines())
    assert "took 15 min, 10 min more than the usual 5 min." in " ".join(text.split())


def test_times_are_those_of_its_zone() -> None:
    """A report of 07:00 in Berlin says so, not 06:00."""
    found = msgspec.structs.replace(
        report(failed_and_still_failing=(failure(),)), time_zone="Europe/Berlin"
    )

    text = report_text(found)

    assert text.startswith("Report of 2026-11-27 18:00 to 2026-11-28 07:00 (Europe/Berlin)\n")
    assert "flow run 31 failed at 2026-11-28 04:00" in text


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_name_with_markup_is_text_in_html() -> None:
    """It makes no element, and is readable as it is."""
    parser = _Tags()

    parser.feed(report_html(report(failed_and_still_failing=(failure(EVIL),))))

    assert parser.tags <= {
        "html", "head", "meta", "title", "body", "h1", "h2", "p", "strong", "ul", "li",
    }  # fmt: skip
    assert any('<img src=x onerror="alert(1)">' in text for text in parser.texts)


def test_a_name_with_markup_is_text_in_markdown() -> None:
    """Each of its marks is escaped, and it begins no line of its own."""
    text = report_markdown(report(failed_and_still_failing=(failure(EVIL),)))

    marks = re.findall(r"(?<!\\)[\[\]<>`*]", text.replace("**", ""))
    assert marks == []
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [heads[0], "## Failed and still failing", "## Runs"]


def test_a_long_list_says_how_much_is_left_out() -> None:
    """Fifty lines, and how many more there are."""
    rows = tuple(failure(f"flow {number}") for number in range(MOST_LINES + 7))

    (section, _) = report_sections(report(failed_and_still_failing=rows))

    assert len(section.lines) == MOST_LINES + 1
    assert section.lines[-1] == "and 7 more"


@pytest.mark.parametrize("is_blind", [False, True])
def test_the_verdict_never_calls_well_what_was_not_seen(*, is_blind: bool) -> None:
    """Blind is not green: what was not watched is part of the sentence."""
    away = UnwatchedTime(workspace="acme", since=UNTIL - HOUR, until=UNTIL, why="no answer")

    sentence = report(unwatched=(away,) if is_blind else ()).verdict

    if is_blind:
        assert sentence.startswith("Of what was seen, 1 run ended")
        assert sentence.endswith("; acme was not watched all the time.")
    else:
        assert sentence == "1 run ended and nothing is failing."
