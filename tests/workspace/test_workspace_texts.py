"""Texts that the workspace sends: cut at a stated length, different where they were, harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from monitor.model.errors import PayloadError
from monitor.model.outside import LONGEST_ERROR, LONGEST_NAME
from monitor.workspace import row_kinds
from monitor.workspace.decoding import RowKind, decode_rows, decode_text
from monitor.workspace.error_map import refusal_in

HUGE = 1_500_000
CONTROLS = "".join(
    map(chr, (0, 7, 9, 10, 13, 27, 127, 133, 0x202A, 0x202E, 0x2066, 0x2028, 0x200F))
)
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PERSON = {"id": 1, "name": "?", "email": "?"}
FLOW = {"id": 2, "name": "?", "folder": {"id": 3, "name": "?"}, "creator": PERSON}
KINDS: dict[str, tuple[RowKind[Any], dict[str, Any]]] = {
    "job group": (
        row_kinds.JOB_GROUP,
        {
            "id": 1,
            "status": "?",
            "name": "?",
            "ranfrom": "?",
            "ranfor": "?",
            "wrangledDataset": {"id": 4, "name": "?", "recipe": {"name": "?"}, "flow": FLOW},
            "creator": PERSON,
            "workloadError": "?",
        },
    ),
    "job": (
        row_kinds.JOB,
        {"id": 1, "status": "?", "jobType": "?", "errorMessage": {"message": "?"}},
    ),
    "flow run": (row_kinds.FLOW_RUN, {"id": 1, "flow": FLOW}),
    "plan run": (row_kinds.PLAN_RUN, {"id": 1, "status": "?", "plan": FLOW, "creator": PERSON}),
    "plan": (row_kinds.PLAN, {"id": 1, "name": "?", "latestPlanSnapshotRun": {"status": "?"}}),
    "plan with nodes": (row_kinds.PLAN_FULL, {"id": 1, "name": "?"}),
    "flow": (row_kinds.FLOW, FLOW),
    "folder": (row_kinds.FOLDER, {"id": 1, "name": "?"}),
    "schedule": (
        row_kinds.SCHEDULE,
        {
            "id": 1,
            "name": "?",
            "disableReason": "?",
            "tasks": [{"runFlow": {"flowId": 2, "name": "?"}}],
            "triggers": [
                {"timeBased": {"cron": {"expression": "?"}, "timezone": "?"}},
                {"?": {}},
            ],
        },
    ),
    "person": (row_kinds.PERSON, {"id": 1, "name": "?", "email": "?", "state": "?"}),
    "webhook test": (row_kinds.WEBHOOK_TEST, {"statusCode": 500, "error": "?"}),
}
EVERY = pytest.mark.parametrize("kind", KINDS)


def filled(value: Any, text: str) -> Any:
    """Return the row with this text in every place that has one."""
    if isinstance(value, dict):
        return {text if key == "?" else key: filled(member, text) for key, member in value.items()}
    if isinstance(value, list):
        return [filled(member, text) for member in value]
    return text if value == "?" else value


def read(kind: str, text: str) -> Any:
    row_kind, row = KINDS[kind]
    return row_kind.decode(msgspec.json.encode(filled(row, text)))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts(getattr(value, name))
    elif isinstance(value, tuple | frozenset | list):
        for member in value:
            yield from texts(member)


@EVERY
def test_no_text_of_a_row_is_longer_than_stated(kind: str) -> None:
    """Whatever a row calls its text, 1.5 MB of it become at most a line; of errors a page."""
    row = read(kind, "x" * HUGE)

    assert max(map(len, texts(row))) in (LONGEST_NAME, LONGEST_ERROR)
    assert sum(map(len, texts(row))) < 20 * LONGEST_NAME + LONGEST_ERROR


@EVERY
def test_rows_that_differ_after_the_cut_stay_different(kind: str) -> None:
    """Two names with one long beginning must not become one pipeline's name."""
    assert read(kind, "x" * HUGE + "a") != read(kind, "x" * HUGE + "b")
    assert read(kind, "x" * HUGE + "a") == read(kind, "x" * HUGE + "a")


@EVERY
def test_no_text_of_a_row_can_move_the_cursor_or_turn_the_line(kind: str) -> None:
    """Control and bidirectional characters are shown by their numbers, on every face."""
    found = list(texts(read(kind, f"Sales{CONTROLS}end")))

    assert not [text for text in found if HARMFUL.search(text.replace("\n", "").replace("\t", ""))]
    assert any("\\x1b" in text and "\\u202e" in text for text in found)


@pytest.mark.parametrize(
    "name",
    [
        "Umsätze/März", "売上　日次", "family 👩‍👩‍👧", "flag 🏳️‍🌈", "الطلبات", "a\u00a0b",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "क\u094d\u200dष",
        "ng\u0302\u0323\u0301", "ประจำวันที่นี้", "x" * LONGEST_NAME,
    ],
)  # fmt: skip
def test_a_name_that_people_give_stays_as_it_is(name: str) -> None:
    """Letters of any script, joined emoji and wide spaces are no harm."""
    assert read("flow", name).name == name


@pytest.mark.parametrize(
    "hidden",
    ["\u200b", "\u200c", "\u200d", "\u2060", "\u2062", "\u00ad", "\u034f", "\ufeff", "\u3164",
     "\u180e", "\ufff9", "\U000e0001", "\U000e0041", "\U000e0101", "\U0001d173"],
)  # fmt: skip
def test_a_character_without_width_is_shown(hidden: str) -> None:
    """Two names that look alike are seen to differ, and no name carries a hidden text."""
    name = read("flow", f"Sal{hidden}es").name

    assert name == f"Sal{hidden.encode('unicode_escape').decode()}es"


@pytest.mark.parametrize("mark", ["\u0301", "\u0489", "\u20dd", "\ufe0f"])
def test_marks_cover_no_other_lines(mark: str) -> None:
    """Three marks may stand on one letter; all after them are shown by their numbers."""
    name = read("flow", f"a{mark * 3}b{mark * 6}c").name
    escaped = mark.encode("unicode_escape").decode()

    assert name == f"a{mark * 3}b{mark * 3}{escaped * 3}c"


def test_an_id_that_is_too_long_is_a_bad_row() -> None:
    """It is not cut: another id would be another run."""
    listing = {"data": [{"id": "7" * 201}, {"id": "7\u202e"}, {"id": 8}]}
    found = decode_rows(msgspec.json.encode(listing), row_kinds.JOB_GROUP)

    assert [row.id for row in found.rows] == ["8"]
    assert [bad.id for bad in found.bad_rows] == [None, None]


def test_a_status_word_and_a_refusal_are_cut_too() -> None:
    """They reach events, logs and alerts like names."""
    huge = "y\x1b" * HUGE
    word = decode_text(msgspec.json.encode(huge))
    refusal = refusal_in(
        msgspec.json.encode({"exception": {"name": huge, "message": huge, "details": huge}})
    )

    assert len(word) == LONGEST_NAME
    for text in (word, refusal.name or "", refusal.message, refusal.details):
        assert 0 < len(text) <= 4_000
        assert "\x1b" not in text


def test_a_bad_row_does_not_repeat_what_it_could_not_read() -> None:
    """The reason goes to the log; 1.5 MB of a foreign text do not."""
    for junk in ({"id": 1, "createdAt": "z" * HUGE}, {"id": 1, "z" * HUGE: 1, "creator": 5}):
        with pytest.raises(PayloadError) as caught:
            row_kinds.JOB_GROUP.decode(msgspec.json.encode(junk))
        assert len(str(caught.value)) < 1_000
