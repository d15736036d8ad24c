"""The boxes of the overview above its list of pipelines, and the sentence over all of them."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from monitor.model.alerts import Acknowledgement, AlertState, Severity
from monitor.model.live_state import Reachability
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, Status
from tests.web.site import Site

EVIL = '<script>alert("1")</script>'
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


def box(page: str, name: str) -> str:
    """Return one box of a page, empty where it is not there."""
    found = re.search(rf'<section[^>]* id="{name}".*?</section>', page, re.DOTALL)
    return "" if found is None else found[0]


def see(site: Site) -> None:
    """Let the workspace answer, and have confirmed its runs now."""
    now = site.clock.now()
    site.live_state.update_workspace(
        "acme", reachability=Reachability.REACHABLE, since=now, known_at=now
    )
    for kind in RunKind:
        site.live_state.confirm("acme", kind, now)


async def sentence(site: Site) -> str:
    return str((await site.get_recomputed("/api/v1/status")).document["sentence"])


async def test_the_worst_alert_comes_first_with_its_reason(site: Site) -> None:
    """Grouped by pipeline: critical before warning, what is held back last; each with its error."""
    alert = site.alerting.alert
    other = Pipeline(kind=PipelineKind.PLAN, id="9", name="nightly")
    site.alerting.show(
        alert("aa", facts={"error": "disk full"}),
        alert("ab", name="queue_slow", severity=Severity.WARNING),
        alert("ba", pipeline=other, labels={"pipeline": "nightly"}, severity=Severity.WARNING),
        alert("ca", pipeline=None, workspace="bridge", labels={"part": "backlog:mqtt"},
              muted_by=("silence:5d3c",), is_notified=False),
        alert("da", state=AlertState.PENDING, templates={"summary": "waits long"}),
        alert("ea", state=AlertState.RESOLVED, ends_at=site.clock.now()),
        silences=(site.alerting.silence(),),
    )  # fmt: skip
    answer = (await site.get("/api/v1/attention")).document
    assert [(row["subject"], row["severity"], row["is_muted"]) for row in answer["data"]] == [
        ("orders", "critical", False),
        ("nightly", "warning", False),
        ("backlog:mqtt", "critical", True),
    ]
    assert [alert["fingerprint"] for alert in answer["data"][0]["alerts"]] == ["aa", "ab"]
    assert (answer["total"], answer["firing"], answer["pending"]) == (3, 4, 1)
    shown = box((await site.get("/")).text, "attention")
    for words in (
        "disk full",
        "orders has failed",
        'href="/explain?alert=aa"',
        'href="/alerts/aa/acknowledge"',
        "Not notified: <bdi>silenced by ann until 2026-11-21 12:00:00 UTC: planned reload",
        "About to fire if it lasts",
        "waits long",
        'href="/runs/acme/job_group/17"',
    ):
        assert words in shown, words
    assert 'id="alert-ea"' not in shown


async def test_a_silence_is_offered_for_the_very_alert(site: Site) -> None:
    """The link carries the labels that name the alert's rule and subject, and no others."""
    labels = {"alertname": "run_failed", "workspace": "acme", "pipeline_id": "7", "team": "x"}
    site.alerting.show(site.alerting.alert(labels=labels))
    (group,) = (await site.get("/api/v1/attention")).document["data"]
    assert group["alerts"][0]["links"]["silence"] == (
        "/silences/new?matcher=alertname%3Drun_failed%2Cworkspace%3Dacme%2Cpipeline_id%3D7"
    )


async def test_acknowledged_alerts_come_later(site: Site) -> None:
    """An acknowledged alert says by whom, offers no second acknowledgement, and comes last."""
    known = Acknowledgement(author="ann", comment="on it", at=site.clock.now())
    other = Pipeline(kind=PipelineKind.PLAN, id="9")
    site.alerting.show(
        site.alerting.alert("aa", acknowledged=known),
        site.alerting.alert("ba", pipeline=other, severity=Severity.WARNING),
    )
    groups = (await site.get("/api/v1/attention")).document["data"]
    assert [group["alerts"][0]["fingerprint"] for group in groups] == ["ba", "aa"]
    shown = box((await site.get("/")).text, "attention")
    assert "</span> by <bdi>ann</bdi>" in shown
    assert "on it" in shown
    assert "/alerts/aa/acknowledge" not in shown
    assert "/alerts/ba/acknowledge" in shown


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//evil", 4.0])
async def test_only_addresses_of_the_web_become_links(site: Site, address: str | float) -> None:
    """An address of a workspace or template is no link unless it is http or https."""
    alert = site.alerting.alert(
        facts={"url": address}, templates={"summary": "x", "runbook": str(address)}
    )
    site.alerting.show(alert)
    (group,) = (await site.get("/api/v1/attention")).document["data"]
    assert (group["alerts"][0]["url"], group["alerts"][0]["runbook"]) == (None, None)
    site.alerting.show(
        site.alerting.alert(facts={"url": "https://a/1"}, templates={"runbook": "http://b"})
    )
    (group,) = (await site.get("/api/v1/attention")).document["data"]
    assert (group["alerts"][0]["url"], group["alerts"][0]["runbook"]) == ("https://a/1", "http://b")


async def test_an_alert_whose_end_is_unknown_is_marked(site: Site) -> None:
    """The page says why an alert may be over already, and that this cannot be seen."""
    see(site)
    site.alerting.show(site.alerting.alert())
    assert "It may be over" not in (await site.get("/")).text
    site.live_state.update_workspace(
        "acme", reachability=Reachability.UNREACHABLE, reason="no route to host"
    )
    text = (await site.get_recomputed("/?runs=14")).text  # another address: pages are kept a moment
    assert "It may be over: it cannot be seen now" in text
    trouble = box(text, "trouble")
    assert text.index('id="trouble"') < text.index('id="attention"')
    assert "no route to host" in trouble
    assert "job groups, flow runs, plan runs, schedules" in trouble
    assert "Nothing is running." not in text


async def test_healthy_parts_take_no_place(site: Site) -> None:
    """Without trouble its box is not there; without alerts one line says so."""
    see(site)
    text = (await site.get("/")).text
    assert 'id="trouble"' not in text
    assert "No alert fires. 1 rule is active." in text
    assert "Nothing is running." in text
    assert (await site.get("/api/v1/trouble")).document["data"] == []


async def test_a_rule_that_cannot_be_evaluated_is_trouble(site: Site) -> None:
    """Its alerts stand still, which no other box would show."""
    see(site)
    site.alerting.show(failing_rules={"run_overdue": "KeyError: 'x'"})
    trouble = unescape(box((await site.get("/")).text, "trouble"))
    assert "run_overdue" in trouble
    assert "KeyError: 'x'" in trouble


async def test_an_empty_daemon_has_a_page(site: Site) -> None:
    """Before the first answer every box shows that nothing is known yet, and nothing is green."""
    text = (await site.get("/")).text
    assert "No pipeline is known yet." in text
    assert "not reached yet" in text
    assert "Nothing is known to be running" in text
    assert 'class="status unknown"' in text
    assert "nothing is confirmed yet" in text
    assert await sentence(site) == "Nothing is known yet (acme has not answered yet)"


async def test_words_from_outside_are_text(site: Site) -> None:
    """Names, reasons, authors and comments like markup are escaped wherever they stand."""
    see(site)
    flow = Pipeline(kind=PipelineKind.FLOW, id="7", name=EVIL)
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", EVIL)
    site.live_state.names.place(("acme", PipelineKind.FLOW, "7"), folder=EVIL, owner=EVIL)
    site.live_state.update_workspace("acme", reachability=Reachability.DEGRADED, reason=EVIL)
    site.alerting.show(
        site.alerting.alert("1", pipeline=flow, labels={"pipeline": EVIL, "alertname": EVIL},
                            templates={"summary": EVIL}, facts={"error": EVIL},
                            muted_by=("silence:5d3c",)),
        site.alerting.alert("2", state=AlertState.PENDING, templates={"summary": EVIL}),
        silences=(site.alerting.silence(author=EVIL, comment=EVIL),),
        failing_rules={EVIL: EVIL},
    )  # fmt: skip
    await site.observe(
        site.run("1", pipeline=flow), site.run("2", Status.FAILED, pipeline=flow, error=EVIL)
    )
    text = (await site.get("/?open=acme/flow/7")).text
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(") >= 12


async def test_a_storm_does_not_fill_the_page(site: Site) -> None:
    """Of very many alerts the first stand there; the rest are counted, and a link away."""
    flows = [Pipeline(kind=PipelineKind.FLOW, id=str(number)) for number in range(50)]
    site.alerting.show(
        *[
            site.alerting.alert(f"{number:016x}", pipeline=flow, labels={"pipeline": flow.id})
            for number, flow in enumerate(flows)
        ]
    )
    text = (await site.get("/")).text
    assert text.count('<article class="alert-group') == 20
    assert "50 pipelines or other subjects have alerts" in text
    seen: list[str] = []
    skip: int | None = 0
    while skip is not None:
        page = (await site.get(f"/api/v1/attention?skip={skip}")).document
        seen += [group["pipeline_id"] for group in page["data"]]
        skip = page["next"]
    assert sorted(seen) == sorted(flow.id for flow in flows)


async def test_runs_show_how_far_they_are_beside_what_is_usual(site: Site) -> None:
    """Elapsed beside the median of former successes: on time with an expected end, or late."""
    see(site)
    begun = site.clock.now() - timedelta(seconds=60)
    for number, seconds in enumerate((100, 110, 400)):
        ended = begun - timedelta(hours=3 - number)
        run = site.run(
            f"old{number}", Status.SUCCEEDED,
            created_at=ended - timedelta(seconds=seconds), finished_at=ended,
        )  # fmt: skip
        await site.observe(run)
    await site.observe(site.run("1", created_at=begun))
    (run,) = (await site.get("/api/v1/running")).document["data"]
    assert (run["elapsed_seconds"], run["usual_seconds"]) == (60.0, 110.0)
    assert run["expected_end_at"] == "2026-11-21T10:00:50Z"
    await site.clock.advance(90)
    (run,) = (await site.get("/api/v1/running")).document["data"]
    assert (run["elapsed_seconds"], run["expected_end_at"]) == (150.0, None)
    assert "40 s longer than usual" in box((await site.get("/")).text, "running")


async def test_a_run_stands_there_once(site: Site) -> None:
    """Flow runs of a plan and job groups of a flow run are parts: the outermost run is shown."""
    see(site)
    plan = Pipeline(kind=PipelineKind.PLAN, id="9", name="nightly")
    await site.observe(
        site.run("p", key=RunKey("acme", RunKind.PLAN_RUN, "p"), pipeline=plan),
        site.run("f", key=RunKey("acme", RunKind.FLOW_RUN, "f"), parents=Parents(plan_run="p")),
        site.run("j", parents=Parents(flow_run="f")),
        site.run("k"),
    )
    answer = (await site.get("/api/v1/running")).document
    assert sorted(run["id"] for run in answer["data"]) == ["k", "p"]
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    assert await sentence(site) == "Nothing has run yet: 1 pipeline known, 2 running"


async def test_an_end_that_only_a_callback_reported_is_said_to_be_that(site: Site) -> None:
    """An unconfirmed end is not shown as a confirmed one."""
    see(site)
    await site.observe(site.run("1", unconfirmed_end=Status.FAILED))
    assert "as a callback says; not confirmed yet" in (await site.get("/")).text
