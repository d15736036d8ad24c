"""What the body of a run says that this one run does otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from monitor.sandbox.api.calls import Call
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.outputs.output_objects import WRITE_SETTING, nested_values
from monitor.sandbox.api.request.bodies import Body, check_part, instant
from monitor.sandbox.running.destinations import FlowOverrides, RunOverrides
from monitor.sandbox.world.records.objects import Flow

MODEL = "RunJobOverrides"
LONGEST_ENGINE = 50
# Published examples write the first, everything else in the API is written like the second.
SPELLINGS = ("writesettings", "writeSettings")


def recipe_overrides(call: Call, body: Body) -> RunOverrides:
    """Return what a request to run one recipe says otherwise.

    Raises:
        ApiError: 400, naming the field that cannot be.
    """
    overrides = body.raw("overrides") if body.has("overrides") else {}
    return _of_recipe(call, overrides, body, path="overrides")


def flow_overrides(call: Call, flow: Flow, body: Body) -> FlowOverrides:
    """Return what a request to run a flow says otherwise, for all recipes and by their names.

    Raises:
        ApiError: 400, naming the field that cannot be, or a name that no recipe has.
    """
    known = {recipe.name for recipe in call.world.recipes_of(flow.id)}
    by_name: dict[str, RunOverrides] = {}
    for name, overrides in (body.raw("overrides") if body.has("overrides") else {}).items():
        if name not in known:
            raise bad_field(f"overrides.{name}", f"names no recipe of flow {flow.id}")
        by_name[name] = _of_recipe(call, overrides, Body({}), path=f"overrides.{name}")
    return FlowOverrides(
        everywhere=RunOverrides(
            execution=body.text("execution") if body.has("execution") else None,
            parameters=parameters(body),
            reference_date=_reference_date(body),
        ),
        by_recipe_name=by_name,
    )


def parameters(body: Body) -> dict[str, Any]:
    """Return the values that ``runParameters`` gives, by override key.

    They stand there as rows of ``key`` and ``value``, or as one object.

    Raises:
        ApiError: 400, naming the row that cannot be.
    """
    overrides = _object(_object(body, "runParameters"), "overrides")
    if not overrides.has("data"):
        return {name: overrides.raw(name) for name in overrides.names() if overrides.has(name)}
    rows = overrides.objects("data") if overrides.array("data") else []
    return {row.text("key"): row.raw("value") for row in rows}


def _reference_date(body: Body) -> datetime | None:
    run_parameters = _object(body, "runParameters")
    if not run_parameters.has("referenceDate"):
        return None
    return instant(run_parameters.text("referenceDate"))


def _object(body: Body, field: str) -> Body:
    return body.object(field) if body.has(field) else Body({})


def _of_recipe(call: Call, overrides: Json, body: Body, *, path: str) -> RunOverrides:
    sent = Body(check_part(MODEL, overrides, path=path), path=path)
    execution = sent.text("execution", longest=LONGEST_ENGINE) if sent.has("execution") else None
    return RunOverrides(
        execution=execution,
        profiler=sent.boolean("profiler") if sent.has("profiler") else None,
        write_settings=_write_settings(call, sent),
        parameters=parameters(body),
        reference_date=_reference_date(body),
    )


def _write_settings(call: Call, overrides: Body) -> tuple[Mapping[str, Any], ...] | None:
    for name in SPELLINGS:
        if overrides.has(name):
            return tuple(
                nested_values(call, WRITE_SETTING, item, path=f"{overrides.name_of(name)}[{place}]")
                for place, item in enumerate(overrides.array(name))
            )
    return None
