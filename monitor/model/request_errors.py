"""Log lines of an HTTP server's library, reduced to what an operator needs."""

from __future__ import annotations

import structlog

log = structlog.get_logger()

# uvloop has no class of its own for a write to a socket that is gone already.
_UVLOOP_CLOSED = "the handler is closed"


class RequestErrors:
    """Stands where the library of a server expects a logger.

    Anybody can send any bytes, or hang up at any time, so ``harmless`` exceptions must not fill the
    log with traces; their texts may hold a secret and are not repeated. Any other exception is a
    bug of ours and is logged with its trace.
    """

    def __init__(self, *, harmless: tuple[type[BaseException], ...]) -> None:
        self._harmless = harmless

    def debug(self, message: str, *_: object, **__: object) -> None:
        """Drop what the library calls a detail."""

    def exception(
        self, message: str, *_: object, exc_info: BaseException | None = None, **__: object
    ) -> None:
        if isinstance(exc_info, self._harmless) or _is_closed_transport(exc_info):
            log.debug("request invalid or aborted", error=type(exc_info).__name__)
            return
        # The message without its values: they are the sender's words, with a query perhaps.
        log.error("request failed", exc_info=exc_info, reason=message)


def _is_closed_transport(error: BaseException | None) -> bool:
    return isinstance(error, RuntimeError) and str(error).endswith(_UVLOOP_CLOSED)
