"""Checks whether Alertmanagers can be notified of alerts."""

from __future__ import annotations

from functools import partial

import msgspec

from monitor.model.checks import Check, CheckLine, ask_all, failed, is_failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import OutputError
from monitor.outputs.alertmanager.posting import JSON, receiver_at
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.certificates import ANSWER_SECONDS, check_tls
from monitor.outputs.settings import receiver_of


async def check_alertmanagers(settings: AlertmanagerSettings, *, clock: Clock) -> list[CheckLine]:
    """Post an empty list to each, with the credentials and TLS of the settings."""
    results = await ask_all(
        Check(_subject(url), partial(_check_alertmanager, url, settings, clock=clock))
        for url in settings.urls
    )
    return [line for lines in results for line in lines]


def _subject(url: str) -> str:
    return f"alertmanager {receiver_of(url)}"


async def _check_alertmanager(
    url: str, settings: AlertmanagerSettings, *, clock: Clock
) -> list[CheckLine]:
    subject = _subject(url)
    hasty = msgspec.structs.replace(
        settings, timeout_seconds=min(settings.timeout_seconds, ANSWER_SECONDS)
    )
    tls = await check_tls(subject, url, settings, clock=clock)
    if is_failed(tls):
        return tls  # which is also why no alert is accepted
    try:
        ahead = await _post_nothing(url, settings=hasty, clock=clock)
    except OutputError as exc:
        hint = "see that it runs, and check urls, username, password and token in [alertmanager]"
        return [failed(subject, f"accepts no alerts: {exc}", hint), *tls]
    clocks = (
        f"; its clock differs by {ahead:+.0f} s from ours, which is allowed for" if ahead else ""
    )
    return [ok(subject, f"accepted an empty list of alerts{clocks}"), *tls]


async def _post_nothing(url: str, *, settings: AlertmanagerSettings, clock: Clock) -> float:
    """Post no alert at all and return how many seconds its clock is ahead of ours.

    Raises:
        OutputError: it would not take alerts either.
    """
    receiver = receiver_at(url, settings=settings, clock=clock)
    try:
        await receiver.post(b"[]", headers=JSON)
    finally:
        await receiver.close()
    return receiver.ahead_seconds
