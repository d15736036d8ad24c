"""The forms about alerts: acknowledge one, silence some, end a silence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from monitor.alerting.alerts.acknowledging import end_problem
from monitor.alerting.alerts.silences import new_silence, parse_instant, words_problem
from monitor.model.alerts import Acknowledgement, Alert, Silence
from monitor.model.errors import ConfigurationError
from monitor.web.audit.recording import Write
from monitor.web.forms.durations import DURATIONS, END_FIELDS, as_typed, end_of
from monitor.web.forms.form_page import FormState, PageForm, Refused
from monitor.web.http.form_bodies import Fields
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import one_line
from monitor.web.views.alerts.alert_details import find_alert, no_alert
from monitor.web.views.alerts.alert_models import alert_views, silence_view
from monitor.web.views.alerts.silences import (
    acknowledged_before,
    expired,
    matcher_problems,
    matchers_of,
    preview,
    silence_to_end,
)

_PREVIEWED = 50
# Of an acknowledgement; without a word it ends with its alert.
_LASTING = {"": "as long as it fires", **DURATIONS}


class AcknowledgeForm(PageForm):
    """Stops the reminders of one open alert, for some time or as long as it fires."""

    path: ClassVar[str] = "/alerts/{fingerprint}/acknowledge"
    title: ClassVar[str] = "Acknowledge an alert"
    template: ClassVar[str] = "acknowledge_form.html"
    what: ClassVar[str] = "acknowledge"
    fields: ClassVar[tuple[str, ...]] = ("starts_at", *END_FIELDS, "author", "comment")

    async def begin(self, path: Mapping[str, str], query: Mapping[str, str]) -> FormState:
        alert = self._open_alert(path["fingerprint"])
        before = alert.acknowledged
        values = {name: query.get(name, "") for name in self.fields}
        values["starts_at"] = alert.starts_at.isoformat()
        values["ends_at"] = as_typed(values["ends_at"])
        if before is not None:
            values["comment"] = values["comment"] or before.comment
        return FormState(values=values, shown=await self.beside(path, values))

    async def beside(self, path: Mapping[str, str], values: Fields) -> Mapping[str, Any]:
        del values
        (alert,) = await alert_views(self._sources, [self._open_alert(path["fingerprint"])])
        return {"alert": alert, "durations": _LASTING}

    async def submit(
        self, path: Mapping[str, str], values: Fields, *, token: str, write: Write
    ) -> str:
        del token
        fingerprint = path["fingerprint"]
        author = write.author(values.get("author", "")).strip()
        comment = values.get("comment", "").strip()
        problems = {
            name: problem
            for name, problem in (
                ("author", words_problem(author)),
                ("comment", words_problem(comment, is_needed=False)),
            )
            if problem is not None
        }
        try:
            until = self._until(values)
        except ConfigurationError as exc:
            raise Refused({**problems, "ends_at": str(exc)}) from exc
        if problems:
            raise Refused(problems)
        starts_at, now = _start(values), self._sources.clock.now()
        write.before = acknowledged_before(self._sources.alerting, fingerprint)
        write.after = Acknowledgement(author=author, comment=comment, at=now, until=until)
        if not await self._sources.alerting.acknowledge(
            fingerprint, starts_at, author, comment, until
        ):
            raise _ended(fingerprint)
        return f"/alerts/{fingerprint}"

    def _until(self, values: Fields) -> datetime | None:
        """Return the end of the acknowledgement, None for that of the alert.

        Raises:
            ConfigurationError: it cannot end then.
        """
        if not values.get("lasts"):
            return None
        now = self._sources.clock.now()
        until = end_of(values, now)
        if (problem := end_problem(until, now=now)) is not None:
            raise ConfigurationError(problem)
        return until

    def _open_alert(self, fingerprint: str) -> Alert:
        alerts = self._sources.alerting.snapshot().alerts
        alert = find_alert(alerts, fingerprint)
        if alert is None and not self._sources.alerting.ended(fingerprint):
            raise no_alert(fingerprint, alerts)
        if alert is None or alert.ends_at is not None:
            raise _ended(fingerprint)
        return alert


def _start(values: Fields) -> datetime:
    try:
        return parse_instant(values.get("starts_at", ""))
    except ConfigurationError as exc:
        raise ProblemDetails(400, f"starts_at: {exc}") from exc


def _ended(fingerprint: str) -> ProblemDetails:
    return ProblemDetails(
        409,
        f"alert {fingerprint} has ended, or fired again, since this form was made; there is "
        "nothing to acknowledge",
    )


class SilenceForm(PageForm):
    """Makes a silence; what it will mute is shown before that."""

    path: ClassVar[str] = "/silences/new"
    title: ClassVar[str] = "New silence"
    template: ClassVar[str] = "silence_form.html"
    what: ClassVar[str] = "add_silence"
    fields: ClassVar[tuple[str, ...]] = ("matcher", *END_FIELDS, "author", "comment")

    async def begin(self, path: Mapping[str, str], query: Mapping[str, str]) -> FormState:
        values = {name: query.get(name, "") for name in self.fields}
        values["matcher"] = "\n".join(matchers_of(values["matcher"]))
        values["ends_at"] = as_typed(values["ends_at"])
        shown = await self.beside(path, values)
        matchers = matchers_of(values["matcher"])
        wrong = matcher_problems(self._sources.alerting, matchers) if matchers else []
        problems = {"matcher": "; ".join(wrong)} if wrong else {}
        return FormState(values=values, problems=problems, shown=shown)

    async def beside(self, path: Mapping[str, str], values: Fields) -> Mapping[str, Any]:
        del path
        matchers, found = matchers_of(values.get("matcher", "")), None
        if matchers and not matcher_problems(self._sources.alerting, matchers):
            found = await preview(self._sources, matchers, limit=_PREVIEWED)
        return {
            "preview": found,
            "durations": DURATIONS,
            "labels": [label for label in self._sources.alerting.labels() if label != "rule"],
        }

    async def submit(
        self, path: Mapping[str, str], values: Fields, *, token: str, write: Write
    ) -> str:
        del path
        silence = self._made(values, author=write.author(values.get("author", "")))
        # The same form sent twice, as by a double click, is the same silence.
        text = msgspec.json.encode([token, sorted(values.items())])
        silence = msgspec.structs.replace(silence, id=hashlib.sha256(text).hexdigest()[:16])
        self._refuse_ended(silence.id)
        write.after = silence_view(silence, now=self._sources.clock.now())
        try:
            await self._sources.alerting.add_silence(silence)
        except ConfigurationError as exc:
            raise Refused(notice=f"{exc}.", status=HTTPStatus.CONFLICT) from exc
        return f"/silences#silence-{silence.id}"

    def _refuse_ended(self, silence_id: str) -> None:
        """Refuse a form that has made a silence which has ended: it would begin again."""
        now = self._sources.clock.now()
        for known in self._sources.alerting.snapshot().silences:
            if known.id == silence_id and known.ends_at <= now:
                raise Refused(
                    notice="The silence of this form has ended. Open a new form for another.",
                    status=HTTPStatus.CONFLICT,
                )

    def _made(self, values: Fields, *, author: str) -> Silence:
        now, problems = self._sources.clock.now(), dict[str, str]()
        matchers = matchers_of(values.get("matcher", ""))
        try:
            ends_at = end_of(values, now)
        except ConfigurationError as exc:
            problems["ends_at"], ends_at = str(exc), now + timedelta(hours=1)
        try:
            silence = new_silence(
                matchers=matchers,
                author=author,
                comment=values.get("comment", ""),
                starts_at=None,
                ends_at=ends_at,
                now=now,
                longest_seconds=self._sources.daemon().longest_silence_seconds,
                labels=self._sources.alerting.labels(),
            )
        except ConfigurationError as exc:
            for problem in exc.problems:
                key, _, sentence = problem.partition(": ")
                name = {"matchers": "matcher"}.get(key, key)
                before = problems.get(name)
                problems[name] = one_line(f"{before}; {sentence}" if before else sentence)
            raise Refused(problems) from exc
        if problems:
            raise Refused(problems)
        return silence


class ExpireForm(PageForm):
    """Ends a silence now."""

    path: ClassVar[str] = "/silences/{id}/expire"
    title: ClassVar[str] = "End a silence"
    template: ClassVar[str] = "expire_form.html"
    what: ClassVar[str] = "expire_silence"
    fields: ClassVar[tuple[str, ...]] = ()

    async def begin(self, path: Mapping[str, str], query: Mapping[str, str]) -> FormState:
        del query
        return FormState(values={}, shown=await self.beside(path, {}))

    async def beside(self, path: Mapping[str, str], values: Fields) -> Mapping[str, Any]:
        del values
        silence = silence_to_end(self._sources.alerting, path["id"])
        return {"silence": silence_view(silence, now=self._sources.clock.now())}

    async def submit(
        self, path: Mapping[str, str], values: Fields, *, token: str, write: Write
    ) -> str:
        del token
        del values
        silence = silence_to_end(self._sources.alerting, path["id"])
        write.before, write.after = expired(silence, now=self._sources.clock.now())
        # Ended already, as by a double click, is what was wished.
        await self._sources.alerting.expire_silence(path["id"])
        return f"/silences#silence-{quote(path['id'], safe='')}"
