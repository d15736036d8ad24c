"""Refusals of a listener: counted each time, logged in sum, so that no flood fills the log."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection
from enum import StrEnum

import structlog
from prometheus_client import Counter

from monitor.model.clock import Clock

log = structlog.get_logger()

_LOG_SECONDS = 60.0  # between two lines about one reason
_SOURCES_REMEMBERED = 1_000
_SOURCES_LOGGED = 5


class RefusalReason(StrEnum):
    """Why a connection or request is refused: values of a label and of the log."""

    TOO_MANY_CONNECTIONS = "too_many_connections"  # of one source, or of strangers in all
    TLS_HANDSHAKE = "tls_handshake"  # failed: no TLS, no common version, a foreign certificate
    WRONG_CREDENTIALS = "wrong_credentials"
    TOO_MANY_GUESSES = "too_many_guesses"  # after which credentials are not looked at
    FOREIGN_HOST = "foreign_host"
    FOREIGN_ORIGIN = "foreign_origin"
    TOO_MANY_WRITES = "too_many_writes"
    TOO_MANY_READS = "too_many_reads"


class Refusals:
    """Counts the refusals of one listener and logs their number and sources once a minute."""

    def __init__(
        self, listener: str, counter: Counter, *, reasons: Collection[RefusalReason], clock: Clock
    ) -> None:
        """``counter`` has the label ``reason``, and ``reasons`` are those that the listener has."""
        self._listener = listener
        self._clock = clock
        self._counters = {reason: counter.labels(reason) for reason in reasons}
        self._sources: dict[RefusalReason, Tally[str]] = {reason: Tally() for reason in reasons}
        self._log_from: dict[RefusalReason, float] = {}

    def add(self, reason: RefusalReason, source: str) -> None:
        self._counters[reason].inc()
        sources = self._sources[reason]
        is_known = source in sources or len(sources) < _SOURCES_REMEMBERED
        sources[source if is_known else "others"] += 1

    def log_due(self) -> None:
        """Log the sum of each reason about which nothing was logged for a minute."""
        now = self._clock.monotonic()
        for reason, sources in self._sources.items():
            if sources and now >= self._log_from.get(reason, now):
                self._log_from[reason] = now + _LOG_SECONDS
                self._log(reason, sources)

    def log_rest(self) -> None:
        """Log what was not logged yet; the listener stops."""
        for reason, sources in self._sources.items():
            if sources:
                self._log(reason, sources)

    def _log(self, reason: RefusalReason, sources: Tally[str]) -> None:
        log.warning(
            "requests refused",
            listener=self._listener,
            reason=reason.value,
            count=sources.total(),
            sources=dict(sources.most_common(_SOURCES_LOGGED)),
            further_sources=max(0, len(sources) - _SOURCES_LOGGED),
        )
        sources.clear()
