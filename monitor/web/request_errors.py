"""Logging of the HTTP library's errors about requests that it could not parse."""

from __future__ import annotations

import structlog
from aiohttp.http_exceptions import HttpProcessingError

log = structlog.get_logger()


class WebRequestErrors:
    """Replaces the logger that the library expects.

    Clients can send any bytes and disconnect at any time. Neither fills the log with traces; all
    other errors are bugs of ours.
    """

    def debug(self, message: str, *_: object, **__: object) -> None:
        """Ignore the library's debug messages."""

    def exception(
        self, message: str, *_: object, exc_info: BaseException | None = None, **__: object
    ) -> None:
        if isinstance(exc_info, HttpProcessingError | ConnectionError):
            log.debug("request aborted", error=type(exc_info).__name__)
            return
        # The message without its values: they contain the requested path with its query.
        log.error("request failed", exc_info=exc_info, reason=message)
