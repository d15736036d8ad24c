"""The JSON Schemas of events and retained documents, as they are served."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import (  # type: ignore[import-untyped]  # it has no types
    Draft202012Validator,
    ValidationError,
)

from monitor.model.events import EventType
from monitor.model.runs import Status
from monitor.outputs.cloudevents import INSTANT_NAMES, encode, message_of, type_name
from tests.outputs.histories import run_event
from tests.web.site import Site


async def test_every_type_is_listed_with_its_schema(site: Site) -> None:
    """The list leads to each schema, whose id is what messages name."""
    listed = (await site.get("/schemas")).document["data"]
    events = {entry["type"] for entry in listed if not entry["topics"]}
    assert events == {type_name(each) for each in EventType}
    assert [entry["type"] for entry in listed if "{workspace}/state" in entry["topics"]] == [
        "dataprep.workspace.state.v1"
    ]
    for entry in listed:
        answer = await site.get(entry["url"])
        assert answer.headers["Content-Type"] == "application/schema+json"
        assert answer.document["$id"] == entry["dataschema"]
        Draft202012Validator.check_schema(answer.document)
        held = {"If-None-Match": answer.headers["Etag"]}
        assert (await site.get(entry["url"], headers=held)).status == 304


async def test_a_message_fits_the_schema_that_it_names(site: Site) -> None:
    """A subscriber that reads ``dataschema`` finds there what it has received."""
    message = json.loads(encode(message_of(run_event("1", Status.FAILED), position=1)))
    listed = (await site.get("/schemas")).document["data"]
    (url,) = [each["url"] for each in listed if each["dataschema"] == message["dataschema"]]
    validator = Draft202012Validator((await site.get(url)).document)
    validator.validate(message)
    with pytest.raises(ValidationError):
        validator.validate({**message, "type": "dataprep.run.succeeded.v1"})


async def test_an_unknown_type_is_named(site: Site) -> None:
    """With the nearest one that there is."""
    answer = await site.get("/schemas/dataprep.run.fail.v1.json")
    assert answer.status == 404
    assert answer.document["detail"] == (
        "type: 'dataprep.run.fail.v1' is not known; did you mean dataprep.run.failed.v1?"
    )


async def test_a_fact_has_one_name_wherever_it_is_published(site: Site) -> None:
    """Each fact of runs, pipelines and alerts is in the JSON API; instants are shorter."""
    api = (await site.get("/api/v1/openapi.json")).document["components"]["schemas"]
    failed, fired, pipeline, alert = [
        (await site.get(f"/schemas/dataprep.{what}.v1.json")).document
        for what in ("run.failed", "alert.fired", "pipeline.state", "alert.state")
    ]
    former = {short: name for name, short in INSTANT_NAMES.items()} | {"is_flapping": "flapping"}
    published: tuple[tuple[str, dict[str, Any], set[str]], ...] = (
        ("RunView", failed["$defs"]["RunData"], {"unconfirmed"}),
        ("RunView", pipeline["$defs"]["ActiveRunData"], set()),
        ("RunView", pipeline["$defs"]["LastRunData"], set()),
        # Some are of one kind of run only there.
        ("PipelineSummary", pipeline, {"pipeline", "active_count", "active_runs", "last_run"}
         | {"known_at", "known_by"}),
        # Alertmanager's names, and what only an event has.
        ("AlertView", fired["$defs"]["AlertEventData"], {"status", "startsAt", "endsAt", "number"}),
        ("AlertView", alert, {"status", "startsAt", "endsAt", "run"}),
    )  # fmt: skip
    for name, shape, others in published:
        names = {former.get(name, name) for name in shape["properties"]}
        assert names - others <= api[name]["properties"].keys(), name
