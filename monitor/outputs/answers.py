"""What an output owes for each event that it was handed."""

from __future__ import annotations

import asyncio

from monitor.model.errors import OutputError


def settle(answer: asyncio.Future[None], failure: OutputError | None) -> None:
    """Give the answer, unless it was given or is wanted no more."""
    if answer.done():
        return
    if failure is None:
        answer.set_result(None)
    else:
        answer.set_exception(failure)
