"""Secret of callbacks, token and certificate change while callbacks arrive, and none is lost."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from monitor.callbacks.listener import SECRET_HEADER
from monitor.callbacks.settings import CallbackSettings
from monitor.catalogue.capabilities import Capability
from monitor.cli.doctor_checks.callbacks import check_tasks
from monitor.sandbox.world.records.objects import Token
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.app.rotation_site import (
    A_SECOND,
    LIMIT_SECONDS,
    Load,
    Site,
    open_site,
    secret_of,
    serve,
)

until = partial(eventually, within_seconds=LIMIT_SECONDS)


@pytest.fixture(name="site")
async def _site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as opened:
        yield opened


def give_secret(site: Site, number: int) -> str:
    (site.folder / "former").write_text(site.secret)
    new = f"secret of callbacks {number}"
    (site.folder / "callbacks").write_text(new)
    site.reload.request()
    return new


async def change_secret(site: Site, number: int) -> None:
    """Give the daemon a new secret of callbacks; return once each task was moved."""
    new = give_secret(site, number)
    await until(
        lambda: any(task.headers[SECRET_HEADER] == secret_of(task, new) for task in site.tasks()),
        why="no task was moved",
    )
    site.secret = new  # a person changes what was made by hand, now that it is accepted
    await until(site.has_moved, why=lambda: f"{len(site.moved())} tasks were moved")


async def change_token(site: Site, number: int) -> None:
    """Give the daemon a new token and withdraw the former one; return once the new one is used."""
    world = site.workspace.world
    former, site.token = (
        site.token,
        world.create(
            Token,
            by=site.token.creator_id,
            token_id=f"rotated-{number}",
            value=f"rotated token {number}",
        ),
    )
    (site.folder / "token").write_text(site.token.value)
    world.delete(former)
    await until(lambda: site.token.last_used_at is not None, why="the token was not used")
    headers = {"Authorization": f"Bearer {former.value}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{site.workspace.url}/v4/flows") as answer,
    ):
        assert answer.status == 401


async def change_certificate(site: Site, number: int) -> None:
    """Give the listener a new pair; return once a new connection is served with it."""
    # In a thread: others go on while openssl makes it.
    pair = await asyncio.to_thread(
        site.certificates.sign, f"pair{number}", "subjectAltName=IP:127.0.0.1", days=3 + number
    )
    serve(site.folder, site.certificates, pair)
    site.reload.request()
    expected = ssl.PEM_cert_to_DER_cert(pair.read_text())
    tls = ssl.create_default_context(cafile=site.certificates.authority)

    async def is_served() -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=tls)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bool(shown == expected)

    await until(is_served, why="the pair was not loaded")


async def rotate(site: Site, *, rounds: int) -> Load:
    """Change everything so often under load; return what was sent."""
    sending = Load(site)
    async with sending.running():
        for number in range(1, rounds + 1):
            for change in (change_secret, change_token, change_certificate):
                await sending.until_sent(len(sending.sent_ids) + A_SECOND // 2)
                await change(site, number)
        await sending.until_sent(len(sending.sent_ids) + A_SECOND // 2)
    return sending


async def is_complete(site: Site, sending: Load) -> None:
    """Assert that each callback was answered 204 and counted, and waits or was processed."""
    sent = len(sending.sent_ids)
    assert sending.statuses == Counter({204: sent})
    requests = await site.counts("callback_requests_total")
    assert (requests.pop("accepted"), set(requests)) == (sent, {"test"})

    async def is_accounted_for() -> bool:
        processed = await site.counts("observations_total")
        return processed["unconfirmed"] + await site.unprocessed() == sent

    await until(is_accounted_for, why="a callback is neither processed nor in the inbox")


async def test_progress_is_shown_while_tasks_are_moved(site: Site) -> None:
    """Metric, page, API and doctor count the flows whose task has the former secret still."""
    flows, options = len(site.tasks()), site.workspace.world.options
    options.only, options.status_503 = frozenset({"createWebhookFlowTask"}), 1.0
    site.secret = give_secret(site, 1)
    await is_shown(site, state="pending", on_page="to be made", count=flows)
    assert site.moved() == []
    options.status_503 = 0.0
    await until(site.face.has_webhook_tasks, why="the tasks were not moved")
    assert site.has_moved()
    await is_shown(site, state="registered", on_page="registered", count=flows)


async def is_shown(site: Site, *, state: str, on_page: str, count: int) -> None:
    async def is_in_metric() -> bool:
        return await site.counts("webhook_tasks", "state") == Counter({state: count})

    async def is_on_page() -> bool:
        return f"{count} {on_page}" in await site.face.text("/monitor")

    await until(is_in_metric, why=f"not {count} {state}")
    await until(is_on_page, why=f"not {count} {on_page}")
    rows = (await site.face.json("/api/v1/webhooks"))["data"]
    assert [row["state"] for row in rows] == [state] * count
    (line,) = await check_tasks(
        ServerSettings(listen=f"127.0.0.1:{site.server_port}"),
        "acme",
        "tasks",
        CallbackSettings(public_url="https://monitor.example.com", flows=("*",)),
        capabilities=frozenset({Capability.CREATE_WEBHOOK_TASKS}),
        has_daemon=True,
    )
    assert (line.outcome, line.found) == ("ok", f"{count} {state}")


async def test_no_callback_is_lost_while_everything_is_rotated(site: Site) -> None:
    """200 callbacks a second go on while secret, token and certificate are each replaced once."""
    sending = await rotate(site, rounds=1)
    await is_complete(site, sending)


@pytest.mark.soak
async def test_no_callback_is_lost_in_many_rotations(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """The same for ten rounds; each secret and token is in force for some seconds only."""
    sending = await rotate(site, rounds=10)
    record_property("callbacks", len(sending.sent_ids))
    record_property("seconds", round(sending.seconds, 1))
    await is_complete(site, sending)
