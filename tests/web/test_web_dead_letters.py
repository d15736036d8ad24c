"""The JSON of dead letters: which are listed, and what there is to know about one."""

from __future__ import annotations

from datetime import datetime

import pytest

from monitor.bus.contract import Retention
from tests.web.sample_letters import refused
from tests.web.site import Site

LIST = "/api/v1/dead-letters"
FIRST = "acme:job_group:1:started"


async def test_the_newest_letters_are_listed(site: Site) -> None:
    """Of all outputs by when they were refused, or of one; with how many there are."""
    await refused(site, "webhook", runs=3)
    await refused(site, "mqtt", runs=1, reason="too large")
    found = (await site.get(f"{LIST}?limit=3")).document
    assert [(row["output"], row["event_id"]) for row in found["data"]] == [
        ("mqtt", FIRST),
        ("webhook", "acme:job_group:3:started"),
        ("webhook", "acme:job_group:2:started"),
    ]
    assert (found["total"], found["next"]) == (4, None)
    of_output = (await site.get(f"{LIST}?output=webhook")).document
    assert [row["run_id"] for row in of_output["data"]] == ["3", "2", "1"]
    assert (of_output["total"], of_output["data"][0]["reason"]) == (3, "413: too large")


async def test_an_output_without_letters_has_an_empty_list(site: Site) -> None:
    """Also one that has not started yet; nothing of another one is listed."""
    await refused(site, "webhook", runs=1)
    assert (await site.get(f"{LIST}?output=mqtt")).document["data"] == []
    assert (await site.get(f"{LIST}?output=mqtt")).document["total"] == 0


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("output=webhok", "output: 'webhok' is not known; did you mean webhook?"),
        ("limit=0", "limit: '0' is not a number from 1 to 1000"),
        ("limit=1001", "limit: '1001' is not a number from 1 to 1000"),
    ],
)
async def test_what_cannot_be_listed_is_one_sentence(site: Site, query: str, detail: str) -> None:
    """An unknown output, and more than an answer may hold."""
    answer = await site.get(f"{LIST}?{query}")
    assert (answer.status, answer.document["detail"]) == (400, detail)


async def test_a_letter_is_shown_with_its_event(site: Site) -> None:
    """As outputs send it, with the reason of each that refused it; also far down the list."""
    await refused(site, "webhook", runs=600)
    await refused(site, "mqtt", runs=1, reason="too large")
    found = (await site.get(f"{LIST}/{FIRST}")).document
    assert {row["output"]: row["reason"] for row in found["data"]} == {
        "mqtt": "too large",
        "webhook": "413: too large",
    }
    assert (found["event_id"], found["event"]["id"]) == (FIRST, FIRST)
    [same] = (await site.get("/api/v1/events?limit=1")).document["data"]
    assert found["event"] == same
    last = (await site.get(f"{LIST}/acme:job_group:600:started")).document
    assert [row["output"] for row in last["data"]] == ["webhook"]


async def test_a_letter_outlives_its_event(site: Site) -> None:
    """What retention has removed from the log is shown as the letter has it."""
    await refused(site, "webhook", runs=1)
    await site.bus.prune(Retention(events_seconds=0, runs_seconds=86_400), now=site.clock.now())
    found = (await site.get(f"{LIST}/{FIRST}")).document
    assert (await site.get("/api/v1/events")).document["data"] == []
    assert found["event"]["id"] == FIRST
    assert datetime.fromisoformat(found["data"][0]["refused_at"]) <= site.clock.now()


async def test_an_event_without_a_letter_is_not_found(site: Site) -> None:
    """Whether it was delivered, or never happened."""
    await refused(site, "webhook", runs=1)
    answer = await site.get(f"{LIST}/acme:job_group:9:started")
    assert (answer.status, answer.document["detail"]) == (
        404,
        "no output has a dead letter of that event",
    )
