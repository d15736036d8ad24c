"""What one person owns becomes another's."""

from __future__ import annotations

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.errors import bad_field, forbidden, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.records.objects import (
    Flow,
    Person,
    Plan,
    PlanSnapshot,
    Record,
    ScheduleHistory,
    Token,
)
from monitor.sandbox.world.records.parts import (
    AwsConfig,
    AwsRole,
    DataflowOptions,
    WorkspaceSetting,
)
from monitor.sandbox.world.records.runs import FlowRun, Job, JobGroup, PlanSnapshotRun, PlanTaskRun
from monitor.sandbox.world.shelves import World

# People are nobody's, history keeps who it was, and access stays with its person.
STAYS: frozenset[type[Record]] = frozenset(
    {
        *(Person, Token, AwsConfig, AwsRole, DataflowOptions, WorkspaceSetting),
        *(PlanSnapshot, ScheduleHistory, FlowRun, Job, JobGroup, PlanSnapshotRun, PlanTaskRun),
    }
)


def transfer_assets(call: Call) -> Reply:
    """Give all assets of one person to another, schedules among them; runs and tokens stay."""
    if not call.person.is_admin:
        raise forbidden("Only an administrator may transfer assets")
    body = Body(call.body)
    giver = _person(call.world, body, "from")
    receiver = _person(call.world, body, "to")
    if giver is receiver:
        raise validation_failed('"toPersonId" must be another person than "fromPersonId"')
    if receiver.is_disabled:
        raise bad_field(_name_of(body, "to"), "names somebody whose account is disabled")
    give(call.world, giver, receiver, by=call.person)
    call.engine.schedules_changed()
    return NO_CONTENT


def give(world: World, giver: Person, receiver: Person, *, by: Person) -> None:
    """Make ``receiver`` the owner of all assets of ``giver``, deleted ones too."""
    for kind in world.kinds():
        if kind in STAYS:
            continue
        for other_kind in world.shelf(kind):
            if other_kind.creator_id == giver.id:
                other_kind.creator_id = receiver.id
                _notify(world, other_kind, receiver, by=by)


def _notify(world: World, record: Record, receiver: Person, *, by: Person) -> None:
    """Note who moved an asset; what is shared with its own owner is not shared with them."""
    if record.deleted_at is not None:
        return
    if isinstance(record, Flow | Plan):
        own = {receiver.id}
        world.update(
            record, by=by.id, shared_with=record.shared_with - own, read_only=record.read_only - own
        )
    else:
        world.update(record, by=by.id)


def _person(world: World, body: Body, end: str) -> Person:
    """Return whom ``fromPersonId`` or ``fromEmail`` names, or the same with ``to``.

    Raises:
        ApiError: 400, naming the field.
    """
    name = _name_of(body, end)
    if name.endswith("Email"):
        email = body.text(name).casefold()
        found = next(
            (person for person in world.people.live() if person.email.casefold() == email), None
        )
    else:
        found = world.people.get(body.integer(name))
    if found is None:
        raise bad_field(name, "names nobody in this workspace")
    return found


def _name_of(body: Body, end: str) -> str:
    email = f"{end}Email"
    return email if body.has(email) and not body.has(f"{end}PersonId") else f"{end}PersonId"


HANDLERS: Handlers = {"transferUserAssetsInCurrentWorkspace": transfer_assets}
