"""The OpenAPI document describes every route of the JSON API, and the server keeps to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from monitor.model.runs import RunKey, RunKind, Status
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.fuzzing_hooks import KNOWN_VARIABLE
from tests.web.site import Site

GUARDED = ServerSettings(
    listen="127.0.0.1:0",
    token=Secret("a token for scripts"),
    username="operator",
    password=Secret("a password for people"),
)
ROOT = Path(__file__).parents[2]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
STREAM = "events_stream"  # never ends


async def test_the_document_describes_every_route(site: Site) -> None:
    """A new route is a `View`, an `ApiWrite` or a `RawRoute`, so that it is described too."""
    document = (await site.get("/api/v1/openapi.json")).document
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    served = {
        (route.method, route.resource.canonical)
        for route in site.server.application().router.routes()
        if route.resource is not None
        and route.resource.canonical.startswith(("/api/", "/schemas", "/badge"))
        and route.method != "HEAD"  # that every GET answers
    }
    assert described == served


@pytest.mark.parametrize("settings", [ServerSettings(listen="127.0.0.1:0"), GUARDED])
async def test_the_document_is_valid(site: Site, settings: ServerSettings) -> None:
    """It is OpenAPI 3.1, and names the credentials that the server takes."""
    headers = {"Authorization": "Bearer a token for scripts"} if settings.has_auth else None
    document = (await site.get("/api/v1/openapi.json", headers=headers)).document
    validate(document)
    schemes = {"bearer", "basic"} if settings.has_auth else set()
    assert set(document["components"]["securitySchemes"]) == schemes
    assert {name for requirement in document["security"] for name in requirement} == schemes
    (read,) = document["paths"]["/api/v1/events"].values()
    assert ("401" in read["responses"]) is settings.has_auth


async def test_parameters_are_described(site: Site) -> None:
    """Each has its type, limits, default and words, as the server takes them."""
    document = (await site.get("/api/v1/openapi.json")).document
    parameters = {
        parameter["name"]: parameter
        for parameter in document["paths"]["/api/v1/events"]["get"]["parameters"]
    }
    assert parameters["limit"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000,
        "default": 100,
    }
    assert parameters["since"]["schema"] == {"type": "string", "format": "date-time"}
    name = parameters["type"]["schema"]["$ref"].rpartition("/")[2]
    assert "run.failed" in document["components"]["schemas"][name]["enum"]
    assert not any(parameter["required"] for parameter in parameters.values())
    undescribed = [
        f"{path}?{parameter['name']}"
        for path, methods in document["paths"].items()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert undescribed == []


async def test_instants_are_described_as_such(site: Site) -> None:
    """A client made from the document reads times as times."""
    document = (await site.get("/api/v1/openapi.json")).document
    schemas = document["components"]["schemas"]
    assert schemas["RunView"]["properties"]["confirmed_at"]["format"] == "date-time"
    texts = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if field.endswith("_at") and "date-time" not in str(described)
    ]
    assert texts == []


async def test_no_answer_is_of_any_form(site: Site) -> None:
    """Webhook tasks, badges and the stream have types too; only schemas are plain objects."""
    document = (await site.get("/api/v1/openapi.json")).document
    schemas = document["components"]["schemas"]
    assert "state" in schemas["RegisteredTask"]["required"]
    assert {"ok", "status_code", "state"} <= set(schemas["WebhookResult"]["properties"])
    assert (
        schemas["StreamedEvent"]["properties"]["data"]["contentSchema"]
        == (schemas["EventPage"]["properties"]["data"]["items"])
    )
    untyped = [
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        for content in operation["responses"].get("200", {"content": {}})["content"].values()
        if set(content["schema"]) <= {"type"}
    ]
    assert untyped == ["/api/v1/openapi.json", "/schemas/{type}.json"]
    badge = document["paths"]["/badge/{workspace}.svg"]["get"]["responses"]["200"]
    assert badge["content"]["image/svg+xml"]["schema"]["contentMediaType"] == "image/svg+xml"


async def test_answers_keep_to_the_document(site: Site, tmp_path: Path) -> None:
    """Requests made from the document find no 5xx and no answer that it does not describe."""
    await site.observe(site.run("1", Status.FAILED, error="no such column"), site.run("2"))
    await site.observe(site.run("3", key=RunKey("acme", RunKind.PLAN_RUN, "3")))
    document = (await site.get("/api/v1/openapi.json")).document
    alert, silence = site.alerting.alert(), site.alerting.silence()
    site.alerting.show(alert, silences=(silence,))
    known = {
        "workspace": "acme",
        "kind": "job_group",
        "id": "1",
        "output": "mqtt",
        "pipeline": "7",
        "fingerprint": alert.fingerprint,
    }
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("st")), "run", f"{site.url}/api/v1/openapi.json"),
        *("--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color"),
        *("--suppress-health-check", "all", "--request-timeout", "10", "--seed", "1"),
        *("--max-examples", "4", "--phases", "examples,fuzzing"),
        *("--exclude-operation-id", STREAM),
        cwd=tmp_path,  # it writes files where it runs
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.web.fuzzing_hooks",
            "PYTHONPATH": str(ROOT),
            KNOWN_VARIABLE: json.dumps(known),
        },
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace")
    assert process.returncode == 0, text
    tested = re.search(r"Tested: *(\d+)", text)
    operations = [name for methods in document["paths"].values() for name in methods]
    assert tested is not None, text
    untested = 2  # the stream, and the document itself
    assert int(tested[1]) == len(operations) - untested, text
