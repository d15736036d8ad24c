"""Answers that are not what they should be: a right row, a bad row, or one clear error."""

from __future__ import annotations

import string
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.errors import PayloadError
from monitor.workspace import row_kinds
from monitor.workspace.decoding import RowKind, decode_rows, decode_text
from monitor.workspace.error_map import refusal_in
from monitor.workspace.payloads import JobGroupRow
from monitor.workspace.specification import operations_in
from tests.examples import examples
from tests.workspace.scripted import PAYLOADS

KINDS: dict[str, RowKind[Any]] = {
    name: kind for name, kind in vars(row_kinds).items() if isinstance(kind, RowKind)
}
GOOD = b'{"id":1,"status":"Complete"}'

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["2026-01-01T00:00:00.000Z", "0001-01-01T00:00:00+14:00", "9999-12-31"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)

# Objects that have the right keys and anything under them.
KEYS = (
    "id status name createdAt updatedAt flowRun flowrun wrangledDataset creator workloadError "
    "jobType errorMessage percentComplete plan planNodes tasks triggers timeBased daily cron "
    "timezone url headers flow data paths exception"
)
near_misses = st.dictionaries(st.sampled_from(KEYS.split()), json_values, max_size=8)


@pytest.mark.parametrize("name", sorted(KINDS))
@given(value=json_values | near_misses)
def test_any_json_is_a_row_or_a_payload_error(name: str, value: Any) -> None:
    """No shape of JSON raises anything but the one error."""
    try:
        row = KINDS[name].decode(msgspec.json.encode(value))
    except PayloadError:
        return
    assert row is not None


@given(body=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No bytes raise anything but the one error, wherever they are read."""
    readers = (
        lambda: decode_rows(body, row_kinds.JOB_GROUP),
        lambda: decode_text(body),
        lambda: operations_in(body),
        lambda: row_kinds.PLAN_FULL.decode(body),
    )
    for read in readers:
        with suppress(PayloadError):
            read()
    assert refusal_in(body) is not None


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*.json")), ids=lambda path: path.stem)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_a_damaged_recording_is_read_or_refused(path: Any, data: st.DataObject) -> None:
    """A recorded answer with some bytes cut out or changed raises nothing but the one error."""
    body = bytearray(path.read_bytes())
    begin = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(begin, min(len(body), begin + 40)))
    body[begin:end] = data.draw(st.binary(max_size=3))
    for kind in KINDS.values():
        with suppress(PayloadError):
            assert decode_rows(bytes(body), kind).length >= 0


@given(poison=st.lists(json_values | near_misses, min_size=1, max_size=5))
def test_one_poisoned_row_does_not_cost_the_others(poison: list[Any]) -> None:
    """The good rows of a page are read, whatever stands between them."""
    between = b",".join(msgspec.json.encode(item) for item in poison)
    found = decode_rows(
        b'{"data":[' + GOOD + b"," + between + b"," + GOOD + b"]}", row_kinds.JOB_GROUP
    )
    assert found.rows[0].id == found.rows[-1].id == "1"
    assert len(found.rows) + len(found.bad_rows) == len(poison) + 2


@pytest.mark.parametrize(
    ("row", "row_id"),
    [
        ('{"id":5,"status":7}', "5"),
        ('{"id":5,"updatedAt":"last Tuesday"}', "5"),
        ('{"id":"01M00","wrangledDataset":[]}', "01M00"),
        ('{"id":5,"updatedAt":"0001-01-01T00:00:00+14:00"}', "5"),
        ('{"status":"Complete"}', None),
        ('{"id":null}', None),
        ('{"id":""}', None),
        ('{"id":"a\\nb"}', None),
        ('{"id":true}', None),
        ("[]", None),
        ("null", None),
    ],
)
def test_a_bad_row_keeps_its_id_if_it_has_one(row: str, row_id: str | None) -> None:
    """A row that cannot be read is reported by its id, with a reason that repeats nothing of it."""
    body = b'{"data":[' + GOOD + b"," + row.encode() + b"]}"
    found = decode_rows(body, row_kinds.JOB_GROUP)
    assert [good.id for good in found.rows] == ["1"]
    (bad,) = found.bad_rows
    assert bad.id == row_id
    assert "Tuesday" not in bad.reason


def test_broken_text_in_one_row_is_one_bad_row() -> None:
    """Bytes that are not UTF-8 inside a row cost that row only."""
    body = b'{"data":[' + GOOD + b',{"id":5,"status":"\xff"}]}'
    found = decode_rows(body, row_kinds.JOB_GROUP)
    assert [row.id for row in found.rows] == ["1"]
    assert len(found.bad_rows) == 1


@pytest.mark.parametrize(
    ("escaped", "name"),
    [
        (r"caf\ud83d", "caf\ufffd"),
        (r"\udc4d!", "\ufffd!"),
        (r"\ud83d\ud83d\udc4d", "\ufffd\U0001f44d"),
        (r"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (r"\ud83d\n", "\ufffd\\n"),
    ],
)
def test_half_a_character_costs_no_page(escaped: str, name: str) -> None:
    """A name that was cut in the middle of an emoji is read with a mark in its place."""
    body = '{"data":[{"id":5,"name":"' + escaped + '"},{"id":6,"name":"\\ud83d\\udc4d"}]}'
    found = decode_rows(body.encode(), row_kinds.JOB_GROUP)
    assert [row.name for row in found.rows] == [name, "\U0001f44d"]
    assert row_kinds.JOB_GROUP.decode(b'{"id":5,"name":"' + escaped.encode() + b'"}').name == name


def test_absurd_nesting_is_one_clear_error() -> None:
    """A page nested absurdly deep is refused as a whole."""
    row = b'{"id":5,"name":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    with pytest.raises(PayloadError):
        decode_rows(b'{"data":[' + row + b"]}", row_kinds.JOB_GROUP)


unknown_keys = st.text(string.ascii_letters).map("unheardOf{}".format)


@given(extra=st.dictionaries(unknown_keys, json_values, max_size=5))
def test_unknown_fields_are_ignored(extra: dict[str, Any]) -> None:
    """Whatever else a row carries, what we read of it stays the same."""
    body = msgspec.json.encode({**extra, "id": 1, "status": "Failed"})
    assert row_kinds.JOB_GROUP.decode(body) == JobGroupRow(id="1", native_status="Failed")
