"""Packages of flows and of plans: out, in, and in on trial."""

from __future__ import annotations

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.rights import may_name, require_right
from monitor.sandbox.api.errors import Json, bad_parameter
from monitor.sandbox.api.models.models import ZIP_TYPE, status_of
from monitor.sandbox.api.packages.archive import PackageKind, pack
from monitor.sandbox.api.packages.arrivals import Arrivals, arrivals_of
from monitor.sandbox.api.packages.exporting import export, gathered
from monitor.sandbox.api.packages.flow_reading import read_package
from monitor.sandbox.api.packages.flow_writing import packed
from monitor.sandbox.api.packages.importing import Imported, answer_of, bring_in, refuse_invalid
from monitor.sandbox.api.request.parameters import boolean, integer
from monitor.sandbox.api.response.kinds import View
from monitor.sandbox.world.records.objects import Flow, Plan
from monitor.sandbox.world.records.parts import Folder, UserDefinedFunction


def get_flow_package(call: Call) -> Reply:
    """Export a flow, with all that hangs on it, as a ZIP."""
    return _package_of(call, call.thing(call.world.flows, "flow"), PackageKind.FLOW)


def get_plan_package(call: Call) -> Reply:
    """Export a plan with its flows as a ZIP."""
    return _package_of(call, call.thing(call.world.plans, "plan"), PackageKind.PLAN)


def try_flow_package(call: Call) -> Reply:
    """Check whether a flow can be exported, without exporting it."""
    gathered(call.view, call.thing(call.world.flows, "flow"))
    return NO_CONTENT


def import_flow_package(call: Call) -> Reply:
    """Make the flows from a package."""
    return _import(call, PackageKind.FLOW)


def import_plan_package(call: Call) -> Reply:
    """Make the plan from a package, with its flows."""
    return _import(call, PackageKind.PLAN)


def try_import(call: Call) -> Reply:
    """Answer what an import would, and change nothing."""
    arrivals = arrivals_in(call, PackageKind.FLOW)
    imported = _try(call, arrivals, folder_id=_folder_id(call))
    return Reply(body=answer_of(*imported))


def _package_of(call: Call, root: Flow | Plan, kind: PackageKind) -> Reply:
    package = export(call.view, root, kind=kind, comment=call.query.get("comment"))
    content = packed(package) if kind is PackageKind.FLOW else pack(package)
    return Reply(content=content, content_type=ZIP_TYPE)


def _import(call: Call, kind: PackageKind) -> Reply:
    _, body = import_arrivals(call, arrivals_in(call, kind), folder_id=_folder_id(call))
    return Reply(status=status_of(call.operation), body=body)


def import_arrivals(
    call: Call, arrivals: Arrivals, *, folder_id: int | None = None
) -> tuple[Imported, dict[str, Json]]:
    """Make what arrived, if a trial goes well; return it, and what the import answers.

    Raises:
        ApiError: 400, naming ``data``; 403, where functions would be overridden that
            another person owns.
    """
    _, tried = _try(call, arrivals, folder_id=folder_id)
    overridden = _functions_to_override(call, tried)
    imported = bring_in(call.view, arrivals, folder_id=folder_id)
    for here, arrived in overridden:
        call.world.update(
            here,
            by=call.person.id,
            description=arrived.description,
            language=arrived.language,
            input_types=arrived.input_types,
            output_type=arrived.output_type,
        )
    # The call's own has found what was there before.
    view = View(call.world, call.person, call.view.table)
    return imported, answer_of(view, imported)


def arrivals_in(call: Call, kind: PackageKind) -> Arrivals:
    """Return what the uploaded package has.

    Raises:
        ApiError: 400, naming ``data``.
    """
    return arrivals_of(read_package(call.upload or b"", kind), call.view)


def _try(call: Call, arrivals: Arrivals, *, folder_id: int | None) -> tuple[View, Imported]:
    """Import into a scratch copy of the world, and validate the result.

    Raises:
        ApiError: 400, naming ``data``.
    """
    view = View(call.world.scratch_copy(), call.person, call.view.table)
    imported = bring_in(view, arrivals, folder_id=folder_id)
    refuse_invalid(view, imported)
    return view, imported


def _folder_id(call: Call) -> int | None:
    """Return the folder that the query names; 0 counts as none.

    Raises:
        ApiError: 400, when there is no such folder for this person.
    """
    folder_id = integer(call.query, "folderId", 0)
    if not folder_id:
        return None
    folder = call.world.shelf(Folder).get(folder_id)
    if folder is None or not may_name(call.view, folder):
        raise bad_parameter("folderId", str(folder_id), "a folder of this workspace")
    return folder_id


def _functions_to_override(
    call: Call, tried: Imported
) -> list[tuple[UserDefinedFunction, UserDefinedFunction]]:
    """Return the functions that are here and those that the caller wants in their place.

    Raises:
        ApiError: 403, when another person owns them.
    """
    if not boolean(call.query, "overrideJsUdfs"):
        return []
    found = []
    for key, here in tried.known.items():
        arrived = tried.arrived[key]
        if isinstance(here, UserDefinedFunction) and isinstance(arrived, UserDefinedFunction):
            require_right(call, here)
            found.append((here, arrived))
    return found


HANDLERS: Handlers = {
    "getFlowPackage": get_flow_package,
    "getFlowPackageDryRun": try_flow_package,
    "importPackage": import_flow_package,
    "importPackageDryRun": try_import,
    "getPlanPackage": get_plan_package,
    "importPlanPackage": import_plan_package,
}
