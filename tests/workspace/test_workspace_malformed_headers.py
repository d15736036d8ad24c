"""Headers and single answers that are not what they should be: read, left out, or one error."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.model.errors import PayloadError, WorkspaceError
from monitor.model.secrets import Secret
from monitor.workspace import row_kinds
from monitor.workspace.answer_headers import (
    LONGEST_PAUSE_SECONDS,
    WorkspaceTime,
    parse_http_date,
    quotas_in,
    retry_after_in,
)
from monitor.workspace.decoding import decode_text
from monitor.workspace.priority import Priority
from monitor.workspace.specification import operations_in
from tests.clocks import ManualClock
from tests.workspace.scripted import SkippingClock, answer, client_of, serving

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
PARTS = [
    *("Mon,", "21", "Nov", "2026", "9999", "0001", "1969", "10:00:00", "23:59:60", "GMT", "+2359"),
    *("-9999", "99", "Dec", "31", "1", "00:00", "70", "(", ")", ":", ",", ";", "-"),
]
DATES = st.text(max_size=40) | st.lists(
    st.sampled_from([*PARTS, "\0", "é", "9" * 400]), max_size=9
).map(" ".join)
FIGURES = DATES | st.sampled_from(
    ["1e308", "inf", "nan", "-1", "0", "1", "1_0", "9" * 400, "1e-400", "٣", "1780000000000"]
)


@given(text=DATES)
@example("Fri, 31 Dec 9999 23:59:59 GMT")
@example("Sat, 01 Jan 0001 00:00:00 +2359")
def test_any_date_is_a_time_or_none(text: str) -> None:
    """Any ``Date`` header moves the workspace's clock or leaves it; none breaks it."""
    clock = ManualClock()
    workspace_time = WorkspaceTime(clock)
    workspace_time.learn("Sat, 21 Nov 2026 10:00:00 GMT", began=1.0, answered=1.5)
    workspace_time.learn(text, began=2.0, answered=2.5)

    at = parse_http_date(text)
    assert at is None or at.utcoffset() is not None
    assert workspace_time.now() is not None
    assert workspace_time.at(1e9) is not None
    assert workspace_time.skew_seconds() is not None


@given(
    figures=st.dictionaries(
        st.sampled_from(
            [
                f"x-rate-limit-{scope}-{part}"
                for scope in ("user", "workspace")
                for part in ("limit", "remaining", "reset")
            ]
            + ["x-retry-after", "Retry-After"]
        ),
        FIGURES,
    )
)
def test_any_limit_is_a_quota_or_left_out(figures: dict[str, str]) -> None:
    """Headers about limits are finite figures or nothing, and no wait is longer than allowed."""
    for quota in quotas_in(figures):
        assert quota.limit >= 1
        assert quota.remaining >= 0
        assert quota.reset_at >= 0
    wait = retry_after_in(figures, now=NOW)
    assert wait is None or 0 <= wait <= LONGEST_PAUSE_SECONDS


@given(value=st.text(max_size=30) | st.none() | st.integers() | st.lists(st.text(), max_size=2))
def test_a_status_is_the_text_that_was_sent(value: Any) -> None:
    """An answer of one printable word is that word; anything but text is the one error."""
    body = json.dumps(value).encode()
    if isinstance(value, str) and value.isascii() and value.isprintable():
        assert decode_text(body) == value
    elif not isinstance(value, str):
        with pytest.raises(PayloadError):
            decode_text(body)


PATHS = st.dictionaries(
    st.text(max_size=12) | st.sampled_from(["/v4/jobGroups/{id}", "/jobGroups/:x", "{", "}{", ":"]),
    st.dictionaries(st.sampled_from(["get", "POST", "parameters", "x"]), st.none() | st.integers()),
    max_size=3,
)


@given(paths=PATHS, servers=st.none() | st.lists(st.dictionaries(st.just("url"), FIGURES)))
def test_any_specification_names_operations(paths: Any, servers: Any) -> None:
    """Whatever a specification holds, only methods with paths are read from it."""
    found = operations_in(json.dumps({"paths": paths, "servers": servers}).encode())
    assert len(found) <= sum(len(methods) for methods in paths.values())
    assert {method for method, _ in found} <= {"GET", "POST"}


TASK = {"id": 5, "url": "https://x.example", "headers": {"A": "b"}, "flow": {"id": 7}}


@given(changes=st.dictionaries(st.sampled_from([*TASK, "name", "body", "secretKey"]), FIGURES))
def test_any_webhook_task_is_read_or_refused(changes: dict[str, str]) -> None:
    """Alone or embedded in its flow, a task is read or left out."""
    task = {**TASK, **changes}
    with suppress(PayloadError):
        assert row_kinds.WEBHOOK_TASK.decode(json.dumps(task).encode()).url == Secret(
            str(task["url"])
        )
    tasks = row_kinds.WEBHOOK_TASKS_OF_FLOW.decode(
        json.dumps({"id": 7, "webhookFlowTasks": {"data": [task, TASK]}}).encode()
    )
    assert tasks[-1].id == "5"


HEADERS = st.dictionaries(
    st.sampled_from(["Date", "Retry-After", "x-rate-limit-user-limit", "x-rate-limit-user-reset"]),
    st.text(st.characters(codec="latin-1", min_codepoint=32), max_size=30),
)


@given(
    status=st.sampled_from([200, 204, 301, 400, 401, 403, 404, 410, 418, 429, 500, 503]),
    headers=HEADERS,
    body=st.none() | st.text(max_size=30) | st.dictionaries(st.text(max_size=8), st.integers()),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_answer_is_a_row_or_one_of_our_errors(
    status: int, headers: dict[str, str], body: Any
) -> None:
    """Over the wire, with any headers, an answer ends in a row or in an error of the tree."""
    message = None
    async with (
        serving(answer(body, status, headers)) as there,
        client_of(there.url, clock=SkippingClock()) as client,
    ):
        try:
            row = await client.runs.job_group("5", priority=Priority.ENDS)
        except WorkspaceError as exc:
            message = str(exc)
    assert row.id if message is None else len(message.splitlines()) == 1
