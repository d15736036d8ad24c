"""Long answers: their headers, and how many may be open at once, in all and of one source."""

from __future__ import annotations

import contextlib
from collections import Counter as Tally
from collections.abc import Iterator

from monitor.web.http.problem_details import ProblemDetails

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would hold an event back until many have come
}


class StreamSlots:
    """Counts the answers of one kind that are open, also those that are about to begin."""

    def __init__(self, kind: str, *, in_all: int, of_a_source: int) -> None:
        """``kind`` is what they are called in a refusal, such as ``streams``."""
        self._kind = kind
        self._in_all = in_all
        self._of_a_source = of_a_source
        self._open: Tally[str] = Tally()  # by source

    @contextlib.contextmanager
    def slot(self, source: str) -> Iterator[None]:
        """Hold a slot. To be taken before anything is awaited: others may come meanwhile.

        Raises:
            ProblemDetails: there is none.
        """
        if self._open.total() >= self._in_all:
            raise ProblemDetails(503, f"{self._in_all} {self._kind} are open already; close one")
        if self._open[source] >= self._of_a_source:
            raise ProblemDetails(
                503, f"{source} has {self._of_a_source} {self._kind} open already; close one"
            )
        self._open[source] += 1
        try:
            yield
        finally:
            self._open[source] -= 1
            if not self._open[source]:
                del self._open[source]
