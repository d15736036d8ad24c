"""Faults of callbacks, observed at a real receiver."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import Any

import msgspec
import pytest

from monitor.sandbox.callbacks.deliveries import DeliveryState
from monitor.sandbox.callbacks.faults import FIRST_UNKNOWN_ID
from monitor.sandbox.running.engine import Outcome
from monitor.sandbox.world.faults import WorldOptions, parse_faults
from monitor.sandbox.world.records.objects import Flow
from tests.sandbox.bench import ANYBODY
from tests.sandbox.test_world_deliveries import Post, Received, posting

SECRET = {"X-Secret": "open sesame", "Content-Type": "application/json"}
BODY = '{"id":$jobId,"status":"$jobStatus"}'


def reported(requests: list[Received]) -> list[tuple[int, str]]:
    """Return the run and the status that each callback speaks of."""
    bodies = [msgspec.json.decode(request.body) for request in requests]
    return [(body["id"], body["status"]) for body in bodies]


def flow_with_callback(post: Post, **values: Any) -> Flow:
    flow = post.bench.flow(())
    post.task(flow.id, body=BODY, **{"headers": SECRET, **values})
    return flow


def is_signed(request: Received, key: str) -> bool:
    stamp, digest = request.headers["x-webhook-signature"].split(",")
    signed = stamp.removeprefix("t=").encode() + b"." + request.body
    return digest == "sha256=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


async def test_a_callback_is_lost() -> None:
    """Nothing is sent, and the log names the fault."""
    async with posting(options=WorldOptions(callback_lost=1.0)) as post:
        await post.run(flow_with_callback(post))
        await post.until_delivered()
        assert [delivery.state for delivery in post.deliveries.log] == [DeliveryState.LOST]
        assert post.receiver.requests == []


async def test_a_callback_comes_twice() -> None:
    """Both report the same end."""
    async with posting(options=WorldOptions(callback_duplicate=1.0)) as post:
        job_group = await post.run(flow_with_callback(post))
        await post.until_delivered()
        assert reported(post.receiver.requests) == [(job_group.id, "Complete")] * 2


async def test_a_callback_comes_late() -> None:
    """It is on its way for so many seconds after the end."""
    options = WorldOptions(callback_late=1.0, callback_late_seconds=300.0)
    async with posting(options=options) as post:
        job_group = await post.run(flow_with_callback(post))
        await post.bench.clock.advance(290)
        assert post.receiver.requests == []
        await post.until_delivered()
        assert reported(post.receiver.requests) == [(job_group.id, "Complete")]


async def test_callbacks_change_their_order() -> None:
    """The first is held back until the second was sent."""
    async with posting(options=WorldOptions(callback_reordered=1.0)) as post:
        flow = flow_with_callback(post)
        first = await post.run(flow)
        second = await post.run(flow)
        await post.until_delivered()
        assert [run_id for run_id, _ in reported(post.receiver.requests)] == [second.id, first.id]


async def test_a_callback_that_no_other_follows_is_let_go() -> None:
    """It is held back for a minute and no longer."""
    async with posting(options=WorldOptions(callback_reordered=1.0)) as post:
        job_group = await post.run(flow_with_callback(post))
        await post.bench.clock.advance(50)
        assert post.receiver.requests == []
        await post.until_delivered()
        assert [run_id for run_id, _ in reported(post.receiver.requests)] == [job_group.id]


@pytest.mark.parametrize(
    ("truth", "lie"), [(Outcome.COMPLETE, "Failed"), (Outcome.FAILED, "Complete")]
)
async def test_a_callback_contradicts(truth: Outcome, lie: str) -> None:
    """It reports the other end than the one that the workspace shows."""
    async with posting(options=WorldOptions(callback_contradicting=1.0)) as post:
        job_group = await post.run(flow_with_callback(post), outcome=truth)
        await post.until_delivered()
        assert job_group.status.value.lower() == truth.value
        assert reported(post.receiver.requests) == [(job_group.id, lie)]


async def test_truth_and_lie_come_together() -> None:
    """Of two copies each is spoiled by its own chance, so that some pairs contradict."""
    options = WorldOptions(callback_duplicate=1.0, callback_contradicting=0.5)
    async with posting(options=options) as post:
        flow = flow_with_callback(post)
        recipe = post.bench.world.recipes_of(flow.id)[0]
        for _ in range(12):
            post.bench.engine.start_job_group(recipe, by=ANYBODY)
        await post.bench.clock.advance(26)
        await post.until_delivered()
        statuses: dict[int, set[str]] = {}
        for run_id, status in reported(post.receiver.requests):
            statuses.setdefault(run_id, set()).add(status)
        assert len(statuses) == 12
        assert {"Complete", "Failed"} in statuses.values()


async def test_a_run_that_does_not_exist_is_reported() -> None:
    """Beside the truth, a callback with every secret right speaks of a run that never was."""
    async with posting(options=WorldOptions(callback_unknown_run=1.0)) as post:
        job_group = await post.run(flow_with_callback(post))
        await post.until_delivered()
        known, unknown = sorted(reported(post.receiver.requests))
        assert known == (job_group.id, "Complete")
        assert unknown[0] >= FIRST_UNKNOWN_ID
        assert {request.headers["x-secret"] for request in post.receiver.requests} == {
            "open sesame"
        }


async def test_a_forger_does_not_know_the_secret() -> None:
    """Beside the truth comes the contrary, with another value in each header."""
    async with posting(options=WorldOptions(callback_wrong_secret=1.0)) as post:
        job_group = await post.run(flow_with_callback(post))
        await post.until_delivered()
        by_secret = {request.headers["x-secret"]: request for request in post.receiver.requests}
        right = by_secret.pop("open sesame")
        (forged,) = by_secret.values()
        assert reported([right, forged]) == [(job_group.id, "Complete"), (job_group.id, "Failed")]
        assert forged.headers["content-type"] == "application/json"


async def test_a_forger_does_not_know_the_url() -> None:
    """Where a task has no header to hold a secret, the end of its URL is another."""
    async with posting(options=WorldOptions(callback_wrong_secret=1.0)) as post:
        await post.run(flow_with_callback(post, headers={}, url=post.receiver.url + "/hook/key"))
        await post.until_delivered()
        paths = {
            request.path: msgspec.json.decode(request.body)["status"]
            for request in post.receiver.requests
        }
        assert paths == {"/hook/key": "Complete", "/hook/kex": "Failed"}


async def test_a_forger_does_not_know_the_key() -> None:
    """Beside the truth comes the contrary, with the right secret and signed with another key."""
    async with posting(options=WorldOptions(callback_wrong_signature=1.0)) as post:
        await post.run(flow_with_callback(post, secret_key="key"))
        await post.run(flow_with_callback(post))  # nothing signs these
        await post.until_delivered()
        signed = [
            request
            for request in post.receiver.requests
            if "x-webhook-signature" in request.headers
        ]
        ends = {is_signed(item, "key"): msgspec.json.decode(item.body)["status"] for item in signed}
        assert ends == {True: "Complete", False: "Failed"}
        assert len(post.receiver.requests) == 3


async def counted(spec: str, *, seed: int = 1) -> Counter[tuple[int, str]]:
    """Return what is reported of forty job groups that all complete."""
    async with posting(options=parse_faults([spec]), seed=seed) as post:
        flow = flow_with_callback(post)
        recipe = post.bench.world.recipes_of(flow.id)[0]
        for _ in range(40):
            post.bench.engine.start_job_group(recipe, by=ANYBODY)
        await post.bench.clock.advance(26)
        await post.until_delivered()
        return Counter(reported(post.receiver.requests))


async def test_the_seed_decides_about_callbacks() -> None:
    """The same seed spoils the same callbacks, another seed others, each at about its ratio."""
    spec = "callback_lost=0.3,callback_contradicting=0.2,callback_unknown_run=0.1"
    first = await counted(spec)
    assert first == await counted(spec)
    assert first != await counted(spec, seed=2)
    of_known_runs = [callback for callback in first if callback[0] < FIRST_UNKNOWN_ID]
    assert 18 <= len(of_known_runs) <= 36
    assert any(status == "Failed" for _, status in of_known_runs)
    assert len(of_known_runs) < len(first)
