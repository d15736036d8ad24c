"""What to explain is named by id, by kind and id, or by name; a wrong name gets a hint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from monitor.model.runs import PipelineKind, RunKey, RunKind, Status
from monitor.web.settings import ServerSettings
from tests.web.serving import serving
from tests.web.site import Site

_NAMED = [
    (PipelineKind.FLOW, "7", "orders"),
    (PipelineKind.FLOW, "8", "Nightly load"),
    (PipelineKind.PLAN, "7", "month end"),
    (PipelineKind.PLAN, "9", "Nightly load"),
    (PipelineKind.FLOW, "11", "copies"),
    (PipelineKind.FLOW, "12", "copies"),
    (PipelineKind.FLOW, "13", "a/b"),
]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, ServerSettings(listen="127.0.0.1:0")) as found:
        for kind, pipeline_id, name in _NAMED:
            found.live_state.name_pipeline("acme", kind, pipeline_id, name)
            found.alerting.known_pipelines.add(("acme", kind, pipeline_id))
        found.alerting.show(found.alerting.alert())
        await found.observe(found.run("17", Status.FAILED), found.run("8", Status.FAILED))
        flow_run = found.run("99", Status.FAILED)
        await found.observe(
            msgspec.structs.replace(flow_run, key=RunKey("acme", RunKind.FLOW_RUN, "99"))
        )
        yield found


async def explain(site: Site, query: str) -> tuple[int, str]:
    answer = await site.get(f"/api/v1/explain?{query}")
    document = answer.document
    return answer.status, document["subject" if answer.status == 200 else "detail"]


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        ("orders", "pipeline acme/flow/7"),
        ("ORDERS", "pipeline acme/flow/7"),
        ("month end", "pipeline acme/plan/7"),
        ("flow/7", "pipeline acme/flow/7"),
        ("plan/7", "pipeline acme/plan/7"),
        ("flow/orders", "pipeline acme/flow/7"),
        ("flow/Nightly load", "pipeline acme/flow/8"),
        ("plan/Nightly load", "pipeline acme/plan/9"),
        ("acme:plan:Nightly load", "pipeline acme/plan/9"),
        ("a/b", "pipeline acme/flow/13"),
        ("flow/a/b", "pipeline acme/flow/13"),
        ("11", "pipeline acme/flow/11"),
        ("17", "run acme:job_group:17"),
        ("job_group/17", "run acme:job_group:17"),
        ("acme:job_group:17", "run acme:job_group:17"),
        ("9f86d081884c7d65", "alert run_failed"),
        ("run_failed/9f86d081884c7d65", "alert run_failed"),
    ],
)
async def test_each_form_of_a_name_is_understood(site: Site, named: str, subject: str) -> None:
    """By id, kind and id, name in any case, key, fingerprint or topic; also with a workspace."""
    for workspace in ("", "&workspace=acme"):
        assert await explain(site, f"name={quote(named)}{workspace}") == (200, subject)


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("name=ordes", 404,
         ("'ordes' is not known: searched the fingerprints of 1 alert, the ids and names of 7 "
          "flows and plans, and the stored runs of acme; did you mean orders?")),
        ("name=flow/ordes", 404,
         ("flow 'ordes' is not known: searched the ids and names of 5 flows of acme; did you mean "
          "orders?")),
        ("name=Nightly+loat", 404, "'Nightly loat' is not known: "),
        ("name=7", 400, "'7' is ambiguous: name one of flow/7, plan/7"),
        ("name=8", 400, "'8' is ambiguous: name one of flow/8, job_group/8"),
        ("name=Nightly+load", 400, "'Nightly load' is ambiguous: name one of flow/8, plan/9"),
        ("name=copies", 400, "'copies' is ambiguous: name one of flow/11, flow/12"),
        ("name=flow/copies", 400, "flow 'copies' is ambiguous: name one of flow/11, flow/12"),
        ("pipeline=acme/flow/copies", 400, "flow 'copies' is ambiguous: name one of flow/11, "),
        ("name=orders&workspace=acm", 400, "workspace: 'acm' is not known; did you mean acme?"),
        ("name=acm:flow:orders", 400, "workspace: 'acm' is not known; did you mean acme?"),
        ("name=job_group/99", 404,
         ("run acme/job_group/99 is not known: it is neither among the stored runs of acme, where "
          "ended ones are kept for `runs_seconds`, nor in the event log; there is flow_run/99")),
        ("name=", 400, "name one of name=NAME, "),
        ("name=+", 400, "name: name an alert, a run, a flow or a plan"),
    ],
)  # fmt: skip
async def test_a_name_that_fits_none_or_several_gets_one_clear_error(
    site: Site, query: str, status: int, detail: str
) -> None:
    """The error names what was searched, what is near, and which names would be clear."""
    found = await explain(site, query)
    assert (found[0], found[1][: len(detail)]) == (status, detail)


async def test_the_nearest_name_is_offered_for_a_name_with_blanks(site: Site) -> None:
    """Flow and plan of one name are offered once."""
    _, detail = await explain(site, "name=Nightly+loat")
    assert detail.endswith("; did you mean Nightly load?")


async def test_a_pipeline_of_another_workspace_is_named_with_it(site: Site) -> None:
    """Where two workspaces have the name, the error says how to choose."""
    site.live_state.name_pipeline("other", PipelineKind.FLOW, "3", "orders")
    status, detail = await explain(site, "name=orders")
    assert status == 400
    assert detail == "'orders' is ambiguous: name one of acme:flow:7, other:flow:3"
    assert await explain(site, "name=acme:flow:7") == (200, "pipeline acme/flow/7")
