"""The page's section of alerts, and the page that explains one."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from urllib.parse import quote

import pytest

from monitor.model.alerts import AlertState, LearnedLimit, Severity
from monitor.model.live_state import PollStatus, Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from tests.web.site import Site

EVIL = '<script>alert("1")</script>'


async def test_firing_alerts_come_first(site: Site) -> None:
    """Firing, pending and over, with what holds them back, stand before everything else."""
    alert = site.alerting.alert
    site.alerting.show(
        alert("aa", muted_by=("silence:5d3c",), is_notified=False),
        alert("ab", muted_by=("mute",)),
        alert("bb", state=AlertState.PENDING, name="queue_slow"),
        alert("cc", state=AlertState.RESOLVED, ends_at=site.clock.now(), name="run_stuck"),
        alert("dd", name="monitor_degraded", workspace="bridge", kind=None, pipeline=None,
              labels={"part": "backlog:mqtt"}, run=None, is_flapping=True, preexisting=True),
        silences=(site.alerting.silence(),),
        failing_rules={"run_overdue": "KeyError: 'x'"},
    )  # fmt: skip
    text = (await site.get("/")).text
    assert text.index('id="alerts"') < text.index('id="workspaces"')
    for shown in (
        "3 firing, 1 pending",
        "orders has failed",
        "not notified: silence:5d3c",
        "suppressed by mute",
        "pipeline=daily*",
        "planned reload",
        "backlog:mqtt",
        "flapping",
        "or before",
        "The evaluation of rule run_overdue fails: KeyError: &#39;x&#39;",
        "Resolved within the last hour",
    ):
        assert shown in text, shown


async def test_an_alert_that_nobody_can_judge_is_marked(site: Site) -> None:
    """Page and API say why it may be over already, and that nobody can see it."""
    site.alerting.show(site.alerting.alert())
    assert "cannot be judged now" not in (await site.get("/")).text
    site.live_state.update_workspace("acme", reachability=Reachability.UNREACHABLE)
    text = (await site.get("/")).text
    assert "cannot be judged now" in text
    assert "job group, flow run, plan run, schedules" in text
    assert "Nothing is running." not in text
    (alert,) = json.loads((await site.get("/api/v1/alerts")).text)["data"]
    assert alert["unjudged"] == "the workspace is unreachable"


async def test_an_alert_whose_list_fails_cannot_be_judged(site: Site) -> None:
    """However the list of its runs fails: nobody can see the success that would end it."""
    site.alerting.show(site.alerting.alert())
    for outcome, why in (
        ("unauthorized", "changes cannot be read (unauthorized)"),
        ("unreadable", "changes cannot be read (unreadable)"),
        ("budget", None),
        ("ok", None),
    ):
        now = site.clock.now()
        poll = PollStatus(
            workspace="acme",
            poll="changes",
            last_attempt_at=now,
            last_success_at=now,
            last_outcome=outcome,
        )
        site.live_state.record_poll(poll)
        (alert,) = json.loads((await site.get("/api/v1/alerts")).text)["data"]
        assert alert["unjudged"] == why


async def test_every_link_of_an_alert_leads_somewhere(site: Site) -> None:
    """The alert and its run are explained where the page points to."""
    site.alerting.show(site.alerting.alert())
    text = (await site.get("/")).text
    links = re.findall(r'href="(/explain[^"]*)"', text)
    assert len(links) == 2
    for link in links:
        assert (await site.get(link)).status == 200, link


@pytest.mark.parametrize(
    ("question", "status", "text"),
    [
        ("alert=9f86d081884c7d66", 404, "&#39;9f86d081884c7d66&#39; is not known; did you mean"),
        ("run=acme/job_group/9", 404, "run acme/job_group/9 is not known: it is neither"),
        ("run=acm/job_group/9", 400, "workspace: &#39;acm&#39; is not known; did you mean acme?"),
        ("run=17", 400, "run: &#39;17&#39; is not WORKSPACE/KIND/ID."),
        ("", 400, "name one of name=NAME, alert=FINGERPRINT"),
        (f"alert={quote(EVIL)}", 404, "&lt;script&gt;alert("),
    ],
)
async def test_what_cannot_be_explained_is_a_page_too(
    site: Site, question: str, status: int, text: str
) -> None:
    """Whoever follows an old link reads in the browser why there is nothing, and gets home."""
    site.alerting.show(site.alerting.alert())
    answer = await site.get(f"/explain?{question}")
    assert (answer.status, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert text in answer.text
    assert EVIL not in answer.text
    assert '<a href="/">' in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_the_page_shows_that_no_alert_fires(site: Site) -> None:
    """Without alerts the page shows that, and the number of rules."""
    text = (await site.get("/")).text
    assert "No alert fires. 1 rules are active." in text
    assert "Silences" not in text


async def test_words_from_outside_are_text_in_alerts_too(site: Site) -> None:
    """Names, messages, authors and reasons like markup are escaped wherever they stand."""
    alert = site.alerting.alert
    site.alerting.show(
        *[
            alert(
                f"{number}",
                name=EVIL,
                state=state,
                ends_at=site.clock.now(),
                labels={"pipeline": EVIL},
                annotations={"summary": EVIL},
                workspace=EVIL,
                muted_by=(EVIL,),
            )
            for number, state in enumerate(AlertState)
        ],
        silences=(site.alerting.silence(matchers=(EVIL,), author=EVIL, comment=EVIL),),
        failing_rules={EVIL: EVIL},
    )
    for path in ("/", "/state"):
        text = (await site.get(path)).text
        assert EVIL not in text
        assert text.count("&lt;script&gt;alert(") >= 15
    assert EVIL not in (await site.get("/explain?alert=1")).text


async def test_a_storm_does_not_fill_the_page(site: Site) -> None:
    """Of very many alerts the first stand there, and the rest are counted."""
    site.alerting.show(*[site.alerting.alert(f"{number:016x}") for number in range(500)])
    text = (await site.get("/")).text
    assert "500 firing" in text
    assert "300 more are firing" in text
    assert text.count('<td><span class="mark critical">') == 200


async def test_a_pipeline_shows_what_is_expected_of_it(site: Site) -> None:
    """The learned limit, the next start and missed starts are shown with its last run."""
    flow = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
    identity = ("acme", RunKind.JOB_GROUP, "7")
    limit = LearnedLimit(
        workspace="acme", kind=RunKind.JOB_GROUP, pipeline=flow, seconds=754.0, runs=12
    )
    site.alerting.show(
        limits=(limit,),
        expected={identity: site.clock.now() + timedelta(hours=1)},
        missed={identity: 2},
    )
    site.stand(flow, Status.SUCCEEDED)
    text = (await site.get("/")).text
    assert '<abbr title="learned from 12 runs">12 min 34 s</abbr>' in text
    assert "2026-11-21 11:00:00 UTC" in text
    assert "2 missed" in text
    (row,) = (await site.get("/api/v1/pipelines")).document["data"]
    assert (row["limit_seconds"], row["limit_runs"], row["missed_starts"]) == (754.0, 12, 2)


async def test_the_page_names_the_owner_of_watched_schedules(site: Site) -> None:
    """The page names the owner whose schedules alone the token shows."""
    assert "of the token&#39;s owner only" in (await site.get("/")).text
    site.live_state.update_workspace("acme", schedules_of="ann@example.com")
    assert "of ann@example.com only" in (await site.get("/")).text
    listed = (await site.get("/api/v1/schedules")).document["data"]
    assert [(row["workspace"], row["of"]) for row in listed] == [("acme", "ann@example.com")]
    assert Severity.CRITICAL in (await site.get("/static/page.css")).text
