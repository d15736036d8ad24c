"""Requests of any form to every route, made by schemathesis, and the people who send them.

The JSON API has a document; pages and forms get one here, from their routes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from msgspec import Struct
from schemathesis.core.result import Ok
from yarl import URL

from monitor.web.server import Server
from tests.web.form_client import Browser
from tests.web.people import bearer, log_in, token_of
from tests.web.site import Site

FORM = "application/x-www-form-urlencoded"
_PATTERN = re.compile(r"\{(\w+):[^}]*\}")
_END = ("lasts", "ends_at", "author", "comment")
_FIELDS = {
    "/login": ("next", "username", "secret"),
    "/silences/new": ("matcher", *_END),
    "/alerts/{fingerprint}/acknowledge": ("starts_at", *_END),
}
# What the library adds, or what belongs to the connection.
_LEFT_OUT = {"user-agent", "connection", "accept-encoding", "content-length"}
_ROW = re.compile(r"\| `(\w+) ([^`]+)` \| (\w+)([^|]*) \|")


class Sent(Struct, frozen=True, kw_only=True):
    """A request as its bytes go out."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None

    def naming(self, before: str, after: str) -> Sent:
        """Return the same request about something else."""
        body = None if self.body is None else self.body.replace(before.encode(), after.encode())
        return Sent(
            method=self.method,
            url=self.url.replace(before, after),
            headers=self.headers,
            body=body,
        )

    def names(self, word: str) -> bool:
        return word in self.url or word.encode() in (self.body or b"")


class Received(Struct, frozen=True, kw_only=True):
    """What came back; of a stream, which has no end, the head alone."""

    status: int
    leads_to: str
    text: str


class Person:
    """A sender of requests: by bearer token to the API, by a session to pages and forms."""

    def __init__(self, site: Site, name: str | None, number: int) -> None:
        """Without a name, a stranger."""
        self.name = name
        self._site = site
        self._number = number
        self._count = 0
        self._cookies = ""
        self.form_token = ""

    async def log_in(self) -> None:
        """Begin a session, in the place of one that is over; a stranger has a form's cookie."""
        browser = Browser(self._site)
        try:
            if self.name is not None:
                await log_in(browser, token_of(self.name))
            self.form_token = await browser.token("/login" if self.name is None else "/account")
            cookies = browser.session.cookie_jar
            self._cookies = "; ".join(f"{each.key}={each.value}" for each in cookies)
        finally:
            await browser.close()

    async def send(self, sent: Sent, *, is_api: bool) -> Received:
        # Each from an address of its own: limits of a source are not what is tried here.
        self._count += 1
        address = f"10.{self._number}.{self._count // 256 % 256}.{self._count % 256}"
        headers = {**sent.headers, "X-Forwarded-For": address}
        if not is_api:
            headers["Cookie"] = self._cookies
        elif self.name is not None:
            headers.update(bearer(token_of(self.name)))
        async with self._site.session.request(
            sent.method,
            URL(sent.url, encoded=True),
            headers=headers,
            data=sent.body,
            allow_redirects=False,
        ) as response:
            is_endless = response.content_type == "text/event-stream"
            return Received(
                status=response.status,
                leads_to=response.headers.get("Location", ""),
                text="" if is_endless else await response.text(errors="replace"),
            )


def document_of(api: dict[str, Any], server: Server) -> dict[str, Any]:
    """Return the document of the API with the other routes in it.

    A page takes what its boxes take.
    """
    paths: dict[str, dict[str, Any]] = {path: dict(of) for path, of in api["paths"].items()}
    boxes = {page.path: page.boxes for page in server.sites.whole.views.pages}
    for route in server.routes():
        path, method = _PATTERN.sub(r"{\1}", route.path), route.method.lower()
        methods = paths.setdefault(path, {})
        if method not in methods:
            filters = [
                parameter
                for box in boxes.get(path, ())
                for parameter in api["paths"][box.api]["get"].get("parameters", ())
            ]
            methods[method] = _described(path, method, filters)
    return {**api, "paths": paths, "security": []}


def _described(path: str, method: str, filters: list[dict[str, Any]]) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    parameters = {each["name"]: each for each in filters if each["in"] == "query"}
    for name in re.findall(r"\{(\w+)\}", path):
        parameters[name] = {"name": name, "in": "path", "required": True, "schema": text}
    described: dict[str, Any] = {"responses": {"200": {"description": ""}}}
    described["parameters"] = list(parameters.values())
    if method != "get":
        names = ("token", *_FIELDS.get(path, ()))
        fields = {name: {"type": "string"} for name in names}
        schema = {"type": "object", "properties": fields, "additionalProperties": False}
        described["requestBody"] = {"content": {FORM: {"schema": schema}}}
    return described


def needed_roles(reference: str) -> dict[tuple[str, str], tuple[str | None, bool]]:
    """Return of each route in ``ROUTES.md`` its role, None for strangers, and if it is whole."""
    return {
        (method, _PATTERN.sub(r"{\1}", path)): (None if role == "none" else role, "all" in extent)
        for method, path, role, extent in _ROW.findall(reference)
    }


def words_about(workspace: str, path: str, now: datetime) -> dict[str, Any]:
    """Return by their names the parameters and fields that are about a workspace."""
    is_pipeline = "pipeline" in path
    run = f"{workspace}-0"
    named: dict[str, Any] = {
        "workspace": workspace,
        "kind": "flow" if is_pipeline else "job_group",
        "id": f"id-of-{workspace}" if is_pipeline else run,
        "pipeline_id": f"id-of-{workspace}",
        "pipeline": f"orders of {workspace}",
        "fingerprint": f"fires-{workspace}",
        "event_id": f"{workspace}:job_group:{run}:failed",
        "type": "run.failed",
        "q": workspace,
        "name": "page.css",
        "matcher": f"workspace={workspace}",
        "matchers": [f"workspace={workspace}"],
        "starts_at": now.isoformat(),
        "ends_at": (now + timedelta(hours=1)).isoformat(),
        "action": "sync",
        "output": "mqtt",
        "since": "24h",
        "lasts": "1h",
        "author": "x",
        "comment": "x",
    }
    if "silences" in path:
        named["id"] = f"silence-{workspace}"
    if path.startswith("/schemas"):
        named["type"] = "dataprep.run.failed.v1"
    if "track" in path:
        named["kind"] = "plan_run"  # whose ids may be texts
    if path.endswith("/explain"):
        named["alert"] = f"fires-{workspace}"
        named["run"] = f"{workspace}/job_group/{run}"
        named["pipeline"] = f"{workspace}/flow/id-of-{workspace}"
        named["name"] = f"orders of {workspace}"
    return named


class Case(Struct, frozen=True, kw_only=True):
    """What schemathesis has made for one route."""

    made: schemathesis.Case[Any]
    document: dict[str, Any]

    @property
    def route(self) -> tuple[str, str]:
        return self.made.method.upper(), self.made.path

    @property
    def is_api(self) -> bool:
        return self.made.path.startswith(("/api/", "/schemas", "/badge", "/metrics"))

    def sent(self, url: str, words: dict[str, Any] | None, *, token: str = "") -> Sent:
        """Return the request as it was made, or with words in the place of what they name.

        What the words name beyond that is asked for too, of the API a half of it.
        """
        made = self.made
        path, query, body = made.path_parameters, made.query, made.body
        if words is not None:
            path = {name: words.get(name, text) for name, text in path.items()}
            query = self._with(query, words, self._parameters())
            if isinstance(body, dict):
                body = self._with(body, {**words, "token": token}, self._fields())
        changed = schemathesis.Case(
            operation=made.operation,
            method=made.method,
            path=made.path,
            path_parameters=path,
            headers=made.headers,
            cookies={},
            query=query,
            body=body,
            media_type=made.media_type,
        )
        keys = ("method", "url", "headers", "params", "data", "json", "files")
        options = changed.as_transport_kwargs(base_url=url)
        request = requests.Request(**{key: options[key] for key in keys if key in options})
        prepared = request.prepare()
        data = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
        assert data is None or isinstance(data, bytes)
        headers = {
            name: str(value)
            for name, value in prepared.headers.items()
            if name.lower() not in _LEFT_OUT and not name.startswith("X-Schemathesis")
        }
        if not self.is_api:
            headers["Accept"] = "text/html"
        return Sent(method=self.route[0], url=str(prepared.url), headers=headers, body=data)

    def _with(self, given: Any, words: dict[str, Any], declared: set[str]) -> Any:
        if not isinstance(given, dict):
            return given
        seed = repr(sorted(map(str, given)))
        order = sorted(declared & {*words}, key=lambda name: zlib.crc32(f"{name}{seed}".encode()))
        if self.made.path.endswith("/explain"):  # one thing at a time
            return {name: words[name] for name in order[:1]}
        wanted = order if not self.is_api else {*given, *order[: len(order) // 2]} & {*order}
        return {**given, **{name: words[name] for name in wanted}}

    def _operation(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["paths"][self.made.path][self.made.method.lower()]
        return found

    def _parameters(self) -> set[str]:
        declared = self._operation().get("parameters", ())
        return {each["name"] for each in declared if each.get("in") == "query"}

    def _fields(self) -> set[str]:
        content = self._operation()["requestBody"]["content"]
        schema = next(iter(content.values()))["schema"]
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return set(schema.get("properties", ()))


def try_all(
    document: dict[str, Any],
    wanted: Callable[[str, str], bool],
    attempt: Callable[[Case], None],
    *,
    examples: int,
) -> Iterator[tuple[str, str]]:
    """Attempt so many cases of each route whose method and path are wanted; yield the routes."""
    schema = schemathesis.openapi.from_dict(document)
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if not wanted(operation.method.upper(), operation.path):
            continue

        @settings(
            max_examples=examples,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def attempt_each(case: schemathesis.Case[Any]) -> None:
            attempt(Case(made=case, document=document))

        attempt_each()
        yield operation.method.upper(), operation.path
