"""What the HTTP library has to say about requests that never became one."""

from __future__ import annotations

import structlog
from aiohttp.http_exceptions import HttpProcessingError

log = structlog.get_logger()


class WebRequestErrors:
    """Stands where the library expects a logger.

    Whoever reaches the server can send any bytes, or go away at any time. Neither fills the log
    with traces; what remains is a fault of ours.
    """

    def debug(self, message: str, *_: object, **__: object) -> None:
        """Nothing that the library calls a detail matters here."""

    def exception(
        self, message: str, *_: object, exc_info: BaseException | None = None, **__: object
    ) -> None:
        if isinstance(exc_info, HttpProcessingError | ConnectionError):
            log.debug("a request came to nothing", error=type(exc_info).__name__)
            return
        # Not the message with its values: they name what was asked, with its query.
        log.error("request failed", exc_info=exc_info, reason=message)
