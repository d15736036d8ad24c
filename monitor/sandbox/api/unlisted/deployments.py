"""Deployments: a flow comes as a package, by rules that change it, and its newest release runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import crud, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.errors import Json, bad_field, validation_failed
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.packages.archive import PackageKind
from monitor.sandbox.api.packages.arrivals import Arrivals
from monitor.sandbox.api.packages.flow_packages import arrivals_in, import_arrivals
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.kinds import Kind, Reference
from monitor.sandbox.api.runs.runs import start_flow
from monitor.sandbox.api.unlisted.operations import UNLISTED
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    Record,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import Deployment, Release

MOST_RULES = 100
LONGEST_PATTERN = 200
_BETWEEN_SLASHES = re.compile("/(.+)/")

DEPLOYMENT = Kind(record=Deployment)
RELEASE = Kind(
    record=Release,
    references=(
        Reference(attribute="deployment_id", target=Deployment, shown="deployment"),
        Reference(attribute="flow_id", target=Flow, shown="flow"),
    ),
)


# The texts that value rules change.
_ADDRESSES: tuple[tuple[type[Record], str], ...] = (
    (ImportedDataset, "uri"),
    (ImportedDataset, "dynamic_path"),
    (WriteSetting, "path"),
)


class _ValueRule(Struct, frozen=True, kw_only=True):
    """One value import rule: a text, or a pattern between slashes, and what comes in its place."""

    type: str
    on: str
    by: str

    def change(self, address: str) -> str:
        """Return an address changed: its bucket, or all of it."""
        if self.type == "fileLocation":
            return self._replaced(address)
        scheme, mark, rest = address.rpartition("://")
        bucket, slash, path = rest.partition("/")
        return f"{scheme}{mark}{self._replaced(bucket) if mark else bucket}{slash}{path}"

    def _replaced(self, text: str) -> str:
        pattern = _BETWEEN_SLASHES.fullmatch(self.on)
        if pattern is not None:
            return re.sub(pattern[1], lambda _: self.by, text)
        return text.replace(self.on, self.by)


def set_value_rules(call: Call) -> Reply:
    """Replace the rules that change addresses of a release; return those that went."""
    return _set_rules(call, "value_rules", _value_rule)


def set_object_rules(call: Call) -> Reply:
    """Replace the rules that let a release use connections of this workspace."""
    return _set_rules(call, "object_rules", _object_rule)


def _set_rules(call: Call, attribute: str, check: Callable[[Body], object]) -> Reply:
    deployment = found(call, DEPLOYMENT)
    require_right(call, deployment)
    rules = call.body
    if not isinstance(rules, list) or len(rules) > MOST_RULES:
        raise bad_field("body", f"must be an array of at most {MOST_RULES} rules")
    for rule in rules:
        check(Body(rule))
    deleted = getattr(deployment, attribute)
    call.world.update(deployment, by=call.person.id, **{attribute: tuple(rules)})
    return Reply(body={"deleted": list(deleted)})


def _value_rule(body: Body) -> _ValueRule:
    rule = _ValueRule(
        type=body.text("type", one_of=("fileLocation", "s3Bucket")),
        on=body.text("on", longest=LONGEST_PATTERN),
        by=body.optional_text("with") or "",
    )
    try:
        re.compile(rule.on)
    except re.error as exc:
        raise bad_field("on", f"is no pattern: {exc}") from exc
    return rule


def _object_rule(body: Body) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return which connections of a package a rule means, and which of this workspace's it puts."""
    body.text("tableName", one_of=("connections",))
    return _condition(body.object("onCondition")), _condition(body.object("withCondition"))


def _condition(body: Body) -> dict[str, Json]:
    return {name: body.raw(name) for name in body.names()}


def _fits(connection: Connection, condition: dict[str, Json]) -> bool:
    names = {"id", "uuid", "name", "vendor"}
    return bool(condition) and all(
        name in names and str(getattr(connection, name)) == str(value)
        for name, value in condition.items()
    )


def create_release(call: Call) -> Reply:
    """Import a flow as the active release, after the deployment's rules have changed it."""
    deployment = found(call, DEPLOYMENT)
    require_right(call, deployment)
    arrivals = arrivals_in(call, PackageKind.FLOW)
    changes = {
        "object": _replaced_connections(call, deployment, arrivals),
        "value": _changed_values(deployment, (*arrivals.used, *arrivals.parts)),
    }
    imported, body = import_arrivals(call, arrivals)
    for release in _releases(call, deployment):
        call.world.update(release, active=False)
    flow_id = imported.roots[0].id
    made = call.world.create(
        Release, by=call.person.id, deployment_id=deployment.id, flow_id=flow_id
    )
    release_shown = {"id": made.id, "active": True, "flow": {"id": flow_id}}
    answer = {**body, "importRuleChanges": changes, "release": release_shown}
    return Reply(status=status_of(call.operation), body=answer)


def _releases(call: Call, deployment: Deployment) -> list[Release]:
    return [row for row in call.world.shelf(Release).live() if row.deployment_id == deployment.id]


def _replaced_connections(call: Call, deployment: Deployment, arrivals: Arrivals) -> list[Json]:
    changes: list[Json] = []
    for rule in deployment.object_rules:
        condition, wanted = _object_rule(Body(dict(rule)))
        for arrived in arrivals.used:
            if not isinstance(arrived, Connection) or not _fits(arrived, condition):
                continue
            here = next((row for row in call.world.connections.live() if _fits(row, wanted)), None)
            if here is None:
                raise bad_field("data", "needs a connection that a rule names and is not here")
            changes.append({"tableName": "connections", "from": arrived.uuid, "to": here.uuid})
            arrived.uuid = here.uuid  # which makes it this workspace's own
    return changes


def _changed_values(deployment: Deployment, records: Iterable[Record]) -> list[Json]:
    rules = [_value_rule(Body(dict(rule))) for rule in deployment.value_rules]
    changes: list[Json] = []
    for record, (kind, attribute), rule in itertools.product(records, _ADDRESSES, rules):
        before = getattr(record, attribute) if isinstance(record, kind) else None
        if before is not None and (after := rule.change(before)) != before:
            setattr(record, attribute, after)
            changes.append({"type": rule.type, "from": before, "to": after})
    return changes


def list_releases(call: Call) -> Reply:
    """List the releases of a deployment, newest first."""
    rows = reversed(_releases(call, found(call, DEPLOYMENT)))
    return call.list(RELEASE.plural, rows, filter_fields=("id",))


def run_deployment(call: Call) -> Reply:
    """Run the flow of the active release."""
    deployment = found(call, DEPLOYMENT)
    active = next((row for row in _releases(call, deployment) if row.active), None)
    flow = None if active is None else call.world.flows.get(active.flow_id)
    if flow is None:
        raise validation_failed('"id" names a deployment without an active release')
    return start_flow(call, flow)


HANDLERS: Handlers = {
    **crud(DEPLOYMENT, among=UNLISTED),
    "patchValueImportRules": set_value_rules,
    "patchObjectImportRules": set_object_rules,
    "createRelease": create_release,
    "listReleases": list_releases,
    "runDeployment": run_deployment,
}
