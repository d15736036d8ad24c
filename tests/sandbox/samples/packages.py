"""Samples of the operations on packages and environment parameters."""

from __future__ import annotations

from monitor.sandbox.api.packages.archive import Package, PackageKind, Rows, pack
from monitor.sandbox.api.packages.exporting import export, manifest_of
from monitor.sandbox.api.resources import RESOURCES
from monitor.sandbox.api.response.kinds import View
from monitor.sandbox.world.records.objects import Flow, Plan
from monitor.sandbox.world.records.parts import EnvironmentParameter, Macro
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Add an environment parameter and a macro."""
    living.create(
        EnvironmentParameter, override_key="region", value={"variable": {"value": "north"}}
    )
    living.create(Macro, name="Trim all", steps=("trim col: *",))


def flow_package(living: Living) -> bytes:
    """Return the package of a flow that the owner has."""
    view = View(living.workspace.world, living.things.owner, RESOURCES)
    return pack(export(view, living.things.orders, kind=PackageKind.FLOW, comment=None))


def plan_package(living: Living) -> bytes:
    """Return the package of a plan that the owner has."""
    view = View(living.workspace.world, living.things.owner, RESOURCES)
    return pack(export(view, living.things.nightly, kind=PackageKind.PLAN, comment=None))


def macro_package(living: Living) -> bytes:
    """Return the package of a macro."""
    return _table(living, PackageKind.MACRO, "macros", [{"name": "Upper", "steps": ["upper"]}])


def parameters_package(living: Living) -> bytes:
    """Return a package with one environment parameter."""
    rows: Rows = [{"overrideKey": "stage", "value": {"variable": {"value": "test"}}}]
    kind = PackageKind.ENVIRONMENT_PARAMETERS
    return _table(living, kind, "environmentparameters", rows)


def _table(living: Living, kind: PackageKind, name: str, rows: Rows) -> bytes:
    manifest = manifest_of(living.workspace.world, kind)
    return pack(Package(manifest=manifest, tables={name: rows}))


SAMPLES: dict[str, Sample] = {
    "getFlowPackage": Sample(path=of(Flow), query={"comment": "for the other workspace"}),
    "getFlowPackageDryRun": Sample(path=of(Flow)),
    "importPackage": Sample(upload=flow_package),
    "importPackageDryRun": Sample(upload=flow_package),
    "getPlanPackage": Sample(path=of(Plan)),
    "importPlanPackage": Sample(upload=plan_package),
    "getMacroPackage": Sample(path=of(Macro)),
    "importMacroPackage": Sample(upload=macro_package),
    "createEnvironmentParameter": Sample(
        body=lambda _: {"overrideKey": "stage", "value": {"variable": {"value": "test"}}}
    ),
    "listEnvironmentParameters": Sample(query={"includeUsageInfo": "true"}),
    "getEnvironmentParameter": Sample(path=of(EnvironmentParameter)),
    "deleteEnvironmentParameter": Sample(path=of(EnvironmentParameter)),
    "getEnvironmentParametersPackage": Sample(query={"hideSecrets": "true"}),
    "importEnvironmentParametersPackage": Sample(upload=parameters_package),
}
