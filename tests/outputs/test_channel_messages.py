"""Messages to people: words, facts, links and forms, with names that are anything."""

from __future__ import annotations

import os
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.alerts import Acknowledgement, AlertState
from monitor.model.errors import ConfigurationError
from monitor.model.events import EventType
from monitor.model.runs import RunKind
from monitor.outputs.notify.lines import Line, LineContext, line_of
from monitor.outputs.notify.templates import Templates, escaped_markdown
from tests.outputs.alert_histories import BEGAN, acknowledged, alert, event_of, fired, resolved
from tests.outputs.histories import FLOW
from tests.pipeline_healths import end_at, failures_until, health_after

PAGE = "https://monitor.example.com"
BERLIN = ZoneInfo("Europe/Berlin")


def around(**more: object) -> LineContext:
    values = {"now": BEGAN + timedelta(minutes=5), "zone": BERLIN, "page_url": PAGE, **more}
    return LineContext(**values)  # type: ignore[arg-type]


def facts_of(line: Line) -> dict[str, str]:
    return {fact.name: fact.value for fact in line.facts}


def test_a_failure_says_all_that_is_asked_first() -> None:
    """Since when, how often in a row, last success, who started it and the next start are there."""
    ends = [end_at(BEGAN - timedelta(days=1)), *failures_until(BEGAN, 3)]
    health = health_after(*ends, pipeline=FLOW, workspace="w", kind=RunKind.FLOW_RUN)
    event = fired(1, facts={"error": "no such file", "trigger": "schedule", "owner": "a@b.c"})
    line = line_of(event, around(health=health, next_start=BEGAN + timedelta(days=1)))
    assert facts_of(line) == {
        "Since": "Thu 21 Nov 2024 10:30 CET",
        "Failed in a row": "3",
        "Last success": "Wed 20 Nov 2024 10:30 CET",
        "Started by": "schedule by a@b.c",
        "Next start": "Fri 22 Nov 2024 10:30 CET",
    }


def test_links_lead_to_run_explanation_and_forms() -> None:
    """Each link leads to a page of ours; those that change something lead to a form."""
    line = line_of(fired(1), around())
    links = {link.words: link.url.removeprefix(PAGE) for link in line.links}
    fingerprint = alert(1).fingerprint
    assert links["Run"] == "/runs/w/flow_run/91"
    assert links["Why was I told?"] == f"/explain?alert={fingerprint}"
    assert links["Acknowledge"] == f"/alerts/{fingerprint}/acknowledge"
    assert "lasts=4h" in links["for 4 hours"]
    assert "ends_at=2024-11-22+07%3A00" in links["until tomorrow"]
    assert all(url.startswith("/silences/new?matcher=alertname%3Drun_failed") for words, url in
               links.items() if words.startswith(("Silence", "for ", "until")))  # fmt: skip


def test_without_an_address_of_the_page_there_are_no_links_to_it() -> None:
    """Where the address of the page is not known, a message has the product's link alone."""
    event = fired(1, facts={"error": "x", "url": "https://example.com/jobs/1"})
    (link,) = line_of(event, around(page_url=None)).links
    assert (link.words, link.url) == ("In the product", "https://example.com/jobs/1")


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (fired(1), "FAILED"),
        (resolved(1), "RESOLVED"),
        (event_of(alert(1), EventType.ALERT_REMINDED, number=1), "STILL FAILED"),
        (acknowledged(1), "ACKNOWLEDGED"),
        (fired(1, is_flapping=True), "FAILED, AGAIN AND AGAIN"),
        (fired(1, rule="schedule_missed"), "NOT STARTED"),
        (fired(1, rule="quality_dropped"), "QUALITY DROPPED"),
    ],
)
def test_states_differ_by_words(event: object, word: str) -> None:
    """Fired, reminded, acknowledged, flapping and resolved read differently without any colour."""
    assert line_of(event, around()).word == word  # type: ignore[arg-type]


def test_who_acknowledged_is_in_what_follows() -> None:
    """A message about an acknowledged alert says who knows of it, why, and until when."""
    by = Acknowledgement(author="Ada", comment="", at=BEGAN)
    ended = resolved(1, acknowledged=by)
    assert facts_of(line_of(ended, around()))["Acknowledged by"] == "Ada"

    lasting = Acknowledgement(
        author="Ada", comment="on it", at=BEGAN, until=BEGAN + timedelta(hours=4)
    )
    facts = facts_of(line_of(acknowledged(1, acknowledged=lasting), around()))
    assert facts["Comment"] == "on it"
    assert facts["No reminders until"] == "Thu 21 Nov 2024 14:30 CET"


class Tags(HTMLParser):
    """Collects tags, and the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.add(tag)


_KNOWN_TAGS = {
    *("html", "head", "meta", "style", "body", "div", "h1", "p", "table", "tr", "th", "td", "a"),
    *("span", "br"),
}


@given(name=st.text(max_size=400), reason=st.text(max_size=400))
def test_any_name_is_shown_as_text(name: str, reason: str) -> None:
    """Whatever a workspace calls things, subjects are one line and bodies have no new tag."""
    labels = {"alertname": "run_failed", "workspace": "w", "pipeline": name}
    event = fired(1, labels=labels, facts={"error": reason})
    line = line_of(event, around())
    templates = Templates(None)
    subject = templates.subject([line], page_url=PAGE)
    assert subject.isprintable()
    assert len(subject) <= 200
    tags = Tags()
    tags.feed(templates.body("message.html", [line], page_url=PAGE))
    assert tags.tags <= _KNOWN_TAGS
    for form in ("message.markdown", "message.txt", "short.txt"):
        assert templates.body(form, [line], page_url=PAGE)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("daily_sales_v2: 1.204,50 EUR (no - really!)",) * 2,
        ("ada@example.com | #1 {x} + y",) * 2,
        ("_tmp_ *b* ~c~ `d` <e> \\", "\\_tmp\\_ \\*b\\* \\~c\\~ \\`d\\` \\<e\\> \\\\"),
        ("![i](http://x/p.png)", "!\\[i\\](http://x/p.png)"),
        ("# a\n- b\n12. c\n| d", "\\# a\n\\- b\n12\\. c\n\\| d"),
        ("@all @channel, @**everyone**", "@\u2060all @\u2060channel, @\u2060\\*\\*everyone\\*\\*"),
    ],
)
def test_only_what_markdown_reads_is_escaped(text: str, escaped: str) -> None:
    """Slack shows backslashes, so a usual name or number has none; no name calls all who read."""
    assert escaped_markdown(text) == escaped


def test_a_short_text_has_a_line_for_each_alert() -> None:
    """Neither the next alert nor the address of the page runs into a reason."""
    lines = [line_of(fired(number), around()) for number in (1, 2)]
    assert Templates(None).body("short.txt", lines, page_url=PAGE).splitlines() == [
        "FAILED: orders 1 (w): no such file",
        "FAILED: orders 2 (w): no such file",
        PAGE,
    ]


def test_twenty_lines_are_shown_and_the_rest_counted() -> None:
    """A message about 57 alerts shows twenty, the worst first, and counts 37 more."""
    lines = [line_of(fired(number), around()) for number in range(57)]
    for form in ("message.html", "message.markdown", "message.txt"):
        text = Templates(None).body(form, lines, page_url=PAGE)
        assert "and 37 more" in text
    assert Templates(None).subject(lines, page_url=PAGE) == "57 alerts: 57 FAILED (w)"


def test_a_file_replaces_one_template(tmp_path: Path) -> None:
    """A folder with one template replaces that one; the others stay the package's."""
    (tmp_path / "subject.txt").write_text("Look: {{ first.name }}")
    templates = Templates(str(tmp_path))
    line = line_of(fired(1), around())
    assert templates.subject([line], page_url=None) == "Look: orders 1"
    assert "Since:" in templates.body("message.txt", [line], page_url=None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ first.nmae }}", "nmae"),
        ("{% for line in lines %}", "endfor"),
        ("{{ ().__class__.__bases__ }}", "unsafe"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ first.links[0].url }}", "no element 0"),
        ("{{ first.text.index('Run') }}", "not found"),
    ],
)
def test_a_template_is_tried_before_it_is_used(tmp_path: Path, text: str, words: str) -> None:
    """A template with an unknown field, or that ends too early, is one problem with its path."""
    (tmp_path / "message.txt").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Templates(str(tmp_path))
    (problem,) = caught.value.problems
    assert problem.startswith(str(tmp_path / "message.txt"))
    assert words in problem


@pytest.mark.parametrize(
    "text", ["{{ first.facts[7].value }}", "{{ 1 / (first.name | length - 8) }}", "{% if %}"]
)
def test_a_template_that_fails_later_stops_no_message(tmp_path: Path, text: str) -> None:
    """The package's own template takes its place, and the message says why."""
    path = tmp_path / "message.txt"
    path.write_text("mine")
    templates = Templates(str(tmp_path))
    path.write_text(text)
    os.utime(path, (0, 0))
    line = line_of(fired(1), around())
    body = templates.body("message.txt", [line], page_url=None, note="A note.")
    assert body.startswith("The channel's own template message.txt failed: ")
    assert "A note." in body
    assert "FAILED: orders 1 (w)" in body


def test_an_end_says_how_long_it_lasted() -> None:
    """The end of an alert says until when, and how long that was."""
    line = line_of(resolved(1), around())
    assert line.is_over
    assert facts_of(line)["Until"] == "Thu 21 Nov 2024 10:40 CET, 10 min later"
    assert alert(1, AlertState.RESOLVED).ends_at is not None
