"""Answers that an output owes for each event that it was given."""

from __future__ import annotations

import asyncio

from monitor.model.errors import OutputError


def give_answer(answer: asyncio.Future[None], failure: OutputError | None) -> None:
    """End the future, unless it has ended or was cancelled."""
    if answer.done():
        return
    if failure is None:
        answer.set_result(None)
    else:
        answer.set_exception(failure)
