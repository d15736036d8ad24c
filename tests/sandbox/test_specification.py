"""What the workspace says about itself: valid, whole, and what is publicly known of it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate

from monitor.catalogue.operations import Edition, operation, operations
from monitor.sandbox.api.models.models import (
    corrections,
    families,
    media_type_of,
    models,
    public_models,
    status_of,
)
from monitor.sandbox.api.specification.document import document
from monitor.sandbox.api.unlisted.operations import UNLISTED
from tests.sandbox.http_workspace import open_workspace

# Where recorded answers and other evidence differ from the public models.
EXCUSED = {
    "ScheduleResponseWithTask.triggers": "recorded as a list",
    "DatasetLibraryListObject.data": "the rows are objects; the publication kept only a type",
    "ConfigurationKeyValueSchema.value": "a setting may be a number or a text",
    "FlowPermissionRequest.data": "a row may be an object with a role",
    "FlowRunParameterOverride.value": "a plain value is one too, as in recorded plan runs",
    "FlowRunParameterOverrideCreateRequest.value": "a plain value is one too",
    "FlowRunParameterOverrideUpdateRequest.value": "a plain value is one too",
    "SharePlanRequest.data": "a row may be an object with a role",
    "PlanNodeOverride.value": "recorded plan runs send plain values",
    "PlanOverrideCreateRequest.value": "a plain value is one too, as in recorded plan runs",
    "PlanOverrideUpdateRequest.value": "a plain value is one too, as in recorded plan runs",
    "OutputObject.execution": "Google's engine is dataflow",
    "OutputObjectCreateRequest.execution": "Google's engine is dataflow",
    "OutputObjectUpdateRequest.execution": "Google's engine is dataflow",
    "FlowRunRequest.execution": "Google's engine is dataflow",
    "Connection.credentialType": "packages of 2019 have another one",
    "Publication.parameters": "recorded packages have plain values",
}
WORDS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "object",
}


async def served(edition: Edition) -> Any:
    """Return the document as it comes over HTTP."""
    async with open_workspace(edition) as workspace:
        return (await workspace.get("/v4/open-api-spec")).body


def word_of(schema: dict[str, Any]) -> str:
    """Return the type of a schema, as the public models would write it."""
    match schema:
        case {"$ref": reference}:
            found = str(reference).removeprefix("#/components/schemas/")
        case {"anyOf": choices}:
            found = "|".join(word_of(choice) for choice in choices if choice.get("enum") != [None])
        case {"type": "array", "items": items}:
            found = "list" if items == {} else f"list[{word_of(items)}]"
        case {"type": "object", "additionalProperties": values}:
            found = f"dict(str, {word_of(values)})"
        case {"type": "string", "format": "date-time"}:
            found = "datetime"
        case _:
            found = WORDS[schema["type"]] if "type" in schema else "any"
    return found


def fault(served_model: dict[str, Any], name: str, public: Any) -> str:
    """Return in which way a served field is not the public one; nothing where it is."""
    schema = served_model["properties"][name]
    worded = schema["items"] if schema.get("type") == "array" else schema
    words = tuple(word for word in worded.get("enum", ()) if word is not None)
    is_required = name in served_model.get("required", ())
    if (word_of(schema), is_required, words) == (public.type, public.required, public.enum):
        return ""
    return f"{word_of(schema)} {is_required} {words} instead of {public}"


@pytest.mark.parametrize("edition", list(Edition))
async def test_the_document_is_valid(edition: Edition) -> None:
    """The document of each edition is an OpenAPI document."""
    found = await served(edition)

    validate(found)
    assert found["openapi"].startswith("3.0.")


async def test_the_models_are_the_public_ones() -> None:
    """Required fields, types and words are those that are publicly known, but for known errors."""
    schemas = (await served(Edition.RL))["components"]["schemas"]
    faults = {}
    for name, public in public_models().items():
        if "" in public:
            assert schemas[name] == {"type": "string", "enum": list(public[""].enum)}
            continue
        for field, item in public.items():
            if found := fault(schemas[name], field, item):
                faults[f"{name}.{field}"] = found

    assert faults.keys() == EXCUSED.keys(), faults
    assert EXCUSED.keys() <= corrections().keys()


def test_a_family_corrects_what_exists() -> None:
    """No family assumes what is public or what another one assumes; facts name models."""
    assumed = [name for family in families().values() for name in family.assumed]
    named = {path.partition(".")[0] for path in corrections()}
    ids = {name for family in families().values() for name in family.bodies}

    assert len(assumed) == len(set(assumed))
    assert not set(assumed) & public_models().keys()
    assert named <= models().keys()
    known = (*operations(), *UNLISTED)
    assert ids <= {operation.operation_id for operation in known if operation.assigned}


@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.LE])
async def test_the_document_lists_the_edition(edition: Edition) -> None:
    """The served document names each operation of the edition with its parameters and answers."""
    paths = (await served(edition))["paths"]

    served_operations = [operation for operation in operations() if operation.is_part_of(edition)]
    listed = {(method.upper(), path) for path, inner in paths.items() for method in inner}
    assert listed == {
        (served_operation.method, re.sub(r":(\w+)", r"{\1}", served_operation.path))
        for served_operation in served_operations
    }
    for served_operation in served_operations:
        described = paths[re.sub(r":(\w+)", r"{\1}", served_operation.path)][
            served_operation.method.lower()
        ]
        assert described["operationId"] == served_operation.operation_id
        parameters = [(each["in"], each["name"]) for each in described["parameters"]]
        assert [name for location, name in parameters if location == "path"] == [
            *served_operation.parameters
        ]
        assert [name for location, name in parameters if location == "query"] == [
            *served_operation.query
        ]
        answer = described["responses"][str(status_of(served_operation))]
        assert [*answer.get("content", ())] == [
            kind for kind in (media_type_of(served_operation),) if kind
        ]


@pytest.mark.parametrize("edition", list(Edition))
def test_the_document_is_consistent(edition: Edition) -> None:
    """References and links lead somewhere; ids and words are unique."""
    found = document(edition, "http://localhost")
    text = msgspec.json.encode(found).decode()
    schemas = found["components"]["schemas"]
    ids = [each["operationId"] for inner in found["paths"].values() for each in inner.values()]
    linked = {
        link["operationId"]
        for inner in found["paths"].values()
        for each in inner.values()
        for answer in each["responses"].values()
        for link in answer.get("links", {}).values()
    }

    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) <= schemas.keys()
    assert models().keys() <= schemas.keys()
    assert linked <= set(ids)
    assert len(ids) == len(set(ids))
    for model in models().values():
        assert all(len(set(field.enum)) == len(field.enum) for field in model.values())
    assert text.count('"in":"path","required":true') == text.count('"in":"path"')


def test_runs_and_quotas_are_described() -> None:
    """A run documents its 304 and the quota, whose headers stand on success and on 429."""
    run = document(Edition.RL, "http://localhost")["paths"]["/v4/jobGroups"]["post"]

    assert run["responses"].keys() == {"201", "304", "429", "default"}
    assert "x-rate-limit-user-remaining" in run["responses"]["201"]["headers"]
    assert "x-retry-after" in run["responses"]["429"]["headers"]
    assert run["requestBody"]["required"] is True
    assert operation("runJobGroup").quota_per_minute is not None
