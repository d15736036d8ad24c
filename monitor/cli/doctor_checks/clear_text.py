"""Finds what others on the network could read: listeners and callbacks without TLS."""

from __future__ import annotations

from urllib.parse import urlsplit

from monitor.config import Configuration
from monitor.model.checks import CheckLine, warning
from monitor.model.outside import is_loopback

_PROXY = "put a reverse proxy with TLS in front: listen on 127.0.0.1, or name it in trusted_proxies"


def check_clear_text(configuration: Configuration) -> list[CheckLine]:
    """Return a warning for each listener and callback URL that is used without TLS.

    Workspaces, brokers and receivers have a line of their own for that.
    """
    server, callbacks = configuration.server, configuration.callbacks
    lines: list[CheckLine] = []
    # A listener that knows its proxies is behind them.
    if not is_loopback(server.host) and not server.trusted_proxies:
        sent = "its token or password" if server.has_auth else "all that anybody asks for"
        found = f"{server.listen} can be reached by others: {sent} travels in the clear"
        lines.append(warning("server TLS", found, _PROXY))
    if callbacks is not None and not is_loopback(callbacks.host) and not callbacks.trusted_proxies:
        found = (
            f"{callbacks.listen} can be reached by others: "
            "the secret of callbacks travels in the clear"
        )
        lines.append(warning("callbacks TLS", found, _PROXY))
    for workspace in configuration.workspaces:
        url = workspace.callbacks.public_url if workspace.callbacks is not None else None
        if url is not None and urlsplit(url).scheme == "http" and not _is_local(url):
            found = f"{url} is called without TLS: the secret of callbacks travels in the clear"
            hint = "write https:// in public_url, and let a reverse proxy terminate TLS"
            lines.append(warning(f"{workspace.name} public_url", found, hint))
    return lines


def _is_local(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
