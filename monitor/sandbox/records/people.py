"""What belongs to one person: access to AWS, and options of the jobs that run on Dataflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class AwsConfig(Record):
    """How a person, or the whole workspace where ``person_id`` is None, reaches AWS.

    ``key`` and ``secret`` are taken and never shown.
    """

    first_id: ClassVar[int] = 61
    person_id: int | None
    credential_provider: str  # default, temporary
    default_bucket: str | None = None
    extra_buckets: tuple[str, ...] = ()
    role: str | None = None
    external_id: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    active_role_id: int | None = None


@dataclass(slots=True, kw_only=True)
class AwsRole(Record):
    """A role that a configuration may take on."""

    first_id: ClassVar[int] = 66
    aws_config_id: int
    role: str
    created_from: str = "api"  # api, idp


@dataclass(slots=True, kw_only=True)
class DataflowOptions(Record):
    """Settings that one person's jobs of one ``type`` give the engine; one for each type."""

    first_id: ClassVar[int] = 9_801
    person_id: int
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)
