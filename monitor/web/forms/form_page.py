"""Pages with forms that change something. They are never cached: each has a token of its own."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

from aiohttp import web

from monitor.listening.http_listener import is_secure
from monitor.web.access.routes import Routes
from monitor.web.audit.recording import WRITE, Write, person_of
from monitor.web.http.form_bodies import Fields, FormTokens, read_form
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell, page_of_its_own
from monitor.web.principals import Role
from monitor.web.views.view import ViewSources, WebPage


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState:
    """A form as it is shown: what is in its fields, and what is wrong with which."""

    values: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    notice: str | None = None  # what is wrong with the form as a whole
    shown: Mapping[str, Any] = field(default_factory=dict)  # what the template shows beside


class Refused(Exception):  # noqa: N818 - an answer on its way out, never seen outside
    """What was typed cannot be taken; the form is shown again with it."""

    def __init__(
        self,
        problems: Mapping[str, str] | None = None,
        *,
        notice: str | None = None,
        status: int = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(notice)
        self.problems = problems or {}
        self.notice = notice
        self.status = status

    @property
    def sentence(self) -> str:
        """Return all that is wrong, in one line."""
        beside = [f"{name}: {problem}" for name, problem in self.problems.items()]
        return "; ".join(filter(None, [*beside, self.notice]))


class PageForm(abc.ABC):
    """One form: how it is filled in at first, what is shown beside it, and what it does."""

    path: ClassVar[str]
    title: ClassVar[str]
    template: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    role: ClassVar[Role] = Role.OPERATE
    what: ClassVar[str]  # the word of the audit, which is that of the API

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    @abc.abstractmethod
    async def begin(self, path: Mapping[str, str], query: Mapping[str, str]) -> FormState:
        """Return the form as it is at first.

        Raises:
            ProblemDetails: what it is about does not exist.
        """

    @abc.abstractmethod
    async def beside(self, path: Mapping[str, str], values: Fields) -> Mapping[str, Any]:
        """Return what the template shows beside what was typed; raises as `begin` does."""

    @abc.abstractmethod
    async def submit(
        self, path: Mapping[str, str], values: Fields, *, token: str, write: Write
    ) -> str:
        """Do it, and return the path of the page that shows it. The audit has what was sent.

        Raises:
            Refused: the form is to be shown again.
            ProblemDetails: it is about something that no longer exists.
        """


class FormPages:
    """Serves forms: GET shows one, POST does it and leads on to a page (303)."""

    def __init__(self, *, shell: PageShell, tokens: FormTokens, live: LivePages) -> None:
        self._shell = shell
        self._tokens = tokens
        self._live = live

    def add_routes(self, routes: Routes, forms: tuple[PageForm, ...]) -> None:
        for form in forms:
            routes.add("GET", form.path, partial(self._show, form), form.role)
            routes.add("POST", form.path, partial(self._submit, form), form.role, what=form.what)

    async def _show(self, form: PageForm, request: web.Request) -> web.Response:
        try:
            query = {name: "\n".join(request.query.getall(name)) for name in request.query}
            state = await form.begin(request.match_info, query)
        except ProblemDetails as problem:
            return await self._problem(request, problem)
        return await self._answer(form, request, state)

    async def _submit(self, form: PageForm, request: web.Request) -> web.Response:
        try:
            values, token = await read_form(request, form.fields)
            try:
                await self._refuse_stale(request, token)
                write = request[WRITE]
                await write.begin({**request.match_info, **values})
                leads_to = await form.submit(request.match_info, values, token=token, write=write)
            except Refused as refused:
                request[WRITE].reason = refused.sentence
                state = FormState(
                    values=values,
                    problems=refused.problems,
                    notice=refused.notice,
                    shown=await form.beside(request.match_info, values),
                )
                return await self._answer(form, request, state, status=refused.status)
        except ProblemDetails as problem:
            request[WRITE].reason = problem.detail
            return await self._problem(request, problem)
        self._live.touch()  # no open page is to show the former state
        return web.Response(status=303, headers={"Location": leads_to, "Cache-Control": "no-store"})

    async def _refuse_stale(self, request: web.Request, token: str) -> None:
        if stale := await self._tokens.problem(request, token):
            raise Refused(notice=stale, status=HTTPStatus.FORBIDDEN)

    async def _answer(
        self,
        form: PageForm,
        request: web.Request,
        state: FormState,
        *,
        status: int = HTTPStatus.OK,
    ) -> web.Response:
        key = self._tokens.key_of(request)
        body = await self._shell.text(
            form.template,
            page=WebPage(path=form.path, title=form.title, boxes=(), is_live=False,
                         styles=("alerts.css",)),
            title=form.title,
            url=request.path_qs,
            apis=(),
            form=state,
            token=await self._tokens.token(key),
            person=person_of(request),
            **state.shown,
        )  # fmt: skip
        response = page_of_its_own(body, status)
        self._tokens.keep(response, key, is_secure=is_secure(request))
        return response

    async def _problem(self, request: web.Request, problem: ProblemDetails) -> web.Response:
        body = await self._shell.problem(problem, url=request.path_qs)
        return page_of_its_own(body, problem.status)
