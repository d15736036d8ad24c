"""The file that a package is: a ZIP of one page about itself and one table for each kind.

Flows are exported in the vendor's format instead, see `flow_writing`, and read in both.
``package.json`` describes the package, ``data/<plural>.json`` has the records of one kind
with the attributes that they are kept with, ``README.txt`` explains it to people. The same
content always gives the same bytes. What a stranger's file may contain is not believed: its size
is limited before anything is unpacked, and whatever is wrong is a 400 that names ``data``.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from monitor.sandbox.api.errors import ApiError, bad_field, shortened

FORMAT = "dataprep-package"
VERSION = 1
MANIFEST = "package.json"
README = "README.txt"
DATA_FOLDER = "data/"
MOST_MEMBERS = 1_000
MOST_UNPACKED_BYTES = 64 * 1024 * 1024
MOST_KEPT_BYTES = 1024 * 1024  # of files that have no place here
MOST_ROWS = 20_000
MOST_VALUES = 1_000_000

Rows: TypeAlias = list[dict[str, Any]]

_ALWAYS_THE_SAME = (1980, 1, 1, 0, 0, 0)  # the oldest date that a ZIP can have
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# What a broken ZIP makes of the libraries that read it.
_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    KeyError,
)


class PackageKind(StrEnum):
    """What is in a package."""

    FLOW = "flow"
    PLAN = "plan"
    MACRO = "macro"
    ENVIRONMENT_PARAMETERS = "environmentParameters"


class Manifest(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a package says about itself. ``roots`` are what it was made for, by plural."""

    format: str
    version: int
    kind: PackageKind
    exported_at: datetime
    workspace_id: int
    comment: str | None = None
    roots: dict[str, list[int]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The content of a package. ``tables`` are rows by the plural of their kind."""

    manifest: Manifest
    tables: Mapping[str, Rows] = field(default_factory=dict)


def pack(package: Package) -> bytes:
    """Return the package as a ZIP."""
    kind = package.manifest.kind
    pages = {
        MANIFEST: json_of(package.manifest),
        README: f"A {kind} package of dataprep-monitor's sandbox.\n".encode(),
        **{f"{DATA_FOLDER}{name}.json": json_of(rows) for name, rows in package.tables.items()},
    }
    return zipped(pages)


def zipped(pages: Mapping[str, bytes]) -> bytes:
    """Return files as a ZIP."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in sorted(pages.items()):
            info = zipfile.ZipInfo(name, date_time=_ALWAYS_THE_SAME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return written.getvalue()


def pages_in(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive, by name.

    Raises:
        ApiError: 400, naming ``data``, where it is none, or too much is in it.
    """
    if not content:
        raise bad_package("is required: the ZIP file of a package")
    pages = _pages(content)
    # An empty object takes three bytes of a page and fifty times as many in memory.
    if sum(page.count(b",") for page in pages.values()) > MOST_VALUES:
        raise bad_package(f"has more than {MOST_VALUES} values")
    return pages


def unpack(content: bytes, kind: PackageKind) -> Package:
    """Read a package of the wanted kind, in this workspace's own format.

    Raises:
        ApiError: 400, naming ``data``, for whatever else the bytes are.
    """
    return unpacked(pages_in(content), kind)


def unpacked(pages: Mapping[str, bytes], kind: PackageKind) -> Package:
    """Read the files of a package in this workspace's own format.

    Raises:
        ApiError: 400, naming ``data``.
    """
    if MANIFEST not in pages:
        raise bad_package(f"is no package: it has no {MANIFEST}, nor one document of a flow")
    manifest = read_as(pages[MANIFEST], Manifest, MANIFEST)
    if manifest.format != FORMAT or manifest.version != VERSION:
        raise bad_package(
            f"is a package of the format {shortened(manifest.format)} {manifest.version}; "
            f"this workspace reads {FORMAT} {VERSION}"
        )
    if manifest.kind is not kind:
        raise bad_package(f"is a package of the kind {manifest.kind}, not {kind}")
    tables = {
        name.removeprefix(DATA_FOLDER).removesuffix(".json"): read_as(page, Rows, name)
        for name, page in pages.items()
        if name.startswith(DATA_FOLDER) and name.endswith(".json")
    }
    if sum(len(rows) for rows in tables.values()) > MOST_ROWS:
        raise bad_package(f"has more than {MOST_ROWS} records")
    return Package(manifest=manifest, tables=tables)


def bad_package(problem: str) -> ApiError:
    """Return the refusal of a package."""
    return bad_field("data", problem)


def read_as(page: bytes, shape: Any, name: str) -> Any:
    """Return what a page of JSON says.

    Raises:
        ApiError: 400, when it is no JSON, or of another shape.
    """
    try:
        return msgspec.json.decode(page, type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as exc:
        raise bad_package(f"has a page {shortened(name)} that cannot be read: {exc}") from exc


def _pages(content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            _refuse_what_is_too_much(members)
            return {member.filename: archive.read(member) for member in members if _is_file(member)}
    except _READ_ERRORS as exc:
        raise bad_package("is no ZIP file that can be read") from exc


def _is_file(member: zipfile.ZipInfo) -> bool:
    # One without a name cannot be tested for being a folder.
    return member.filename != "" and not member.is_dir()


def _refuse_what_is_too_much(members: Sequence[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise bad_package(f"has more than {MOST_MEMBERS} files")
    # No more than what a member says of itself is ever unpacked.
    if sum(max(0, member.file_size) for member in members) > MOST_UNPACKED_BYTES:
        raise bad_package(f"has more than {MOST_UNPACKED_BYTES} bytes when it is unpacked")
    for member in members:
        if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
            raise bad_package(f"has a file {shortened(member.filename)} that is encrypted or odd")


def json_of(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"
