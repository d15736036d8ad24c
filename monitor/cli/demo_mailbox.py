"""The mailbox of the demo: a mail server of this machine, and a page that shows its mails."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from html import escape

from aiohttp import web
from msgspec import Struct

from monitor.cli.demo_broker import free_port
from monitor.model.errors import MonitorError

try:
    from aiosmtpd.smtp import SMTP, Envelope, Session
except ImportError:  # an installation that runs the daemon only
    SMTP = None  # type: ignore[assignment, misc]

TEAM = "data-team@example.com"
_KEPT = 200  # mails
_CLOSE_SECONDS = 2.0  # for connections that are open at the end
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'"
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:760px;margin:2em auto;padding:0 1em;"
    "color-scheme:light dark}iframe{width:100%;height:32em;border:1px solid #8886}"
    "li{margin:.4em 0}time{color:#777;margin-right:.8em}"
)


class ReceivedMail(Struct, frozen=True, kw_only=True):
    """One mail, as far as the page shows it."""

    subject: str
    recipient: str
    received: datetime
    html: str


class Mailbox:
    """Keeps the newest mails of all that arrive."""

    def __init__(self, on_mail: Callable[[ReceivedMail], None]) -> None:
        self._on_mail = on_mail
        self._mails: dict[int, ReceivedMail] = {}
        self._count = 0

    @contextlib.asynccontextmanager
    async def receiving(self) -> AsyncIterator[int]:
        """Receive mail on a free port of this machine and yield the port.

        Raises:
            MonitorError: the library of the mail server is not installed.
        """
        if SMTP is None:
            raise MonitorError(
                "the demo's mail server is not installed: pip install '.[demo]' in the checkout"
            )
        ended = asyncio.Event()
        open_connections = 0

        class MailConnection(SMTP):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                nonlocal open_connections
                # STARTTLS would call this a second time; nothing here speaks it.
                open_connections += 1
                super().connection_made(transport)

            def connection_lost(self, error: Exception | None) -> None:
                nonlocal open_connections
                super().connection_lost(error)
                open_connections -= 1
                if open_connections == 0:
                    ended.set()

        loop, port = asyncio.get_running_loop(), free_port()
        server = await loop.create_server(
            lambda: MailConnection(self, hostname="127.0.0.1"), "127.0.0.1", port
        )
        try:
            yield port
        finally:
            server.close()
            if open_connections:
                ended.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await ended.wait()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[str]:
        """Serve the mails as pages and yield the URL of the first one."""
        app = web.Application()
        app.router.add_get("/", self._list)
        app.router.add_get(r"/{number:\d{1,9}}", self._show)
        app.router.add_get(r"/{number:\d{1,9}}/html", self._show_html)
        runner = web.AppRunner(app)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            await runner.cleanup()

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        """Keep one mail; called by the mail server."""
        content = envelope.content
        data = content.encode() if isinstance(content, str) else content or b""
        message = email.message_from_bytes(data, policy=email.policy.default)
        if not isinstance(message, EmailMessage):
            return "554 no mail"
        body = message.get_body(("html", "plain"))
        mail = ReceivedMail(
            subject=str(message["Subject"]),
            recipient=", ".join(envelope.rcpt_tos),
            received=datetime.now(UTC),
            html="" if body is None else str(body.get_content()),
        )
        self._count += 1
        self._mails[self._count] = mail
        self._mails.pop(self._count - _KEPT, None)
        self._on_mail(mail)
        return "250 OK"

    # --- the pages ---

    async def _list(self, _: web.Request) -> web.Response:
        rows = [
            f"<li><time>{mail.received:%H:%M:%S}</time>"
            f'<a href="/{number}">{escape(mail.subject)}</a></li>'
            for number, mail in reversed(self._mails.items())
        ]
        listed = f"<ul>{''.join(rows)}</ul>" if rows else "<p>No mail has come yet.</p>"
        return _page("Mailbox of the demo", f"<h1>Mailbox of {TEAM}</h1>{listed}")

    async def _show(self, request: web.Request) -> web.Response:
        number, mail = self._found(request)
        return _page(
            mail.subject,
            f'<p><a href="/">Mailbox</a></p><h1>{escape(mail.subject)}</h1>'
            f"<p>To {escape(mail.recipient)}, {mail.received:%Y-%m-%d %H:%M:%S} UTC</p>"
            f'<iframe sandbox title="The mail" src="/{number}/html"></iframe>',
        )

    async def _show_html(self, request: web.Request) -> web.Response:
        _, mail = self._found(request)
        return web.Response(
            text=mail.html,
            content_type="text/html",
            headers={"Content-Security-Policy": f"{_POLICY}; sandbox"},
        )

    def _found(self, request: web.Request) -> tuple[int, ReceivedMail]:
        number = int(request.match_info["number"])
        if number not in self._mails:
            raise web.HTTPNotFound(text="there is no such mail")
        return number, self._mails[number]


def _page(title: str, body: str) -> web.Response:
    return web.Response(
        text=f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{body}</html>',
        content_type="text/html",
        headers={"Content-Security-Policy": _POLICY},
    )
