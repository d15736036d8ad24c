"""Input that means nothing must never break the workspace."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.catalogue.operations import Operation, operations
from monitor.sandbox.api.routes import HANDLERS
from tests.examples import examples
from tests.sandbox.http_workspace import open_workspace

PARAMETERS = sorted({name for other_operation in operations() for name in other_operation.query})
TEXTS = st.text(max_size=20) | st.sampled_from(["-1", "true", "1", "id", "-id", "creator", "a.b(c"])
QUERIES = st.dictionaries(
    st.sampled_from([*PARAMETERS, "dateFilter[createdAt][gte]", "plansFilter"]), TEXTS, max_size=5
)
NAMES = st.sampled_from(
    [
        *("name", "url", "method", "flowId", "id", "wrangledDataset", "triggers", "tasks"),
        *("timeBased", "cron", "hourly", "daily", "expression", "minuteOfHour", "hourOfDay"),
        *("timezone", "utcStartDateTime", "runFlow", "runPlan", "planId", "triggerEvent"),
        *("weekly", "monthly", "monthlyWeekday", "oneTime", "daysOfWeek", "daysOfMonth"),
        *("dayOfWeek", "nthWeekDayOfMonth", "utcDateTime", "fileWatcher", "onlyWorkingDays"),
        *("triggerObject", "flowNodeIds", "headers", "body", "overrides", "planNodeOverrides"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
NONSENSE = st.binary(max_size=30) | JSON.map(msgspec.json.encode)
HANDLED = [
    other_operation for other_operation in operations() if other_operation.operation_id in HANDLERS
]
IDS = st.sampled_from(["1", "51", "71", "101", "1201", "7001", "20001", "40001", "x", "-1", "\n"])


@given(
    requests=st.lists(
        st.tuples(st.sampled_from(HANDLED), IDS, QUERIES, NONSENSE), min_size=20, max_size=20
    )
)
@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
async def test_nonsense_is_never_answered_by_500(
    requests: list[tuple[Operation, str, dict[str, str], bytes]],
) -> None:
    """Whatever the id, the query and the body are: an answer below 500, and JSON if any."""
    async with open_workspace() as workspace:
        workspace.job_group()
        workspace.engine.start_flow_run(workspace.things.orders, by=workspace.things.owner.id)
        workspace.engine.start_plan_run(workspace.things.nightly, by=workspace.things.owner.id)
        for operation, path_value, query, content in requests:
            path = operation.fill(*[path_value] * len(operation.parameters))
            body = content if operation.method != "GET" else None
            answer = await workspace.request(operation.method, path, query=query, content=body)
            assert answer.status < 500, (operation.operation_id, query, content)
            if answer.headers.get("Content-Type", "").startswith("application/json"):
                assert answer.body is not None


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-www-form-urlencoded", 415),
        ("text/é", 415),
        ("", 415),
        ("application/JSON; charset=utf-8", 201),
        (None, 201),
    ],
)
async def test_only_json_is_a_body(content_type: str | None, status: int) -> None:
    """A form, as curl sends it unasked, is 415; a body without a type is read as JSON."""
    async with open_workspace() as workspace:
        headers = {"Authorization": f"Bearer {workspace.token}"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        async with workspace.session.post(
            f"{workspace.url}/v4/flows/{workspace.things.orders.id}/run",
            data=b"{}",
            headers=headers,
            skip_auto_headers=["Content-Type"],
        ) as answer:
            assert answer.status == status, await answer.read()


async def test_bytes_that_are_no_text_are_answered() -> None:
    """Paths, headers and bodies that are no UTF-8 or too large are refused, not failed on."""
    async with open_workspace() as workspace:
        flow_id = workspace.things.orders.id
        odd = await workspace.post(f"/v4/flows/{flow_id}/run", x_execution_id="caf\udce9")
        run = await workspace.get(f"/v4/flowRuns/{odd.body['flowRunId']}")
        path = await workspace.get("/v4/%FF%00/\u00e9")
        large = await workspace.request("POST", "/v4/jobGroups", content=io.BytesIO(bytes(1 << 21)))
        packed = await workspace.request(
            "POST", "/v4/jobGroups", content=b"no gzip", headers={"Content-Encoding": "gzip"}
        )

    assert run.status == 200
    assert path.is_refused(404, "RouteNotFoundException")
    assert large.is_refused(413, "PayloadTooLargeException")
    assert packed.status == 400
