"""The settings of the Alertmanagers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from monitor.model.events import EventType
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, one_line
from monitor.outputs.settings import OutputRecord, ReceiverSettings, receiver_of, url_problem


def _urls(urls: list[str]) -> str | None:
    if not urls:
        return "name at least one Alertmanager"
    usable = [url for url in urls if url_problem(url) is None]
    found = dict.fromkeys(problem for url in urls if (problem := url_problem(url)) is not None)
    if any("?" in url for url in usable):
        found["no query may follow the path"] = None
    if len({receiver_of(url) for url in usable}) < len(usable):
        found["one Alertmanager is named twice"] = None
    return "; and ".join(found) or None


class AlertmanagerSettings(ReceiverSettings, frozen=True, kw_only=True):
    """Alertmanagers that receive every alert.

    Configure mail, chat and pagers there, as routes. Without this table, none is notified.
    """

    urls: Annotated[
        tuple[str, ...],
        Setting(
            "URLs of all Alertmanagers, each member of a cluster too; a path is put before "
            "/api/v2.",
            ["http://127.0.0.1:9093"],
            check=_urls,
        ),
    ]
    username: Annotated[
        str | None,
        Setting("User name of basic auth; needs the password.", "dataprep-monitor", one_line),
    ] = None
    password: Annotated[
        Secret | None, Setting("Password of that user.", "alertmanager-password")
    ] = None
    token: Annotated[
        Secret | None,
        Setting(
            "Bearer token, sent as Authorization: Bearer instead of basic auth.",
            "alertmanager-token",
        ),
    ] = None
    resend_seconds: Annotated[
        float,
        Meta(ge=1, le=3_600),
        Setting(
            "Interval at which a firing alert is sent again. Alertmanager ends an alert that it "
            "has not received for four intervals. Times follow each Alertmanager's own clock."
        ),
    ] = 60.0
    window: int = 128

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        problems: list[str] = []
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if self.token is not None and self.username is not None:
            problems.append("token: either a token or a username, not both")
        return problems


# The other events change nothing there: Alertmanager reminds and silences by itself.
_OF_ALERTMANAGER = frozenset(
    {EventType.ALERT_FIRED, EventType.ALERT_FLAPPING, EventType.ALERT_RESOLVED}
)
ALERTMANAGER = OutputRecord(
    section="alertmanager",
    settings=AlertmanagerSettings,
    output="monitor.outputs.alertmanager.output:AlertmanagerOutput",
    receivers=lambda settings: [receiver_of(url) for url in settings.urls],
    types=lambda _: _OF_ALERTMANAGER,
    is_one_each=True,
    split=lambda settings: [
        msgspec.structs.replace(settings, urls=(url,)) for url in settings.urls
    ],
)
