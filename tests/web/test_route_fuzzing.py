"""Requests of any form to every route, from people of every role: what they get, and what not."""

from __future__ import annotations

import asyncio
import html
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.web.principals import Role
from tests.examples import examples
from tests.web.hidden_workspace import HIDDEN, MASKED, made, world
from tests.web.people import bearer, token_of
from tests.web.route_requests import (
    Case,
    Person,
    Received,
    document_of,
    needed_roles,
    try_all,
    words_about,
)
from tests.web.site import Site

REFERENCE = Path(__file__).parent.parent.parent / "deploy" / "ROUTES.md"
OWN, ABSENT = "acme", "bexriebe"  # the second is none, and is as long as the hidden one
RESTRICTED = "reader"
# A stream that was left holds its place until the server says something in it.
_NO_SLOT = "are open already"
_ANSWER_SECONDS = 120.0  # of everybody to one case; the machine may be busy
PARTS: dict[str, Callable[[str, str], bool]] = {
    "reads": lambda method, path: method == "GET" and path.startswith("/api/"),
    "writes": lambda method, path: method != "GET" and path.startswith("/api/"),
    "pages": lambda method, path: method == "GET" and not path.startswith("/api/"),
    "forms": lambda method, path: method != "GET" and not path.startswith("/api/"),
}


class Judge:
    """Sends each case from everybody, and says what is wrong about the answers."""

    def __init__(self, site: Site, loop: asyncio.AbstractEventLoop) -> None:
        self.wrong: list[str] = []
        self.served: Counter[str] = Counter()
        self._site, self._loop = site, loop
        self._needed = needed_roles(REFERENCE.read_text())
        names = (None, *(f"{role}-user" for role in Role), RESTRICTED)
        self._people = [Person(site, name, number) for number, name in enumerate(names)]

    async def begin(self) -> dict[str, Any]:
        """Log everybody in, and return the document of all routes."""
        for person in self._people:
            await person.log_in()
        admin = bearer(token_of("admin-user"))
        api = (await self._site.get("/api/v1/openapi.json", headers=admin)).document
        return document_of(api, self._site.server)

    def __call__(self, case: Case) -> None:
        """Judge a case. In a thread of its own: what makes the cases waits for this."""
        made = asyncio.run_coroutine_threadsafe(self._judged(case), self._loop)
        made.result(_ANSWER_SECONDS)

    async def _judged(self, case: Case) -> None:
        kept = self._site.alerting.snapshot
        for person in self._people:
            for about in (None, OWN, HIDDEN):
                self._site.alerting.snapshot = kept
                self._site.requested.clear()
                await self._asked(case, person, about)

    async def _asked(self, case: Case, person: Person, about: str | None) -> None:
        now = self._site.clock.now()
        words = None if about is None else words_about(about, case.made.path, now)
        sent = case.sent(self._site.url, words, token=person.form_token)
        answer = await person.send(sent, is_api=case.is_api)
        self._note(case, person, about, self._problem(case, person, answer))
        if answer.status < 400 and not answer.leads_to.startswith("/login"):
            self.served[person.name or "a stranger"] += 1
        if person.name in (None, RESTRICTED):
            if not sent.names(HIDDEN) and HIDDEN in html.unescape(answer.text):
                self._note(case, person, about, f"names {HIDDEN}: {answer.text}")
            if any(workspace == HIDDEN for workspace, *_ in self._site.requested):
                self._note(case, person, about, f"asks for {self._site.requested}")
        if case.route == ("POST", "/logout") and answer.status == 303:
            await person.log_in()
        elif about == HIDDEN and person.name == RESTRICTED and _NO_SLOT not in answer.text:
            absent = await person.send(sent.naming(HIDDEN, ABSENT), is_api=case.is_api)
            if _shown(answer) != _shown(absent).replace(ABSENT, HIDDEN):
                self._note(case, person, about, f"{_shown(answer)} is not {_shown(absent)}")

    def _problem(self, case: Case, person: Person, answer: Received) -> str | None:
        """Return what is wrong about a status; None where nothing is."""
        if answer.status >= 500 and _NO_SLOT not in answer.text:
            return f"{answer.status}: {answer.text}"
        role, is_whole = self._needed[case.route]
        if role is None:
            return None
        if person.name is None:
            is_refused = answer.status >= 400 or answer.leads_to.startswith("/login?")
        else:
            own = Role.ADMIN if person.name == RESTRICTED else Role(person.name.split("-")[0])
            is_out = not own.includes(Role(role)) or (is_whole and person.name == RESTRICTED)
            is_refused = not is_out or answer.status >= 400
        return None if is_refused else f"{answer.status}, which needs {role}: {answer.text}"

    def _note(self, case: Case, person: Person, about: str | None, problem: str | None) -> None:
        if problem is not None:
            method, path = case.route
            curl = case.made.as_curl_command()
            text = f"{method} {path} about {about} by {person.name}: {problem[:2_000]}\n{curl}"
            self.wrong.append(text)


def _shown(answer: Received) -> str:
    return f"{answer.status} {answer.leads_to} {MASKED.sub('', answer.text)}"


@pytest.mark.parametrize("part", PARTS)
async def test_a_role_gets_what_it_may_whatever_is_asked(tmp_path: Path, part: str) -> None:
    """No request is a failure, and none gets through where the role does not suffice.

    To who sees some workspaces only, another one is like none: the answer is the same for a name
    that nothing has, and what was not asked for by its name is named nowhere.
    """
    async with world(made(tmp_path, "two"), has_more=True) as site:
        judge = Judge(site, asyncio.get_running_loop())
        document = await judge.begin()
        tried = await asyncio.to_thread(
            lambda: list(try_all(document, PARTS[part], judge, examples=examples(2)))
        )
        routes = {(route.method, route.path.replace(":.+", "")) for route in site.server.routes()}

    assert judge.wrong == []
    assert set(tried) == {route for route in routes if PARTS[part](*route)}
    assert judge.served["admin-user"] > len(tried)
    assert judge.served[RESTRICTED] > 0
