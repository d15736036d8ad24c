"""What the sandbox sends when a job group ends, to a real receiver."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from monitor.sandbox.callbacks.deliveries import Deliveries, DeliveryState, signature
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.settings import DeliverySettings, WorldOptions
from monitor.sandbox.world.records.objects import Flow, HttpTask, WebhookFlowTask
from monitor.sandbox.world.records.runs import JobGroup, RanFor
from tests.sandbox.bench import ANYBODY, Bench, advance_until, running, sending


@dataclass(frozen=True, kw_only=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Receiver:
    """Answers with the given statuses in turn, then with 204 forever."""

    statuses: list[int]
    requests: list[Received] = field(default_factory=list)
    url: str = ""

    async def receive(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(
            Received(
                method=request.method,
                path=request.path_qs,
                headers=headers,
                body=await request.read(),
            )
        )
        status = self.statuses.pop(0) if self.statuses else 204
        return web.Response(status=status, headers={"Location": "/elsewhere"})


@dataclass(frozen=True, kw_only=True)
class Post:
    """A bench with deliveries and a receiver."""

    bench: Bench
    deliveries: Deliveries
    receiver: Receiver

    def task(self, flow_id: int, **values: Any) -> WebhookFlowTask:
        values.setdefault("url", self.receiver.url + "/hook")
        return self.bench.world.create(
            WebhookFlowTask, by=ANYBODY, flow_id=flow_id, name="task", **values
        )

    async def run(self, flow: Flow, **order: Any) -> JobGroup:
        """Run the flow's first recipe to its end, and what it makes to be sent."""
        if order:
            self.bench.engine.order(Order(**order))
        recipe = self.bench.world.recipes_of(flow.id)[0]
        job_group = self.bench.engine.start_job_group(recipe, by=ANYBODY)
        await self.bench.clock.advance(26)
        assert job_group.status.is_over
        return job_group

    async def until_delivered(self) -> None:
        """Wait until nothing is under way any more."""
        await advance_until(
            self.bench.clock,
            lambda: all(
                delivery.state is not DeliveryState.WAITING for delivery in self.deliveries.log
            ),
        )


@asynccontextmanager
async def posting(
    *statuses: int,
    settings: DeliverySettings | None = None,
    options: WorldOptions | None = None,
    seed: int = 1,
) -> AsyncIterator[Post]:
    receiver = Receiver(statuses=list(statuses))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.receive)
    async with TestServer(app) as server, running(options=options, seed=seed) as bench:
        receiver.url = str(server.make_url("")).rstrip("/")
        deliveries = Deliveries(bench.world, settings or DeliverySettings())
        bench.engine.on_job_group_ended(deliveries.on_job_group_ended)
        async with sending(deliveries):
            yield Post(bench=bench, deliveries=deliveries, receiver=receiver)


async def test_variables_are_replaced_everywhere() -> None:
    """Body, headers and URL carry the job group's id and its status, as text."""
    async with posting() as post:
        flow = post.bench.flow(())
        post.task(
            flow.id,
            method="put",
            url=post.receiver.url + "/hook?id=$jobId",
            body='{"job":"$jobId","ended":"$jobStatus"}',
            headers={"X-Status": "$jobStatus", "content-type": "text/plain"},
        )
        job_group = await post.run(flow)
        await post.until_delivered()
        (request,) = post.receiver.requests
        assert (request.method, request.path) == ("PUT", f"/hook?id={job_group.id}")
        assert request.body == b'{"job":"%d","ended":"Complete"}' % job_group.id
        assert request.headers["x-status"] == "Complete"
        assert request.headers["content-type"] == "text/plain"


@pytest.mark.parametrize(
    ("event", "bodies"),
    [
        ("onJobSuccess", [b"Complete"]),
        ("onJobFailure", [b"Failed"]),
        ("onJobDone", [b"Complete", b"Failed"]),
    ],
)
async def test_an_event_fires_for_its_ends_only(event: str, bodies: list[bytes]) -> None:
    """Success, failure or both are reported as the task is set; a cancel is never reported."""
    async with posting() as post:
        flow = post.bench.flow(())
        post.task(flow.id, trigger_event=event, body="$jobStatus")
        for outcome in (Outcome.COMPLETE, Outcome.FAILED, Outcome.CANCELED):
            await post.run(flow, outcome=outcome)
            await post.until_delivered()
        assert [request.body for request in post.receiver.requests] == bodies


@pytest.mark.parametrize(("event", "bodies"), [("onJobDone", [b"Canceled"]), ("onJobFailure", [])])
async def test_a_cancel_is_reported_where_the_workspace_does_so(
    event: str, bodies: list[bytes]
) -> None:
    """With that option a task for any end reports a cancel too, and the others still do not."""
    async with posting(options=WorldOptions(cancels_fire_webhooks=True)) as post:
        flow = post.bench.flow(())
        post.task(flow.id, trigger_event=event, body="$jobStatus")
        await post.run(flow, outcome=Outcome.CANCELED)
        await post.until_delivered()
        assert [request.body for request in post.receiver.requests] == bodies


async def test_some_means_the_named_recipes() -> None:
    """A task for some outputs is silent about the others, and about other flows."""
    async with posting() as post:
        flow, other = post.bench.flow((), ()), post.bench.flow(())
        first, second = post.bench.world.recipes_of(flow.id)
        post.task(flow.id, trigger_object="some", flow_node_ids=(second.id,), body="$jobId")
        for recipe in (first, second, *post.bench.world.recipes_of(other.id)):
            post.bench.engine.start_job_group(recipe, by=ANYBODY)
        await post.bench.clock.advance(26)
        await post.until_delivered()
        (callback,) = post.receiver.requests
        job_group = post.bench.world.job_groups.get(int(callback.body))
        assert job_group is not None
        assert job_group.recipe_id == second.id


async def test_a_deleted_task_is_silent() -> None:
    """Nothing is sent for a task that is no longer there."""
    async with posting() as post:
        flow = post.bench.flow(())
        post.bench.world.delete(post.task(flow.id))
        await post.run(flow)
        assert list(post.deliveries.log) == []


@pytest.mark.parametrize(("enabled", "count"), [(False, 0), (True, 1)])
async def test_inside_a_plan_only_enabled_nodes_fire(*, enabled: bool, count: int) -> None:
    """A plan's node switches the flow's callbacks on or off for its runs."""
    async with posting() as post:
        flow = post.bench.flow(())
        post.task(flow.id)
        plan = post.bench.plan(flow)
        for node in post.bench.world.nodes_of(plan.id):
            node.webhooks_enabled = enabled
        plan_run = post.bench.engine.start_plan_run(plan, by=ANYBODY)
        await post.bench.clock.advance(100)
        await post.until_delivered()
        assert plan_run.status.is_over
        assert len(post.receiver.requests) == count


@pytest.mark.parametrize(("fires", "count"), [(False, 0), (True, 1)])
async def test_samples_fire_only_where_the_workspace_does_so(*, fires: bool, count: int) -> None:
    """An option of the workspace lets samples send callbacks; usually they send none."""
    async with posting(options=WorldOptions(samples_fire_webhooks=fires)) as post:
        flow = post.bench.flow(())
        post.task(flow.id)
        recipe = post.bench.world.recipes_of(flow.id)[0]
        post.bench.engine.start_job_group(recipe, by=ANYBODY, ran_for=RanFor.SAMPLING)
        await post.bench.clock.advance(26)
        await post.until_delivered()
        assert len(post.receiver.requests) == count


async def test_a_refused_callback_is_tried_again_a_few_times() -> None:
    """With retries on, it is sent until it is answered 2xx."""
    async with posting(500, 302, 404) as post:
        flow = post.bench.flow(())
        post.task(flow.id, retry_on_failure=True)
        await post.run(flow)
        await post.until_delivered()
        (delivery,) = post.deliveries.log
        assert delivery.state is DeliveryState.DELIVERED
        assert [answer.status_code for answer in delivery.answers] == [500, 302, 404, 204]
        assert {request.path for request in post.receiver.requests} == {
            "/hook"
        }  # no redirect followed


async def test_the_retries_end() -> None:
    """After the last one the delivery has failed, and shows the status."""
    async with posting(*[503] * 20) as post:
        flow = post.bench.flow(())
        post.task(flow.id, retry_on_failure=True)
        await post.run(flow)
        await post.until_delivered()
        (delivery,) = post.deliveries.log
        assert delivery.state is DeliveryState.FAILED
        assert len(post.receiver.requests) == 4


async def test_without_retries_it_is_sent_once() -> None:
    """A task without retries has one attempt."""
    async with posting(503) as post:
        flow = post.bench.flow(())
        post.task(flow.id)
        await post.run(flow)
        await post.until_delivered()
        assert [delivery.state for delivery in post.deliveries.log] == [DeliveryState.FAILED]
        assert len(post.receiver.requests) == 1


async def test_a_secret_key_signs_time_and_body() -> None:
    """The header's digest is the HMAC of the time in milliseconds, a dot and the raw body."""
    async with posting() as post:
        flow = post.bench.flow(())
        post.task(flow.id, body="ünï $jobId", secret_key="key")
        await post.run(flow)
        await post.until_delivered()
        (request,) = post.receiver.requests
        stamp, digest = request.headers["x-webhook-signature"].split(",")
        signed = stamp.removeprefix("t=").encode() + b"." + request.body
        assert digest == "sha256=" + hmac.new(b"key", signed, hashlib.sha256).hexdigest()
        milliseconds = int(stamp.removeprefix("t="))
        assert abs(milliseconds / 1_000 - post.bench.world.now().timestamp()) < 60
        assert signature("key", request.body, at_milliseconds=milliseconds) == f"{stamp},{digest}"


async def test_callbacks_beyond_the_bound_are_dropped_and_logged() -> None:
    """With more waiting than the bound, the rest is not sent and the log shows it."""
    async with posting(settings=DeliverySettings(waiting=2)) as post:
        flow = post.bench.flow(())
        for _ in range(5):
            post.task(flow.id)
        await post.run(flow)
        await post.until_delivered()
        states = [delivery.state for delivery in post.deliveries.log]
        assert states == [DeliveryState.DELIVERED] * 2 + [DeliveryState.DROPPED] * 3
        assert len(post.receiver.requests) == 2


def without_server(_: str) -> str:
    return f"http://127.0.0.1:{unused_port()}/"


@pytest.mark.parametrize(
    "url_of", [without_server, lambda _: "nonsense", lambda url: url.replace("http", "gopher")]
)
async def test_an_url_that_cannot_be_reached_fails_with_a_reason(
    url_of: Callable[[str], str],
) -> None:
    """No listener, no URL at all, another protocol: an error, and never the URL in it."""
    async with posting() as post:
        url = url_of(post.receiver.url)
        answer = await post.deliveries.test(HttpTask(url=url, body="x"))
        assert answer.status_code is None
        assert answer.error
        assert url not in answer.error


async def test_a_test_sends_what_it_is_given() -> None:
    """The test request goes out once, unchanged, and its status comes back whatever it is."""
    async with posting(418) as post:
        answer = await post.deliveries.test(
            HttpTask(
                url=post.receiver.url + "/t", method="get", headers={"X-A": "b"}, body="$jobId"
            )
        )
        (request,) = post.receiver.requests
        assert answer.status_code == 418
        assert (request.method, request.body, request.headers["x-a"]) == ("GET", b"$jobId", "b")
        assert list(post.deliveries.log) == []


async def test_a_receiver_that_does_not_answer_is_given_up() -> None:
    """After the time limit the attempt has failed with a reason."""
    async with posting(settings=DeliverySettings(time_limit_seconds=0.05)) as post:
        silent = web.Application()

        async def never(_: web.Request) -> web.Response:
            await post.bench.clock.sleep(1e9)
            return web.Response()

        silent.router.add_post("/", never)
        async with TestServer(silent) as server:
            answer = await post.deliveries.test(HttpTask(url=str(server.make_url("/"))))
        assert answer.error == "no answer within 0.05 seconds"
