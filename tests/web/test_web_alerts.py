"""The JSON API of alerts, silences, explanations and replays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from monitor.model.alerts import AlertState, Severity
from monitor.model.notifying import MessagePreview
from monitor.model.runs import PipelineKind, Status
from monitor.outputs.dead_letters import LetterAction
from tests.web.site import Answer, Site

SILENCE = {
    "matchers": ["pipeline=daily*"],
    "author": "ann",
    "comment": "planned reload",
    "for_seconds": 7200,
}


def problem(answer: Answer) -> tuple[int, str]:
    """Return status and detail of an answer that must be a problem as RFC 9457 has it."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.document["status"] == answer.status
    return answer.status, answer.document["detail"]


async def test_alerts_are_listed_the_worst_first(site: Site) -> None:
    """Firing alerts stand before pending and ended ones, and the severe before the mild."""
    later = site.clock.now() + timedelta(minutes=1)
    site.alerting.show(
        site.alerting.alert("over", state=AlertState.RESOLVED, ends_at=later),
        site.alerting.alert("waits", state=AlertState.PENDING),
        site.alerting.alert("mild", severity=Severity.WARNING),
        site.alerting.alert("old"),
        site.alerting.alert("new", starts_at=later),
    )
    listed = (await site.get("/api/v1/alerts")).document["data"]
    assert [alert["fingerprint"] for alert in listed] == ["new", "old", "mild", "waits", "over"]


async def test_an_alert_is_shown_with_every_field(site: Site) -> None:
    """Empty fields are there too, so that scripts need not test for each."""
    site.alerting.show(site.alerting.alert())
    (alert,) = (await site.get("/api/v1/alerts")).document["data"]
    assert (alert["state"], alert["pipeline"], alert["run_id"]) == ("firing", "orders", "17")
    assert (alert["ends_at"], alert["muted_by"], alert["flapping"]) == (None, [], False)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=firing", ["a", "b"]),
        ("state=pending", ["c"]),
        ("workspace=other", ["b"]),
        ("rule=run_failed&workspace=acme", ["a", "c"]),
        ("rule=renamed", []),
        ("state=resolved&workspace=acme", []),
        ("workspace=bridge", []),
    ],
)
async def test_alerts_are_chosen(site: Site, query: str, expected: list[str]) -> None:
    """State, rule and workspace leave out what does not fit."""
    alert = site.alerting.alert
    site.alerting.show(
        alert("a"),
        alert("b", workspace="other"),
        alert("c", state=AlertState.PENDING),
        rules=(("run_failed", Severity.CRITICAL), ("renamed", Severity.INFO)),
    )
    listed = (await site.get(f"/api/v1/alerts?{query}")).document["data"]
    assert sorted(alert["fingerprint"] for alert in listed) == expected


async def test_one_alert_is_shown_with_its_former_episodes(site: Site) -> None:
    """Whatever is kept of a fingerprint stands there, also when it fires no more."""
    site.alerting.show(site.alerting.alert("aa"))
    site.alerting.over["bb"] = [site.alerting.alert("bb", state=AlertState.RESOLVED)]
    now = (await site.get("/api/v1/alerts/aa")).document
    assert (now["alert"]["fingerprint"], now["ended"]) == ("aa", [])
    over = (await site.get("/api/v1/alerts/bb")).document
    assert (over["alert"], len(over["ended"])) == (None, 1)


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/alerts?state=red", 400, "state: 'red' is none of firing, open, pending, reso"),
        ("/api/v1/alerts?rule=run_faild", 400,
         "rule: 'run_faild' is not known; did you mean run_failed?"),
        ("/api/v1/alerts?workspace=acm", 400,
         "workspace: 'acm' is not known; did you mean acme?"),
        ("/api/v1/alerts?state=pending&workspace=other", 400,
         "workspace: 'other' is not known; known: acme, bridge"),
        ("/api/v1/explain?run=acm/job_group/17", 400,
         "workspace: 'acm' is not known; did you mean acme?"),
        ("/api/v1/explain?pipeline=other/flow/7", 400,
         "workspace: 'other' is not known; known: acme"),
        ("/api/v1/alerts/9f86d081884c7d66", 404,
         "alert: '9f86d081884c7d66' is not known; did you mean 9f86d081884c7d65?"),
        ("/api/v1/explain", 400, "name one of name=NAME, alert=FINGERPRINT, run=WORKSPACE/KIND/ID"),
        ("/api/v1/explain?alert=a&run=b", 400, "name one of name=NAME, alert=FINGERPRINT"),
        ("/api/v1/explain?alert=zzz", 404,
         "alert: 'zzz' is not known; known: 9f86d081884c7d65"),
        ("/api/v1/explain?run=17", 400, "run: '17' is not WORKSPACE/KIND/ID"),
        ("/api/v1/explain?run=acme//17", 400, "run: 'acme//17' is not WORKSPACE/KIND/ID"),
        ("/api/v1/explain?run=acme/flow/17", 400, "run: kind: 'flow' is none of flow_run, job_"),
        ("/api/v1/explain?run=acme/job_group/9", 404,
         ("run acme/job_group/9 is not known: it is neither among the stored runs of acme, where "
          "ended ones are kept for `runs_seconds`, nor in the event log")),
        ("/api/v1/explain?pipeline=acme/job_group/7", 400, "pipeline: kind: 'job_group' is none"),
        ("/api/v1/explain?pipeline=acme/plan/7", 404,
         "plan '7' is not known: searched the ids and names of 0 plans of acme"),
    ],
)  # fmt: skip
async def test_an_invalid_query_about_alerts_names_the_problem(
    site: Site, path: str, status: int, detail: str
) -> None:
    """The response is a problem that names the value, and the nearest valid one."""
    site.alerting.show(site.alerting.alert())
    refusal = problem(await site.get(path))
    assert (refusal[0], refusal[1][: len(detail)]) == (status, detail)


async def test_a_silence_is_made_listed_and_ended(site: Site) -> None:
    """It counts from the daemon's own clock, and an end before its time ends it."""
    made = await site.post("/api/v1/silences", json=SILENCE)
    assert made.status == 201
    assert made.document["ends_at"] == "2026-11-21T12:00:00Z"
    listed = (await site.get("/api/v1/silences")).document["data"]
    assert listed == [made.document]
    ended = await site.delete(f"/api/v1/silences/{made.document['id']}")
    assert ended.status == 200
    assert (await site.get("/api/v1/silences")).document["data"] == []


@pytest.mark.parametrize(
    ("changed", "problem_text"),
    [
        ({"for_seconds": None}, "a silence without an end is forgotten"),
        ({"for_seconds": 0}, "for_seconds: is not above 0"),
        ({"for_seconds": 1e300}, "for_seconds: is not above 0 and at most ten years"),
        ({"ends_at": "2026-11-22T10:00:00Z"}, "for_seconds: ends_at is given too"),
        ({"for_seconds": None, "ends_at": "2026-11-20T10:00:00Z"}, "is over; give a time to come"),
        ({"for_seconds": None, "ends_at": "tomorrow"}, "'tomorrow' is no time"),
        ({"for_seconds": 30 * 86_400.0 + 1}, "is more than 30 d after the start, the longest that"),
        (
            {"for_seconds": None, "ends_at": "2036-11-20T10:00:00Z"},
            "give an earlier end, or raise longest_silence_seconds in [alerting]",
        ),
        ({"starts_at": "2026-11-21T10:00:00"}, "has no time zone"),
        ({"matchers": []}, "name what is to be silent"),
        ({"matchers": ["daily*"]}, "'daily*' is no matcher"),
        ({"matchers": ["pipelin=daily*"]}, "did you mean pipeline?"),
        ({"matchers": ["workspace=acm"]}, "no workspace fits 'acm'; did you mean acme?"),
        ({"matchers": ["alertname=run_faild"]}, "did you mean run_failed?"),
        ({"author": " "}, "author: is needed"),
        ({"comment": ""}, "comment: is needed"),
        ({"more": 1}, "body: Object contains unknown field `more`"),
    ],
)
async def test_a_silence_that_cannot_be_meant_is_refused(
    site: Site, changed: dict[str, Any], problem_text: str
) -> None:
    """Without end, expired, without matchers, unknown labels: one problem, no new silence."""
    body = {key: value for key, value in {**SILENCE, **changed}.items() if value is not None}
    status, detail = problem(await site.post("/api/v1/silences", json=body))
    assert status == 400
    assert problem_text in detail
    assert site.alerting.snapshot.silences == ()


async def test_all_problems_of_a_silence_are_reported_at_once(site: Site) -> None:
    """One response has several problems."""
    body = {"matchers": ["nothing"], "author": "", "comment": ""}
    _, detail = problem(await site.post("/api/v1/silences", json=body))
    assert [
        text for text in ("matchers:", "author:", "comment:", "ends_at:") if text in detail
    ] == [
        "matchers:",
        "author:",
        "comment:",
        "ends_at:",
    ]


async def test_silences_have_a_state(site: Site) -> None:
    """Pending and expired silences differ."""
    now, hour = site.clock.now(), timedelta(hours=1)
    silence = site.alerting.silence
    site.alerting.show(
        silences=(
            silence("over", starts_at=now - hour, ends_at=now),
            silence("later", starts_at=now + hour, ends_at=now + 2 * hour),
            silence("now", ends_at=now + hour),
        )
    )
    listed = (await site.get("/api/v1/silences")).document["data"]
    assert [(silence["id"], silence["state"]) for silence in listed] == [
        ("now", "active"),
        ("later", "pending"),
        ("over", "expired"),
    ]


async def test_a_silence_of_the_configuration_ends_there(site: Site) -> None:
    """A silence of the file names its place; an unknown one gets the nearest id."""
    site.alerting.show(silences=(site.alerting.silence("config-1", origin="config"),))
    assert problem(await site.delete("/api/v1/silences/config-1")) == (
        409,
        "silence config-1 is part of the configuration; remove it there",
    )
    status, detail = problem(await site.delete("/api/v1/silences/config-2"))
    assert (status, detail) == (404, "silence: 'config-2' is not known; did you mean config-1?")
    assert len(site.alerting.snapshot.silences) == 1


async def test_a_foreign_page_cannot_silence(site: Site) -> None:
    """A body that a browser would post for another site is refused."""
    sent = await site.post("/api/v1/silences", data="{}", headers={"Content-Type": "text/plain"})
    assert problem(sent)[0] == 415


async def test_runs_alerts_and_pipelines_are_explained(site: Site) -> None:
    """The answer is one sentence, with its steps."""
    site.alerting.show(site.alerting.alert())
    site.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    questions = ("alert=9f86d081884c7d65", "run=acme/job_group/17", "pipeline=acme/flow/7")
    for query in questions:
        document = (await site.get(f"/api/v1/explain?{query}")).document
        assert document["reason"] == "pending"
        assert [step["stage"] for step in document["steps"]] == ["rule"]
        page = await site.get(f"/explain?{query}")
        assert "was not notified." in page.text
        assert "fires after 300 s" in page.text
        assert "<bdi>job group orders</bdi>" in page.text


async def test_an_output_is_sent_the_past_again(site: Site) -> None:
    """The output and the instant reach the replaying output, and the count comes back."""
    body = {"output": "mqtt", "since": "2026-11-21T11:00:00+01:00"}
    assert (await site.post("/api/v1/replay", json=body)).document["sent"] == 3
    assert site.alerting.replayed == [("mqtt", site.clock.now())]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"output": "mqt", "since": "2026-11-21T10:00:00Z"}, 404,
         "output: 'mqt' is not known; did you mean mqtt?"),
        ({"output": "mqtt", "since": "today"}, 400, "since: 'today' is no time"),
        ({"output": "mqtt"}, 400, "body: Object missing required field `since`"),
    ],
)  # fmt: skip
async def test_an_invalid_replay_is_refused(
    site: Site, body: dict[str, str], status: int, detail: str
) -> None:
    """An unknown output or no instant is named, and nothing is sent."""
    refusal = problem(await site.post("/api/v1/replay", json=body))
    assert (refusal[0], refusal[1][: len(detail)]) == (status, detail)
    assert site.alerting.replayed == []


@pytest.mark.parametrize("action", LetterAction)
async def test_dead_letters_are_resent_and_dropped(site: Site, action: LetterAction) -> None:
    """Some by their events, or all; the answer says what became of them."""
    route = f"/api/v1/dead-letters/{action}"
    answer = await site.post(route, json={"output": "mqtt", "event_ids": ["a", "b"]})
    assert (answer.document["sent"], answer.document["left"]) == (2, 1)
    await site.post(route, json={"output": "webhook", "all": True})
    assert site.alerting.processed_letters == [
        ("mqtt", action, ("a", "b")),
        ("webhook", action, None),
    ]


@pytest.mark.parametrize("action", LetterAction)
@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"output": "mqt", "all": True}, 404, "output: 'mqt' is not known; did you mean mqtt?"),
        ({"output": "mqtt"}, 400, "event_ids: name the events, or set all to true"),
        ({"output": "mqtt", "event_ids": ["a"], "all": True}, 400, "event_ids: name the events"),
        ({"output": "mqtt", "event_ids": ["a"] * 1_001}, 400, "body: Expected `array` of length"),
        ({"output": "mqtt", "ids": ["a"]}, 400, "body: Object contains unknown field `ids`"),
    ],
)  # fmt: skip
async def test_a_request_about_dead_letters_names_them(
    site: Site, action: LetterAction, body: dict[str, Any], status: int, detail: str
) -> None:
    """A request that names none, or too many, changes nothing."""
    refusal = problem(await site.post(f"/api/v1/dead-letters/{action}", json=body))
    assert (refusal[0], refusal[1][: len(detail)]) == (status, detail)
    assert site.alerting.processed_letters == []


async def test_messages_about_an_alert_are_previewed(site: Site) -> None:
    """Of each channel subject and text, or why none is sent; an unknown alert is a problem."""
    site.alerting.show(site.alerting.alert("9f86"))
    site.alerting.previews = (
        MessagePreview(channel="team", form="text", subject="FAILED: orders", text="why"),
        MessagePreview(channel="night", why_not="the channel is muted now: Sat UTC"),
    )
    shown = (await site.get("/api/v1/alerts/9f86/messages")).document["data"]
    assert [(row["channel"], row["subject"], row["why_not"]) for row in shown] == [
        ("team", "FAILED: orders", None),
        ("night", None, "the channel is muted now: Sat UTC"),
    ]
    refusal = problem(await site.get("/api/v1/alerts/9f8/messages"))
    assert refusal == (404, "alert: '9f8' is not known; did you mean 9f86?")


async def test_past_alerts_of_a_removed_rule_are_found(site: Site) -> None:
    """A rule that is no longer configured is not unknown while alerts of it are kept."""
    ended = site.alerting.alert(
        name="old_rule", rule="old_rule", state=AlertState.RESOLVED, ends_at=site.clock.now()
    )
    site.alerting.over = {ended.fingerprint: [ended]}
    found = await site.get("/api/v1/alerts?rule=old_rule")
    assert [alert["name"] for alert in found.document["data"]] == ["old_rule"]
    assert problem(await site.get("/api/v1/alerts?rule=older_rule"))[0] == 400


async def test_a_reason_that_was_read_later_is_in_every_list(site: Site) -> None:
    """A failure that fired without a reason says which one its run has by now, wherever it is."""
    site.alerting.show(site.alerting.alert("aa", facts={"error": None}))
    lists = ("alerts", "alerts/aa", "pipelines/acme/flow/7/alerts", "attention")
    paths = [f"/api/v1/{path}" for path in (*lists, "silences/preview?matcher=workspace=acme")]
    await site.observe(site.run("17", Status.FAILED))
    for path in paths:
        assert '"is_reason_read":false' in (await site.get(path)).text, path
    await site.observe(site.run("17", Status.FAILED, error="disk full"))
    for path in paths:
        text = (await site.get_recomputed(path)).text
        assert '"reason":"disk full","is_reason_read":true' in text, path
