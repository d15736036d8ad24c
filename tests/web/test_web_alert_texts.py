"""The texts of alerts on pages and in the JSON API: as they read at that moment."""

from __future__ import annotations

import html
from datetime import timedelta

import msgspec

from monitor.model.alerts import AlertState
from tests.web.site import Site

RUN_FAILED = "9f86d081884c7d65"


async def test_every_face_shows_the_age_of_now(site: Site) -> None:
    """Lists, pages, explanations and previews of one alert say how long it has lasted by now."""
    began = site.clock.now() - timedelta(minutes=10)
    texts = {
        "summary": "orders {runs|ran} {started_at:since}",
        "description": "began {started_at:relative}",
    }
    facts: dict[str, str | float | None] = {"started_at": began.isoformat()}
    shown = site.alerting.alert(RUN_FAILED, templates=texts, facts=facts, starts_at=began)
    site.alerting.show(shown)
    faces = (
        "/api/v1/alerts",
        f"/api/v1/alerts/{RUN_FAILED}",
        "/api/v1/silences/preview?matcher=pipeline%3Dorders",
        "/api/v1/pipelines/acme/flow/7/alerts",
        "/",
        "/alerts",
        f"/alerts/{RUN_FAILED}",
        f"/alerts/{RUN_FAILED}/acknowledge",
    )
    for minutes, words in ((0, "orders runs for 10 min"), (60, "orders runs for 1 h 10 min")):
        await site.clock.advance(minutes * 60)
        for face in faces:
            assert words in html.unescape((await site.get(face)).text), face
    site.live_state.update_workspace("acme", clock_skew_seconds=3_600.0)
    await site.clock.advance(60)
    assert "orders runs for 2 h 11 min" in (await site.get(f"/alerts/{RUN_FAILED}")).text
    over = {"state": AlertState.RESOLVED, "ends_at": began + timedelta(minutes=30)}
    site.alerting.show(msgspec.structs.replace(shown, **over))
    await site.clock.advance(60)
    assert "orders ran for 30 min" in (await site.get(f"/alerts/{RUN_FAILED}")).text


async def test_every_face_says_why_an_alert_ended_without_becoming_well(site: Site) -> None:
    """Of a deleted flow, and which flow has its name now, also where the run had an error."""
    facts: dict[str, str | float | None] = {
        "error": "no such table",
        "ended_because": "pipeline removed",
        "name_taken_by": "flow 9",
    }
    shown = site.alerting.alert(RUN_FAILED, facts=facts)
    over = {"state": AlertState.RESOLVED, "ends_at": shown.starts_at + timedelta(minutes=30)}
    site.alerting.show(msgspec.structs.replace(shown, **over))
    words = "Ended: pipeline removed. The name orders is that of flow 9 now."
    for face in (f"/api/v1/alerts/{RUN_FAILED}", "/alerts"):
        assert words in html.unescape((await site.get(face)).text), face
    page = (await site.get(f"/alerts/{RUN_FAILED}")).text
    assert all(f"<dt>{label}</dt>" in page for label in ("ended because", "name taken by"))
