"""What the HTTP library has to say about requests that never became one."""

from __future__ import annotations

import structlog
from aiohttp.http_exceptions import HttpProcessingError

log = structlog.get_logger()


class CallbackRequestErrors:
    """Stands where the library expects a logger.

    A stranger can send any bytes, so they must not fill the log with traces, and what cannot be
    parsed may hold a secret, so its text is not repeated. What remains is a fault of ours.
    """

    def debug(self, message: str, *_: object, **__: object) -> None:
        """Nothing that the library calls a detail matters here."""

    def exception(
        self, message: str, *_: object, exc_info: BaseException | None = None, **__: object
    ) -> None:
        if isinstance(exc_info, HttpProcessingError):
            log.debug("not an HTTP request", error=type(exc_info).__name__)
            return
        # Not the message with its values: they name the sender's words.
        log.error("callback failed", exc_info=exc_info, reason=message)
