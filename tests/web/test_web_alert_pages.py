"""The pages about alerts: the list and its filters, one alert, silences, explanations."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from markupsafe import escape

from monitor.model.alerts import Acknowledgement, Alert, AlertState, Severity
from monitor.model.live_state import Reachability
from monitor.model.runs import PipelineKind
from tests.web.site import Site

EVIL = '<script>alert("1")</script>'
RUN_FAILED = "9f86d081884c7d65"
HOUR = timedelta(hours=1)


def ended(site: Site, fingerprint: str, *, hours: float = 1, **more: object) -> Alert:
    """Return an alert that ended so many hours ago, after an hour."""
    ends_at = site.clock.now() - hours * HOUR
    return site.alerting.alert(
        fingerprint,
        state=AlertState.RESOLVED,
        starts_at=ends_at - HOUR,
        ends_at=ends_at,
        notified_at=ends_at - HOUR,
        **more,
    )


def keep(site: Site, *alerts: Alert) -> None:
    for alert in alerts:
        site.alerting.over.setdefault(alert.fingerprint, []).append(alert)


async def fingerprints(site: Site, query: str = "") -> list[str]:
    answer = await site.get(f"/api/v1/alerts{query}")
    assert answer.status == 200, answer.text
    return [alert["fingerprint"] for alert in answer.document["data"]]


async def page_of(site: Site, path: str, *, status: int = 200) -> str:
    answer = await site.get(path)
    assert answer.status == status, answer.text
    assert "This part cannot be shown" not in answer.text
    return answer.text


async def test_open_alerts_come_first_and_ended_ones_after(site: Site) -> None:
    """Open ones worst first, then past ones by their ends, in page and API alike."""
    site.alerting.show(
        site.alerting.alert("mild", severity=Severity.WARNING),
        site.alerting.alert("bad", templates={"summary": "orders failed"}),
    )
    keep(site, ended(site, "long-ago", hours=30), ended(site, "lately", hours=2))

    assert await fingerprints(site) == ["bad", "mild", "lately", "long-ago"]
    text = await page_of(site, "/alerts")
    assert [text.index(f'href="/alerts/{name}"') for name in await fingerprints(site)] == sorted(
        text.index(f'href="/alerts/{name}"') for name in await fingerprints(site)
    )
    assert "2 alerts firing" in text
    assert "1 d ago" not in text
    assert "30 h ago" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?state=open", ["a", "b", "c"]),
        ("?state=pending", ["c"]),
        ("?state=resolved", ["e", "d"]),
        ("?severity=info", ["b"]),
        ("?workspace=acme&state=resolved", ["d"]),
        ("?rule=queue_slow", ["c", "e"]),
        ("?pipeline=orders", ["a", "b", "c", "e", "d"]),
        ("?pipeline=7&severity=info", ["b"]),
        ("?pipeline=none", []),
        ("?state=resolved&since=2026-11-21T08:30:00Z", ["e"]),
        ("?since=2026-11-21T08:30:00Z", ["a", "b", "c", "e"]),
    ],
)
async def test_each_filter_selects_open_and_past_alike(
    site: Site, query: str, expected: list[str]
) -> None:
    """Page and API take the same filters and show the same alerts."""
    alert = site.alerting.alert
    site.alerting.show(
        alert("a"),
        alert("b", severity=Severity.INFO),
        alert("c", state=AlertState.PENDING, name="queue_slow"),
        rules=(("run_failed", Severity.CRITICAL), ("queue_slow", Severity.WARNING)),
    )
    keep(site, ended(site, "d", hours=2))
    keep(site, ended(site, "e", hours=1, name="queue_slow", workspace="other"))

    assert await fingerprints(site, query) == expected
    text = await page_of(site, f"/alerts{query}")
    shown = re.findall(
        r'class="(?:strong)?" href="/alerts/(\w)"|<td class="what"[^>]*><a href="/alerts/(\w)"',
        text,
    )
    assert ["".join(pair) for pair in shown] == expected


async def test_links_lead_to_the_past_of_a_time(site: Site) -> None:
    """A day, a week, a month, beside the other filters; the form keeps it."""
    keep(site, ended(site, "lately", hours=2), ended(site, "long-ago", hours=30))
    text = html.unescape(await page_of(site, "/alerts?severity=critical"))
    day, week, month = re.findall(r'href="(/alerts\?[^"]*since=[^"]*)"', text)

    assert "severity=critical" in day
    assert 'href="/alerts/long-ago"' not in await page_of(site, day)
    for link in (week, month):
        assert 'href="/alerts/long-ago"' in await page_of(site, link)
    assert 'name="since"' in await page_of(site, day)


async def test_a_long_list_goes_on_where_it_ended(site: Site) -> None:
    """Page by page every alert comes once, over the border of open and past."""
    site.alerting.show(*[site.alerting.alert(f"open{number}") for number in range(5)])
    keep(site, *[ended(site, f"past{number}", hours=number // 2 + 1) for number in range(6)])
    found: list[str] = []
    path = "/api/v1/alerts?limit=3"
    while True:
        document = (await site.get(path)).document
        found += [alert["fingerprint"] for alert in document["data"]]
        if document["next"] is None:
            break
        path = f"/api/v1/alerts?limit=3&cursor={quote(document['next'])}"

    assert sorted(found) == sorted({*found})
    assert len(found) == 11
    text = await page_of(site, "/alerts?limit=3")
    (more,) = re.findall(r'href="(/alerts\?[^"]*)" rel="next"', html.unescape(text))
    assert "limit=3" in more
    assert "From the beginning" in await page_of(site, more)


async def test_reasons_of_a_held_alert_are_in_words_of_an_operator(site: Site) -> None:
    """Who silenced it until when, which outage suppresses it, who acknowledged it; no ids."""
    alert, now = site.alerting.alert, site.clock.now()
    outage = alert("b30aa34eb30aa34e", name="out", rule="workspace_unreachable", pipeline=None,
                   templates={"summary": "acme is unreachable"})  # fmt: skip
    worse = alert("c30aa34eb30aa34e", templates={"summary": "Nightly load failed"})
    by = Acknowledgement(author="anna", comment="on it", at=now)
    site.alerting.show(
        outage,
        worse,
        alert("a1", muted_by=("silence:5d3c",)),
        alert("a2", muted_by=("inhibited:b30aa34eb30aa34e",)),
        alert("a3", muted_by=("inhibited:c30aa34eb30aa34e",), notified_at=now),
        alert("a4", muted_by=("inhibited:dddddddddddddddd", "silence:gone")),
        alert("a5", muted_by=("mute",), acknowledged=by),
        silences=(site.alerting.silence(),),
    )
    listed = (await site.get("/api/v1/alerts")).document["data"]
    words = {row["fingerprint"]: [by["words"] for by in row["suppressed_by"]] for row in listed}
    text = html.unescape(await page_of(site, "/alerts"))

    assert words["a1"] == ["silenced by ann until 2026-11-21 12:00:00 UTC: planned reload"]
    assert words["a2"] == ["suppressed: the workspace acme is unreachable"]
    assert words["a3"] == ["suppressed: Nightly load failed"]
    assert words["a4"] == [
        "suppressed by another alert",
        "silenced by a silence that has expired",
    ]
    assert words["a5"] == ["muted: rule run_failed sends no notifications now"]
    assert "silenced by ann</bdi></a> until <time" in text
    assert "acknowledged</span> by <bdi>anna</bdi>" in text
    visible = re.sub(r"<[^>]*>", " ", text.partition("<footer>")[0])
    rows = visible[visible.index("Severity  What") :]
    assert not re.search(r"inhibited|\b[0-9a-f]{16}\b|\b1\.0\b", rows)


async def test_every_row_leads_to_what_can_be_done(site: Site) -> None:
    """Explain, silence, acknowledge, run, pipeline, runbook and product; each of ours answers."""
    site.alerting.show(
        site.alerting.alert(
            templates={"summary": "orders failed", "runbook": "https://wiki.example/orders"},
            facts={"url": "https://product.example/jobs/17", "error": "no such column"},
        )
    )
    text = html.unescape(await page_of(site, "/alerts"))
    row = text[text.index(f'<tr id="alert-{RUN_FAILED}"') :]
    links = re.findall(r'href="([^"#]*)', row[: row.index("</tr>")])

    assert "no such column" in row
    assert {
        f"/alerts/{RUN_FAILED}",
        f"/alerts/{RUN_FAILED}/acknowledge",
        "/pipelines/acme/flow/7",
        "/runs/acme/job_group/17",
        "https://wiki.example/orders",
        "https://product.example/jobs/17",
    } <= set(links)
    for link in links:
        if link.startswith(("/alerts", "/silences")):
            await page_of(site, link)
    (silence,) = [link for link in links if link.startswith("/silences/new")]
    assert "It will mute 1 open alert of 1" in await page_of(site, silence)


async def test_addresses_that_are_none_are_no_links(site: Site) -> None:
    """A runbook or product address that a browser would run is not offered."""
    evil = "javascript:alert(1)"
    site.alerting.show(site.alerting.alert(templates={"runbook": evil}, facts={"url": evil}))
    for path in ("/alerts", f"/alerts/{RUN_FAILED}"):
        assert f'href="{evil}' not in await page_of(site, path)


async def test_one_alert_is_shown_with_facts_and_earlier_instances(site: Site) -> None:
    """Facts have units in words; the former instances and the explanation stand there too."""
    site.alerting.show(
        site.alerting.alert(
            facts={
                "error": "no such column",
                "limit_seconds": 11_400.0,
                "expected_at": "2026-11-21T09:00:00Z",
                "valid_ratio": 0.93,
                "failures": 3.0,
                "owner": None,
            }
        )
    )
    keep(site, ended(site, RUN_FAILED, hours=5, facts={"error": "disk full"}))
    text = html.unescape(await page_of(site, f"/alerts/{RUN_FAILED}"))
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>(?:<bdi>)?([^<]*)", text))

    assert facts["limit"] == "3 h 10 min"
    assert (facts["failures"], facts["valid ratio"]) == ("3", "93 %")
    assert '<time datetime="2026-11-21T09:00:00Z"' in text
    assert "disk full" in text[text.index("Earlier") :]
    assert "fires after 300 s" in text
    assert "owner" not in facts
    document = (await site.get(f"/api/v1/alerts/{RUN_FAILED}")).document
    assert len(document["ended"]) == 1


async def test_an_alert_that_has_ended_keeps_its_page(site: Site) -> None:
    """A link in an old notification leads to what became of it; nothing is offered to silence."""
    keep(site, ended(site, "aa", hours=3))
    site.alerting.explained.add("aa")
    text = await page_of(site, "/alerts/aa")
    assert "after 1 h" in text
    assert "Acknowledge" not in text


async def test_an_unknown_alert_has_a_page_with_a_way_back(site: Site) -> None:
    """Problem details in JSON; a sentence and a link in HTML."""
    assert '<a href="/">' in await page_of(site, "/alerts/zzz", status=404)
    assert "is not known" in await page_of(site, f"/alerts/{quote(EVIL, safe='')}", status=404)
    assert (await site.get("/api/v1/alerts?cursor=nonsense")).status == 400
    assert (await site.get("/api/v1/alerts?state=open&since=nonsense")).status == 400
    assert "is not one of this list" in await page_of(site, "/alerts?cursor=x", status=400)


async def test_an_empty_list_says_what_to_do_next(site: Site) -> None:
    """Without alerts, without what fits, and without silences."""
    assert "No alert is open; 1 rule is at work." in await page_of(site, "/alerts")
    site.alerting.show(site.alerting.alert())
    none = await page_of(site, "/alerts?state=pending")
    assert "No open alert fits these filters." in none
    assert '<a class="button" href="/alerts">Show all</a>' in none
    assert "Make one before planned work." in await page_of(site, "/silences")


async def test_silences_say_who_why_and_what_they_mute(site: Site) -> None:
    """Active, pending and expired ones; only those that can be ended offer it."""
    silence, now = site.alerting.silence, site.clock.now()
    site.alerting.show(
        # Until the next evaluation, an alert still names a silence that was ended.
        site.alerting.alert(muted_by=("silence:now", "silence:over")),
        silences=(
            silence("now", ends_at=now + HOUR),
            silence("later", starts_at=now + HOUR, ends_at=now + 2 * HOUR),
            silence("over", starts_at=now - HOUR, ends_at=now),
            silence("config-1", origin="config"),
        ),
    )
    text = await page_of(site, "/silences")

    assert re.findall(r'href="/silences/([\w-]+)/expire"', text) == ["now", "later"]
    assert "1 alert<" in text
    assert "planned reload" in text
    assert re.findall(
        r'<tr id="silence-(\w+)"', await page_of(site, "/silences?state=expired")
    ) == ["over"]
    muted = [row["mutes"] for row in (await site.get("/api/v1/silences")).document["data"]]
    assert sorted(muted) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("matcher", "count"),
    [
        ("pipeline=orders", 2),
        ("pipeline=orders,severity=critical", 1),
        ("pipeline=a,b", 1),
        ("severity!=critical\nworkspace=acme", 1),
        ("pipeline=none", 0),
    ],
)
async def test_a_preview_shows_what_a_silence_will_mute(
    site: Site, matcher: str, count: int
) -> None:
    """Before it is made, on the page of the form and as JSON; a comma within a name is its own."""
    alert = site.alerting.alert
    labels = {"workspace": "acme", "severity": "critical"}
    site.alerting.show(
        alert("a", labels={**labels, "pipeline": "orders"}),
        alert("b", labels={**labels, "pipeline": "orders", "severity": "warning"}),
        alert("c", labels={**labels, "pipeline": "a,b"}),
        alert("d", labels={**labels, "pipeline": "orders"}, state=AlertState.RESOLVED,
              ends_at=site.clock.now()),
    )  # fmt: skip
    document = (await site.get(f"/api/v1/silences/preview?matcher={quote(matcher)}")).document
    assert (document["count"], document["open"], len(document["data"])) == (count, 3, count)
    text = await page_of(site, f"/silences/new?matcher={quote(matcher)}")
    said = f"It will mute {count} open alert{'s'[: count != 1]} of 3" if count else "It mutes no"
    assert said in text
    assert site.alerting.snapshot.silences == ()


async def test_a_preview_of_what_cannot_match_names_the_problem(site: Site) -> None:
    """At its field in the form, which keeps the text; as problem details in JSON."""
    answer = await site.get("/api/v1/silences/preview?matcher=pipelin%3Dx")
    assert (answer.status, "did you mean pipeline?" in answer.text) == (400, True)
    text = html.unescape(await page_of(site, "/silences/new?matcher=pipelin%3Dx"))
    assert re.search(r'id="matcher-problem">[^<]*did you mean pipeline\?', text)
    assert ">pipelin=x</textarea>" in text


@pytest.mark.parametrize("text", [EVIL, "\N{RIGHT-TO-LEFT OVERRIDE}abc", "x" * 5_000, "a\x00b\x1b"])
async def test_texts_from_outside_are_text_on_every_page(site: Site, text: str) -> None:
    """Names, errors, authors and comments like markup are escaped wherever they stand."""
    alert, now = site.alerting.alert, site.clock.now()
    by = Acknowledgement(author=text, comment=text, at=now)
    hostile = alert(
        "aa",
        name="hostile",
        labels={"pipeline": text, "own": text, "workspace": "acme"},
        templates={"summary": text, "description": text, "runbook": text},
        facts={"error": text, "part": text, "url": text},
        acknowledged=by,
        muted_by=("silence:5d3c", text),
        evidence=(text,),
    )
    site.alerting.show(
        hostile,
        silences=(site.alerting.silence(matchers=(text,), author=text, comment=text),),
        failing_rules={text: text},
    )
    keep(site, ended(site, "aa", templates={"summary": text}))
    site.live_state.update_workspace("acme", reachability=Reachability.UNREACHABLE, reason=text)
    for path in (
        "/alerts", "/alerts/aa", "/silences", "/explain?alert=aa", "/alerts/aa/acknowledge",
        "/silences/5d3c/expire", "/silences/new?matcher=workspace%3Dacme",
    ):  # fmt: skip
        page = await page_of(site, path)
        assert "<script>alert" not in page, path
        if text.startswith("x") or text == EVIL:
            assert str(escape(text[:200])) in page or path.startswith("/explain"), path


async def test_explanations_speak_an_operators_words(site: Site) -> None:
    """Fixtures have names, and kinds of runs are words."""
    site.alerting.show(site.alerting.alert())
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    for question in (f"alert={RUN_FAILED}", "run=acme/job_group/17", "pipeline=acme/flow/7"):
        text = await page_of(site, f"/explain?{question}")
        assert "Judged by rules" in text
        assert "<bdi>job group orders</bdi>" in text
