"""Mail: a real server with TLS gets messages that clients thread, read and show as written."""

from __future__ import annotations

import asyncio
import email
import email.policy
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.outputs.notify import output as channel_output
from monitor.outputs.notify.service import demand_url
from monitor.outputs.notify.settings import RecipientKind
from tests.certificates import Certificates
from tests.outputs.alert_histories import acknowledged, fired, resolved
from tests.outputs.channels import channel, status_of
from tests.outputs.output_scenario import LIMIT_SECONDS, OutputScenario

MARKUP = '<script>alert(1)</script> & "quoted"\r\nBcc: all@example.com'


class Mailbox:
    """Keeps every mail that the server accepts."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.answers: list[str] = []  # of the next mails; then they are accepted
        self.refused: dict[str, str] = {}  # answers to addresses

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 - the library's name
        if self.answers:
            return self.answers.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"


def _accepted(*arguments: Any) -> AuthResult:
    *_, data = arguments
    return AuthResult(success=(data.login, data.password) == (b"monitor", b"s3cr3t"))


class MailServer(SMTP):
    """Says when its client is gone."""

    def __init__(self, box: Mailbox, context: ssl.SSLContext) -> None:
        super().__init__(
            box,
            hostname="127.0.0.1",
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=_accepted,
        )
        self.is_gone = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.is_gone.set()


@pytest.fixture
async def mailbox(tmp_path: Path) -> AsyncIterator[tuple[Mailbox, str]]:
    """Return a mailbox behind STARTTLS and a log-in, and the URL of a channel to it."""
    certificates = Certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.key_of(certificates.server))
    box, connections = Mailbox(), list[MailServer]()

    def connect() -> MailServer:
        connections.append(MailServer(box, context))
        return connections[-1]

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    query = "mode=starttls&verify=no&from=monitor@example.com&to=team@example.com"
    try:
        yield box, f"mailtos://monitor:s3cr3t@127.0.0.1:{port}?{query}"
    finally:
        server.close()
        async with asyncio.timeout(LIMIT_SECONDS):
            for connection in connections:
                await connection.is_gone.wait()


async def test_a_failure_and_its_end_are_one_thread_of_mails(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """All mails of an alert refer to one id, and say the same as text and as HTML."""
    box, url = mailbox
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(acknowledged(1))
        await scenario.until_delivered()
        await scenario.emit(resolved(1))
        await scenario.until_delivered()
    first, known, second = box.mails
    assert first["Subject"] == "FAILED: orders 1 (w): no such file"
    assert second["Subject"] == "RESOLVED: orders 1 (w): no such file"
    assert known["Subject"] == "ACKNOWLEDGED: orders 1 (w): by Ada: on it"
    assert first["References"] == known["References"] == second["References"] != ""
    assert first["Auto-Submitted"] == "auto-generated"
    for form in ("plain", "html"):
        body = first.get_body((form,))
        assert body is not None
        assert "FAILED: orders 1 (w)" in body.get_content()


async def test_a_name_with_markup_stays_a_name(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """Markup and line ends in a name become text of the mail, never a tag or a header."""
    box, url = mailbox
    labels = {"alertname": "run_failed", "workspace": "w", "pipeline": MARKUP * 30}
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1, labels=labels))
        await scenario.until_delivered()
    (mail,) = box.mails
    assert box.recipients == [["team@example.com"]]
    assert mail["Bcc"] is None
    assert len(mail["Subject"]) <= 200
    body = mail.get_body(("html",))
    assert body is not None
    assert "<script>" not in body.get_content()
    assert "&lt;script&gt;alert(1)" in body.get_content()


async def test_a_mail_server_that_refuses_gets_the_mail_later(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """A mail that is refused for now is sent again, once."""
    box, url = mailbox
    box.answers = ["451 try later", "451 try later"]
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, url)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
    assert [mail["Subject"] for mail in box.mails] == ["FAILED: orders 1 (w): no such file"]


async def test_a_wrong_password_is_said_without_it(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """A log-in that fails makes the channel unwell, and its status does not repeat the secret."""
    box, url = mailbox
    wrong = url.replace("s3cr3t", "wr0ng-passw0rd")
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, wrong)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until(lambda: status_of(scenario).startswith("takes no messages: "))
        status = status_of(scenario)
    assert box.mails == []
    assert "wr0ng" not in status


@pytest.mark.parametrize(
    ("owner", "recipient", "words"),
    [
        ("ada@example.com", "ada@example.com", None),
        ("ada@elsewhere.org", "team@example.com", "is in none of owner_domains"),
        ("Ada Lovelace", "team@example.com", "has no mail address that is known"),
        (None, "team@example.com", "does not show who owns this"),
    ],
)
async def test_an_owner_gets_what_is_about_his_own(
    tmp_path: Path,
    mailbox: tuple[Mailbox, str],
    owner: str | None,
    recipient: str,
    words: str | None,
) -> None:
    """Mail goes to the owner of the flow inside the allowed domains, else to the channel's own."""
    box, url = mailbox
    more = {"to": RecipientKind.OWNER, "owner_domains": ("example.com",)}
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, url, **more)
    ) as scenario:
        flow = fired(1).alert.pipeline
        assert flow is not None
        scenario.live_state.names.place(("w", flow.kind, flow.id), folder=None, owner=owner)
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
    (mail,) = box.mails
    assert box.recipients == [[recipient]]
    assert mail["To"] == recipient
    body = mail.get_body(("plain",))
    assert body is not None
    assert words is None or words in " ".join(body.get_content().split())


async def test_what_waited_for_the_end_of_a_mute_goes_to_its_owners(
    tmp_path: Path, mailbox: tuple[Mailbox, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a mute each owner gets what is about his own, and the channel the rest."""
    monkeypatch.setattr(channel_output, "_CLOCK_CHECK_SECONDS", 0.02)
    box, url = mailbox
    more = {"to": RecipientKind.OWNER, "owner_domains": ("example.com",), "mute": ("Sat UTC",)}
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, url, **more)
    ) as scenario:
        own(scenario, 1, "ada@example.com")
        saturday = datetime(2026, 11, 28, 12, tzinfo=UTC)
        scenario.clock.ahead = saturday - scenario.clock.now()
        await scenario.start()
        await scenario.until(lambda: status_of(scenario) == "muted now")
        await scenario.emit(fired(1), fired(2))
        await scenario.until_delivered()
        scenario.clock.ahead += timedelta(days=1)
        await scenario.until(lambda: len(box.mails) == 2)
    assert box.recipients == [["ada@example.com"], ["team@example.com"]]
    bodies = [mail.get_body(("plain",)).get_content() for mail in box.mails]  # type: ignore[union-attr]  # each has one
    assert all("While this channel was muted:" in body for body in bodies)
    assert "does not show who owns this" in " ".join(bodies[1].split())


async def test_an_owner_whose_mailbox_is_gone_delays_nothing(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """What the server refuses for an owner's address goes to the channel's, with the reason."""
    box, url = mailbox
    box.refused = {"gone@example.com": "550 5.1.1 no such user"}
    more = {"to": RecipientKind.OWNER, "owner_domains": ("example.com",)}
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, url, **more)
    ) as scenario:
        own(scenario, 1, "gone@example.com")
        own(scenario, 2, "ada@example.com")
        await scenario.start()
        await scenario.emit(fired(1), fired(2))
        await scenario.until_delivered()
        assert status_of(scenario) == "no message failed last"
        assert await scenario.letters() == []
    assert box.recipients == [["team@example.com"], ["ada@example.com"]]
    body = box.mails[0].get_body(("plain",))
    assert body is not None
    words = " ".join(body.get_content().split())
    assert "Its owner gone@example.com gets no mail: 550 5.1.1 no such user" in words


async def test_an_owner_who_is_refused_for_now_is_waited_for(
    tmp_path: Path, mailbox: tuple[Mailbox, str]
) -> None:
    """A refusal that passes, such as of a full mailbox, sends the mail to no other address."""
    box, url = mailbox
    box.refused = {"ada@example.com": "450 4.2.2 mailbox busy"}
    more = {"to": RecipientKind.OWNER, "owner_domains": ("example.com",)}
    async with OutputScenario(
        tmp_path, lambda scenario: channel(scenario, url, **more)
    ) as scenario:
        own(scenario, 1, "ada@example.com")
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until(lambda: status_of(scenario).startswith("takes no messages: "))
        box.refused = {}
        await scenario.until_delivered()
    assert box.recipients == [["ada@example.com"]]


@pytest.mark.parametrize(
    "addresses", ["to=gone@example.com,team@example.com", "to=team@example.com&cc=gone@example.com"]
)
async def test_one_wrong_address_of_several_sends_nothing_twice(
    tmp_path: Path, mailbox: tuple[Mailbox, str], addresses: str
) -> None:
    """Where the server refuses one address for good, the others get each mail once."""
    box, url = mailbox
    box.refused = {"gone@example.com": "550 5.1.1 no such user"}
    several = url.replace("to=team@example.com", addresses)
    async with OutputScenario(tmp_path, lambda scenario: channel(scenario, several)) as scenario:
        await scenario.start()
        await scenario.emit(fired(1))
        await scenario.until_delivered()
        await scenario.emit(resolved(1))
        await scenario.until_delivered()
    assert box.recipients == [["team@example.com"], ["team@example.com"]]


def own(scenario: OutputScenario, number: int, owner: str) -> None:
    """Let the flow of the ``number``-th alert have this owner."""
    flow = fired(number).alert.pipeline
    assert flow is not None
    scenario.live_state.names.place(("w", flow.kind, flow.id), folder=None, owner=owner)


@pytest.mark.parametrize(
    "query",
    [
        "to=team",
        "to=team@example.com;ada@example.com",
        "to=team@example.com&to=ada@example.com",
        "to=team@example.com,jürgen@exämple.com",
    ],
)
def test_an_address_that_would_get_no_mail_is_a_problem(query: str) -> None:
    """No address of `to=` is left out in silence; the sentence says how to write several."""
    with pytest.raises(ConfigurationError, match="to=ADDRESS,ADDRESS"):
        demand_url(Secret(f"mailtos://monitor:s3cr3t@smtp.example.com?{query}"))


@pytest.mark.parametrize(
    "query",
    [
        "to=team@example.com",
        "to=team@example.com,Team@example.com,Ada%20<ada@example.com>",
        "from=monitor@example.com",
        "to=team@example.com&cc=ada@example.com",
    ],
)
def test_addresses_that_get_mail_are_no_problem(query: str) -> None:
    """Names beside addresses, one address twice, or no `to=` at all can be used."""
    demand_url(Secret(f"mailtos://monitor:s3cr3t@smtp.example.com?{query}"))


def test_a_user_name_with_a_sign_says_how_to_write_it() -> None:
    """The user name of many providers is an address; the problem says what stands for its @."""
    with pytest.raises(ConfigurationError, match="write %40 for @") as caught:
        demand_url(Secret("mailtos://ada@example.com:s3cr3t@smtp.example.com?to=t@example.com"))
    assert "s3cr3t" not in str(caught.value)
