"""Macros, which come and go as packages only."""

from __future__ import annotations

import msgspec

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import answer, create_record, found
from monitor.sandbox.api.models.models import ZIP_TYPE
from monitor.sandbox.api.packages.archive import Package, PackageKind, bad_package, pack, unpack
from monitor.sandbox.api.packages.exporting import manifest_of, row_of
from monitor.sandbox.api.packages.package_kinds import MACRO
from monitor.sandbox.api.request.bodies import check_sizes

TABLE = MACRO.plural


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a package says of a macro; the rest belongs to the workspace that it is from."""

    name: str
    description: str = ""
    steps: tuple[str, ...] = ()
    parameters: tuple[dict[str, object], ...] = ()


def get_macro_package(call: Call) -> Reply:
    """Export a macro as a ZIP."""
    macro = found(call, MACRO)
    manifest = manifest_of(call.world, PackageKind.MACRO, roots={TABLE: [macro.id]})
    package = Package(manifest=manifest, tables={TABLE: [row_of(call.view.table, macro, ())]})
    return Reply(content=pack(package), content_type=ZIP_TYPE)


def import_macro_package(call: Call) -> Reply:
    """Make the macro of a package anew."""
    rows = unpack(call.upload or b"", PackageKind.MACRO).tables.get(TABLE, [])
    if len(rows) != 1:
        raise bad_package(f"must have one macro and has {len(rows)}")
    check_sizes(rows)
    try:
        row = msgspec.convert(rows[0], _Row)
    except msgspec.ValidationError as exc:
        raise bad_package(f"has a macro that cannot be read: {exc}") from exc
    return answer(call, MACRO, create_record(call, MACRO, msgspec.structs.asdict(row)))


HANDLERS: Handlers = {
    "getMacroPackage": get_macro_package,
    "importMacroPackage": import_macro_package,
}
