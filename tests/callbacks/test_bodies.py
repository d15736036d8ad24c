"""Callback bodies are free text: they are parsed, or raise one clear error."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.callbacks import bodies, callback_signature
from monitor.model.errors import PayloadError
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret


def filled(template: str) -> bytes:
    """Replace the two variables as the workspace does."""
    return template.replace("$jobId", "7827359").replace("$jobStatus", "Complete").encode()


def test_our_own_template_names_run_flow_and_task() -> None:
    """The pipeline follows from the body alone, without a read."""
    template = bodies.template(workspace="acme", flow_id="11", task_key="abc")
    statement = bodies.read(filled(template))

    assert statement == bodies.CallbackStatement(
        kind=RunKind.JOB_GROUP,
        run_id="7827359",
        native_status="Complete",
        flow_id="11",
        task_key="abc",
    )


@pytest.mark.parametrize(
    ("body", "kind", "run_id", "status"),
    [
        (b'{"jobid":"7827359","jobstatus":"Failed"}', RunKind.JOB_GROUP, "7827359", "Failed"),
        (b'{"job_id": 9, "status": "Complete"}', RunKind.JOB_GROUP, "9", "Complete"),
        (b'  {"Job-Group-ID":"9"}  ', RunKind.JOB_GROUP, "9", None),
        (b"jobId=9&jobStatus=Canceled", RunKind.JOB_GROUP, "9", "Canceled"),
        (b'{"plan_run_id":"31","status":"failed"}', RunKind.PLAN_RUN, "31", None),
        (b'{"flowRunId":71,"state":"Complete"}', RunKind.FLOW_RUN, "71", "Complete"),
        (b'{"job_id":"9","plan_run_id":"31","flow_run":"71"}', RunKind.PLAN_RUN, "31", None),
        (b'{"id":"5","job":"6","flow_run":"71"}', RunKind.FLOW_RUN, "71", None),
        (b'{"id":"5","J.O.B":"6","job":"7"}', RunKind.JOB_GROUP, "6", None),
    ],
)
def test_bodies_that_users_type_are_understood(
    body: bytes, kind: RunKind, run_id: str, status: str | None
) -> None:
    """Usual names are read in any spelling; a plan's task reports its run and never its end."""
    statement = bodies.read(body)

    assert (statement.kind, statement.run_id, statement.native_status) == (kind, run_id, status)


def test_users_values_of_our_optional_keys_refuse_nothing() -> None:
    """A task or flow that is given by its name is not an id, and no reason to refuse the run."""
    body = b'{"job_id":"9","status":"Complete","task":"Tell me: now!","flow_id":"Daily sales"}'
    statement = bodies.read(body)

    assert (statement.run_id, statement.native_status) == ("9", "Complete")
    assert (statement.task_key, statement.flow_id) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1,2]",
        b"hello",
        b'{"job_id":"$jobId"}',
        b'{"job_id":true}',
        b'{"job_id":{"a":1}}',
        b'{"job_id":"9","status":7}',
        b'{"job_id":"../../etc"}',
        b'{"jobId":"etc","jobStatus":"Complete"}',
        b'{"workspace":"a","flow_id":"1","task":"t","job_id":"etc","job_status":"Complete"}',
        b"flowRunId=etc",
        b'{"job_id":0}',
        b'{"name":"x"}',
        b"\xff\xfe{}",
    ],
)
def test_an_unreadable_body_raises_one_error_without_the_body(body: bytes) -> None:
    """An unreadable body raises the one error, which never repeats the body."""
    with pytest.raises(PayloadError) as caught:
        bodies.read(body)

    assert "etc" not in str(caught.value)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    """Any bytes are parsed or refused with the one error."""
    try:
        statement = bodies.read(body)
    except PayloadError:
        return
    assert statement.run_id


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12) | st.integers() | st.none()))
def test_no_object_raises_anything_else(fields: dict[str, object]) -> None:
    """Any object is parsed or refused with the one error."""
    try:
        statement = bodies.read(msgspec.json.encode({**fields, "id": 4}))
    except PayloadError:
        return
    assert statement.run_id


HEADERS = st.text(max_size=100) | st.lists(
    st.sampled_from(["t=", "1", "9" * 16, ",", "sha256=", "a" * 64, " ", "\u0663", "\0", "\udcff"]),
    max_size=9,
).map("".join)


@given(header=st.none() | HEADERS, body=st.binary(max_size=20))
def test_no_header_signs_a_body_by_chance(header: str | None, body: bytes) -> None:
    """Any text in place of the signature is a wrong signature."""
    now = datetime(2026, 11, 21, 10, tzinfo=UTC)
    verifier = callback_signature.Verifier(Secret("key"))
    assert not verifier.accepts(header, body, now=now)
    stamped = f"t={int(now.timestamp())},sha256={'0' * 64}"
    assert not verifier.accepts(stamped + (header or ""), body, now=now)
