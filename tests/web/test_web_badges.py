"""Badges: the state of a workspace or pipeline as a picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from monitor.model.live_state import Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from tests.web.site import Answer, Site
from tests.web.test_overview_blindness import fail_poll
from tests.web.test_overview_boxes import see

GREEN, RED = "#17703f", "#b3261e"
EVIL = "</text><script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}\x01 \N{SNOWMAN}" + "x" * 5_000


def words(answer: Answer) -> str:
    """Return what the picture says; it must be XML that has no script and is not too wide."""
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/svg+xml")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    root = ET.fromstring(answer.text)  # noqa: S314 - our own answer
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "title", "rect", "g", "text"}
    assert int(root.attrib["width"]) < 500
    return root.attrib["aria-label"]


def stand(site: Site, name: str, status: Status, pipeline_id: str = "7") -> None:
    """Let a flow of that name have ended so, in a workspace that answers."""
    site.live_state.update_workspace("acme", reachability=Reachability.REACHABLE)
    site.live_state.confirm("acme", RunKind.JOB_GROUP, site.clock.now())
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, pipeline_id, name)
    site.stand(Pipeline(kind=PipelineKind.FLOW, id=pipeline_id, name=name), status)


@pytest.mark.parametrize(
    ("status", "state"),
    [(Status.SUCCEEDED, "healthy"), (Status.FAILED, "failing"), (Status.CANCELED, "canceled")],
)
async def test_a_pipeline_has_its_state(site: Site, status: Status, state: str) -> None:
    """In words, for those who see no colour."""
    stand(site, "orders", status)
    assert words(await site.get_recomputed("/badge/acme/flow/7.svg")) == f"orders: {state}"


async def test_a_workspace_counts_what_is_bad(site: Site) -> None:
    """Healthy is said only of all; what cannot be seen is not healthy."""
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: not wholly seen"
    see(site)
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: no pipelines"
    stand(site, "orders", Status.SUCCEEDED)
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: all healthy"
    stand(site, "sales", Status.FAILED, "8")
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: 1 failing"
    site.live_state.update_workspace("acme", reachability=Reachability.UNREACHABLE)
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: 1 failing, 1 unknown"


async def test_a_name_is_text_and_nothing_else(site: Site) -> None:
    """Markup, control characters and length of a name change nothing but the words."""
    stand(site, EVIL, Status.SUCCEEDED)
    shown = words(await site.get_recomputed("/badge/acme/flow/7.svg"))
    assert shown.startswith("</text><script>")
    assert shown.endswith("\N{HORIZONTAL ELLIPSIS}: healthy")


async def test_an_unchanged_picture_is_not_sent_again(site: Site) -> None:
    """A wiki with many readers asks each time, and gets 304."""
    answer = await site.get_recomputed("/badge/acme.svg")
    held = {"If-None-Match": answer.headers["Etag"]}
    assert (await site.get("/badge/acme.svg", headers=held)).status == 304


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/badge/acm.svg", "workspace: 'acm' is not known; did you mean acme?"),
        ("/badge/acme/flow/404.svg", "flow '404' is not known"),
        ("/badge/acme/job/7.svg", "kind: 'job' is none of flow, plan"),
        ("/badge/acme.svg?style=flat", "query: 'style' is not known; known: none"),
    ],
)
async def test_an_unknown_pipeline_is_a_problem(site: Site, path: str, detail: str) -> None:
    """The problem names what is wrong."""
    answer = await site.get(path)
    assert answer.status in (400, 404)
    assert answer.document["detail"] == detail


async def test_without_an_end_there_is_nothing_to_be_healthy(site: Site) -> None:
    """A workspace whose pipelines never ran is grey, canceled ones are counted, mixed ones too."""
    see(site)
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "1", "new")
    answer = await site.get_recomputed("/badge/acme.svg")
    assert (words(answer), GREEN in answer.text) == ("acme: no run yet", False)
    stand(site, "orders", Status.SUCCEEDED)
    assert words(await site.get_recomputed("/badge/acme.svg")) == "acme: 1 healthy, 1 without a run"
    stand(site, "sales", Status.CANCELED, "8")
    answer = await site.get_recomputed("/badge/acme.svg")
    assert (words(answer), GREEN in answer.text) == ("acme: 1 canceled", False)


async def test_a_blind_or_alerting_workspace_is_not_green(site: Site) -> None:
    """Alerts about no pipeline, schedules and rules that cannot be read: none is all healthy."""
    see(site)
    stand(site, "orders", Status.SUCCEEDED)
    fail_poll(site, "schedules")
    answer = await site.get_recomputed("/badge/acme.svg")
    assert (words(answer), GREEN in answer.text) == ("acme: not wholly seen", False)
    site.live_state.polls.clear()
    site.alerting.show(site.alerting.alert(pipeline=None, kind=None))
    answer = await site.get_recomputed("/badge/acme.svg")
    assert (words(answer), RED in answer.text) == ("acme: 1 other alert", True)
    site.alerting.show(failing_rules={"run_failed": "KeyError"})
    answer = await site.get_recomputed("/badge/acme.svg")
    assert (words(answer), GREEN in answer.text) == ("acme: not all rules evaluated", False)
