"""Environment parameters and macros, and the packages in which they go elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, answer, create_record, crud, found, rows_of
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.errors import Json, bad_field, shortened
from monitor.sandbox.api.models.models import ZIP_TYPE, status_of
from monitor.sandbox.api.packages.archive import (
    Package,
    PackageKind,
    Rows,
    bad_package,
    pack,
    unpack,
)
from monitor.sandbox.api.packages.exporting import manifest_of, row_of
from monitor.sandbox.api.request.bodies import check_sizes
from monitor.sandbox.api.request.parameters import boolean
from monitor.sandbox.api.response.kinds import Kind, Visibility
from monitor.sandbox.world.records.objects import ImportedDataset, Publication, Record, WriteSetting
from monitor.sandbox.world.records.parts import EnvironmentParameter, Macro, SqlScript
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

ENVIRONMENT_PARAMETER: Kind[EnvironmentParameter] = Kind(
    record=EnvironmentParameter,
    visibility=Visibility.EVERYBODY,
    computed={"usageInfo": lambda _, __: None},  # shown on request
    filter_fields=("overrideKey",),
)

MACRO: Kind[Macro] = Kind(
    record=Macro,
    name="macro",
    model="ImportMacroPackageResponse",
    visibility=Visibility.EVERYBODY,
    constants={"workspaceId": WORKSPACE_ID},
    computed={
        "createdBy": lambda _, record: record.creator_id,
        "updatedBy": lambda _, record: record.updater_id,
    },
)

PACKAGE_KINDS: tuple[Kind[Any], ...] = (ENVIRONMENT_PARAMETER, MACRO)


MACROS = MACRO.plural
PARAMETERS = ENVIRONMENT_PARAMETER.plural


class _MacroRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a package says of a macro; the rest belongs to the workspace that it is from."""

    name: str
    description: str = ""
    steps: tuple[str, ...] = ()
    parameters: tuple[dict[str, object], ...] = ()


def get_macro_package(call: Call) -> Reply:
    """Export a macro as a ZIP."""
    macro = found(call, MACRO)
    manifest = manifest_of(call.world, PackageKind.MACRO, roots={MACROS: [macro.id]})
    package = Package(manifest=manifest, tables={MACROS: [row_of(call.view.table, macro, ())]})
    return Reply(content=pack(package), content_type=ZIP_TYPE)


def import_macro_package(call: Call) -> Reply:
    """Make the macro from a package."""
    rows = unpack(call.upload or b"", PackageKind.MACRO).tables.get(MACROS, [])
    if len(rows) != 1:
        raise bad_package(f"must have one macro and has {len(rows)}")
    check_sizes(rows)
    try:
        row = msgspec.convert(rows[0], _MacroRow)
    except msgspec.ValidationError as exc:
        raise bad_package(f"has a macro that cannot be read: {exc}") from exc
    return answer(call, MACRO, create_record(call, MACRO, msgspec.structs.asdict(row)))


class _Row(Struct, frozen=True, kw_only=True, rename="camel"):
    """One parameter in a package. A hidden value is None."""

    override_key: str
    value: dict[str, Any] | None = None


def list_parameters(call: Call) -> Reply:
    """List the environment parameters, with what uses them on request."""
    return call.list(
        ENVIRONMENT_PARAMETER.plural,
        rows_of(call, ENVIRONMENT_PARAMETER),
        filter_fields=ENVIRONMENT_PARAMETER.filter_fields,
        extra=_usage_shown(call),
    )


def get_parameter(call: Call) -> Reply:
    """Read an environment parameter, with what uses it on request."""
    one = found(call, ENVIRONMENT_PARAMETER)
    extra = _usage_shown(call)
    return call.show(PARAMETERS, one, extra=None if extra is None else extra(one))


def get_package(call: Call) -> Reply:
    """Export all environment parameters as a ZIP."""
    hides = boolean(call.query, "hideSecrets")
    rows: Rows = [
        {
            "overrideKey": environment_parameter.override_key,
            "value": None
            if hides and environment_parameter.is_secret
            else dict(environment_parameter.value),
        }
        for environment_parameter in call.world.shelf(EnvironmentParameter).live()
    ]
    manifest = manifest_of(call.world, PackageKind.ENVIRONMENT_PARAMETERS)
    package = Package(manifest=manifest, tables={PARAMETERS: rows})
    return Reply(content=pack(package), content_type=ZIP_TYPE)


def import_package(call: Call) -> Reply:
    """Make the parameters of a package, or give those that are here its values."""
    rows = _rows(call)
    here = {
        environment_parameter.override_key: environment_parameter
        for environment_parameter in call.world.shelf(EnvironmentParameter).live()
    }
    for row in rows:
        existing = here.get(row.override_key)
        if existing is not None:
            require_right(call, existing)
        elif row.value is None:
            raise bad_package(
                f"hides the value of {shortened(row.override_key)}, which is not here yet"
            )
    shown: list[Json] = []
    for row in rows:
        one = here.get(row.override_key)
        if one is None:
            one = here[row.override_key] = call.world.create(
                EnvironmentParameter,
                by=call.person.id,
                override_key=row.override_key,
                value=row.value,
            )
        elif row.value is not None:
            call.world.update(one, by=call.person.id, value=row.value)
        shown.append(call.show(PARAMETERS, one).body)
    return Reply(status=status_of(call.operation), body={"data": shown})


def _rows(call: Call) -> list[_Row]:
    """Return the parameters of a ZIP, or of the same as JSON: ``{"data": [...]}``."""
    if call.upload is not None:
        tables = unpack(call.upload, PackageKind.ENVIRONMENT_PARAMETERS).tables
        sent: Any = tables.get(PARAMETERS, [])
    else:
        sent = (call.body or {}).get("data")
        if sent is None:
            raise bad_package("is required: the environment parameters, or a ZIP file of them")
    check_sizes(sent)
    try:
        rows = msgspec.convert(sent, list[_Row])
    except msgspec.ValidationError as exc:
        raise bad_package(f"has an environment parameter that cannot be read: {exc}") from exc
    if any(not row.override_key for row in rows):
        raise bad_package("has an environment parameter without a key")
    return rows


def _prepared(
    call: Call, environment_parameter: EnvironmentParameter | None, values: dict[str, Any]
) -> dict[str, Any]:
    del environment_parameter
    key, value = values["override_key"], values["value"]
    if not key:
        raise bad_field("overrideKey", "is not allowed to be empty")
    if not isinstance(value, Mapping):
        raise bad_field("value", "must be an object")
    parameters = call.world.shelf(EnvironmentParameter).live()
    if any(other.override_key == key for other in parameters):
        raise bad_field("overrideKey", "is the key of another environment parameter")
    return values


def _usage_shown(call: Call) -> Callable[[EnvironmentParameter], Mapping[str, Json]] | None:
    if not boolean(call.query, "includeUsageInfo"):
        return None
    texts = _texts_by_kind(call.world)

    def shown(environment_parameter: EnvironmentParameter) -> Mapping[str, Json]:
        name = f"$env.{environment_parameter.override_key}"
        usage = {kind: sum(name in text for text in found) for kind, found in texts.items()}
        return {"usageInfo": usage}

    return shown


def _texts_by_kind(world: World) -> dict[str, list[str]]:
    """Return what may name a parameter, each thing as one text."""
    kinds: dict[str, type[Record]] = {
        "importedDatasets": ImportedDataset,
        "writeSettings": WriteSetting,
        "publications": Publication,
        "sqlScripts": SqlScript,
    }
    return {
        name: [msgspec.json.encode(other_kind).decode() for other_kind in world.shelf(kind).live()]
        for name, kind in kinds.items()
    }


HOOKS: Hooks[EnvironmentParameter] = Hooks(prepare=_prepared)


HANDLERS: Handlers = {
    "getMacroPackage": get_macro_package,
    "importMacroPackage": import_macro_package,
    **crud(ENVIRONMENT_PARAMETER, HOOKS),
    "listEnvironmentParameters": list_parameters,
    "getEnvironmentParameter": get_parameter,
    "getEnvironmentParametersPackage": get_package,
    "importEnvironmentParametersPackage": import_package,
}
