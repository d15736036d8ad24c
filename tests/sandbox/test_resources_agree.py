"""Counts, lists and reads agree at all times, whatever two people do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    Record,
    Schedule,
)
from monitor.sandbox.world.records.parts import Folder
from tests.examples import examples
from tests.sandbox.agreeing import SHAPES, SHARED, Expected, Thing, tally
from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    OWNER_TOKEN,
    Answer,
    Workspace,
    open_workspace,
)

KINDS = list(SHAPES)
ROLES = ("collaborator", "readOnly")
PAGE = 3
MOST_COPIES = 3  # of one run, which is to do other things too
LARGE = {"limit": "1000", "includeCount": "true"}
PEOPLE = st.sampled_from([0, 1])  # the owner and the colleague
PICKS = st.integers(min_value=0, max_value=1_000)


class Agreement(RuleBasedStateMachine):
    """Two people create, change, copy, export, import, share and delete, and an administrator."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.workspace: Workspace = self.runner.run(
            self.stack.enter_async_context(open_workspace())
        )
        things = self.workspace.things
        self.people = (things.owner.id, things.colleague.id)
        self.tokens = dict(zip(self.people, (OWNER_TOKEN, COLLEAGUE_TOKEN), strict=True))
        self.expected = Expected()
        self.touched: set[Thing] = set()
        self.steps = 0
        self.packages: list[tuple[bytes, dict[str, int]]] = []
        self.copies = 0
        self.is_transferred = False

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def request(self, person: int, method: str, path: str, **more: Any) -> Answer:
        token = self.tokens.get(person, ADMIN_TOKEN)
        return self.runner.run(self.workspace.request(method, path, token=token, **more))

    def pick(self, things: Iterable[Thing], number: int) -> Thing | None:
        found = sorted(things, key=lambda thing: (thing.kind.__name__, thing.id))
        return found[number % len(found)] if found else None

    @initialize()
    def begin(self) -> None:
        """Register what the workspace has from the start."""
        self.adopt()

    def adopt(self) -> set[Thing]:
        """Register everything that is new in the world, and return it."""
        found: set[Thing] = set()
        for kind, shape in SHAPES.items():
            for record in self.workspace.world.shelf(kind).live():
                if (kind, record.id) in self.expected.things:
                    continue
                parent_id = getattr(record, shape.parent_attribute) if shape.parent else None
                parent = self.expected.things.get((shape.parent or kind, parent_id or 0))
                found.add(
                    self.expected.add(
                        Thing(kind=kind, id=record.id, owner=record.creator_id, parent=parent)
                    )
                )
        for thing in found:
            thing.uses |= set(self.inputs_of(thing))
            made = self.workspace.world.shelf(thing.kind).get(thing.id)
            thing.folder = self.expected.things.get((Folder, getattr(made, "folder_id", 0) or 0))
        return found

    def inputs_of(self, thing: Thing) -> Iterable[Thing]:
        """Return what a record of the world holds."""
        record = self.workspace.world.shelf(thing.kind).get(thing.id)
        named: dict[type[Record], tuple[int, ...]] = {
            ImportedDataset: getattr(record, "dataset_ids", ())
        }
        if (connection_id := getattr(record, "connection_id", None)) is not None:
            named[Connection] = (connection_id,)
        for kind, ids in named.items():
            yield from (self.expected.things[kind, id_] for id_ in ids)

    @rule(person=PEOPLE, kind=st.sampled_from(KINDS), number=PICKS)
    def create(self, person: int, kind: type[Record], number: int) -> None:
        """Make something of what the person may use."""
        who, shape = self.people[person], SHAPES[kind]
        parent = None
        if shape.parent is not None:
            usable = (
                item
                for item in self.expected.live(shape.parent)
                if self.expected.may_change(who, item)
            )
            parent = self.pick(usable, number)
            if parent is None:
                return
        inputs: dict[type[Record], Thing] = {}
        for needed in shape.needs:
            visible = (
                other_needed
                for other_needed in self.expected.live(needed)
                if self.expected.sees(who, other_needed)
            )
            source = self.pick(visible, number)
            if source is None or (kind is Schedule and source.owner != who):
                return
            inputs[needed] = source
        answer = self.request(
            who, "POST", shape.path, body=shape.make(f"n{self.steps}", parent, inputs)
        )
        assert answer.status == 201, (kind, answer.content)
        made = Thing(
            kind=kind, id=answer.body["id"], owner=who, parent=parent, uses=set(inputs.values())
        )
        self.touched = {self.expected.add(made)}

    @rule(person=PEOPLE, kind=st.sampled_from(KINDS), number=PICKS)
    def change(self, person: int, kind: type[Record], number: int) -> None:
        """Change something; only those may who own or share what it is part of."""
        who, shape = self.people[person], SHAPES[kind]
        thing = self.pick(self.expected.live(kind), number)
        if thing is None or not shape.change:
            return
        body: Any = {shape.changed_field: f"n{self.steps}"}
        answer = self.request(who, shape.change, f"{shape.path}/{thing.id}", body=body)
        expected = 200 if self.expected.may_change(who, thing) else 403
        assert answer.status == expected, (kind, answer.content)
        self.touched = {thing}

    @rule(person=PEOPLE, kind=st.sampled_from(KINDS), number=PICKS)
    def delete(self, person: int, kind: type[Record], number: int) -> None:
        """Delete something with its parts, unless something that stays holds it."""
        who, shape = self.people[person], SHAPES[kind]
        thing = self.pick(self.expected.live(kind), number)
        if thing is None:
            return
        answer = self.request(who, "DELETE", f"{shape.path}/{thing.id}")
        if not self.expected.may_change(who, thing):
            assert answer.status == 403, (kind, answer.content)
        elif self.expected.is_referenced(thing):
            assert answer.is_refused(400, "ValidationFailed", "is used by")
        else:
            assert answer.status == 204, (kind, answer.content)
            self.touched = self.expected.delete(thing)

    @rule(person=PEOPLE, number=PICKS)
    def file(self, person: int, number: int) -> None:
        """Put a flow of the person's own into one of their folders."""
        who = self.people[person]
        flow = self.pick(
            (flow for flow in self.expected.live(Flow) if flow.owner == who),
            number,
        )
        folders = (
            other_folder for other_folder in self.expected.live(Folder) if other_folder.owner == who
        )
        folder = self.pick(folders, number)
        if flow is None or folder is None:
            return
        body = {"folderId": folder.id}
        answer = self.request(who, "PATCH", f"/v4/flows/{flow.id}", body=body)
        assert answer.status == 200, answer.content
        flow.folder = folder

    @rule(kind=st.sampled_from(SHARED), role=st.sampled_from(ROLES), number=PICKS)
    def share(self, kind: type[Record], role: str, number: int) -> None:
        """Share something with the other person, to edit or to read."""
        thing = self.pick(self.expected.live(kind), number)
        if thing is None:
            return
        (other,) = set(self.people) - {thing.owner}
        body = {"data": [{"personId": other, "role": role}]}
        path = f"{SHAPES[kind].path}/{thing.id}/permissions"
        answer = self.request(thing.owner, "POST", path, body=body)
        assert answer.status == 201, answer.content
        thing.shared_with.add(other)
        thing.read_only = {other} if role == "readOnly" else set()

    @rule(person=PEOPLE, number=PICKS)
    @precondition(lambda self: self.copies < MOST_COPIES)
    def copy(self, person: int, number: int) -> None:
        """Copy a flow: nothing is lost, and the copy belongs to the person alone."""
        who = self.people[person]
        visible = (flow for flow in self.expected.live(Flow) if self.expected.sees(who, flow))
        flow = self.pick(visible, number)
        if flow is None:
            return
        self.copies += 1
        before = tally(self.expected.parts_of(flow))
        answer = self.request(who, "POST", f"/v4/flows/{flow.id}/copy", body={"name": "copy"})
        assert answer.status == 201, answer.content
        self.touched = self.adopt()
        made = self.expected.things[Flow, answer.body["id"]]
        assert tally(self.expected.parts_of(made)) == before == tally(self.touched)
        assert {item.owner for item in self.touched} == {who}

    @rule(person=PEOPLE, number=PICKS)
    def export(self, person: int, number: int) -> None:
        """Keep the package of a flow that the person sees."""
        who = self.people[person]
        visible = (flow for flow in self.expected.live(Flow) if self.expected.sees(who, flow))
        flow = self.pick(visible, number)
        if flow is None:
            return
        answer = self.request(who, "GET", f"/v4/flows/{flow.id}/package")
        assert answer.status == 200, answer.content
        self.packages.append((answer.content, tally(self.expected.parts_of(flow))))
        self.touched = set()

    @rule(person=PEOPLE, is_dry=st.booleans(), number=PICKS)
    @precondition(lambda self: self.packages)
    def import_package(self, person: int, *, is_dry: bool, number: int) -> None:
        """Import a package: all parts of the flow are there again; a dry run makes nothing."""
        who = self.people[person]
        content, parts = self.packages[number % len(self.packages)]
        path = "/v4/flows/package/dryRun" if is_dry else "/v4/flows/package"
        zipped = {"Content-Type": "application/zip"}
        answer = self.request(who, "POST", path, content=content, headers=zipped)
        assert answer.status == (200 if is_dry else 201), answer.content
        self.touched = self.adopt()
        if is_dry:
            assert not self.touched
            return
        made = tally(self.touched)
        assert {name: made.get(name, 0) for name in parts} == parts
        assert {item.owner for item in self.touched} == {who}

    @rule(person=PEOPLE)
    @precondition(lambda self: not self.is_transferred)
    def transfer(self, person: int) -> None:
        """Let an administrator give everything of one person to the other."""
        giver, receiver = self.people[person], self.people[1 - person]
        body = {"fromPersonId": giver, "toPersonId": receiver}
        answer = self.request(0, "PATCH", "/v4/workspaces/current/transfer", body=body)
        assert answer.status == 204, answer.content
        self.expected.transfer(giver, receiver)
        self.is_transferred = True  # once is enough: a second time leaves little to do
        self.touched = set()

    @invariant()
    def lists_and_counts_agree(self) -> None:
        """Each person's lists and counts are what exists and what they see."""
        self.steps += 1
        self.runner.run(self.workspace.clock.advance(1))
        for person in self.people:
            for kind in KINDS:
                self.check_list(person, kind)
        for folder in self.expected.live(Folder):
            self.check_folder(folder)
        self.check_pages(self.people[self.steps % 2], KINDS[self.steps % len(KINDS)])

    def check_list(self, person: int, kind: type[Record]) -> None:
        shape, expected = SHAPES[kind], self.expected.listed(kind, person)
        answer = self.request(person, "GET", shape.list_path, query={**shape.widened, **LARGE})
        assert sorted(answer.ids) == sorted(expected), (kind, answer.ids)
        assert shape.count_in(answer.body) == len(expected), kind
        if shape.is_counted:
            count = self.request(person, "GET", f"{shape.list_path}/count", query=shape.widened)
            assert shape.count_in(count.body) == len(expected), kind

        if kind in SHARED:
            own = self.request(person, "GET", shape.list_path, query=LARGE)
            assert set(own.ids) == self.expected.owned(kind, person), kind

    def check_folder(self, folder: Thing) -> None:
        path = f"/v4/folders/{folder.id}/flows"
        query = {"flowsFilter": "all"}
        flows = self.request(folder.owner, "GET", path, query=query | LARGE)
        count = self.request(folder.owner, "GET", f"{path}/count", query=query)
        assert set(flows.ids) == self.expected.filed(folder)
        assert count.body["count"] == flows.body["count"] == len(flows.ids)

    def check_pages(self, person: int, kind: type[Record]) -> None:
        shape, found = SHAPES[kind], list[int]()
        while True:
            query = {**shape.widened, "limit": str(PAGE), "offset": str(len(found))}
            ids = self.request(person, "GET", shape.list_path, query=query).ids
            found += ids
            if len(ids) < PAGE:
                break
        assert sorted(found) == sorted(self.expected.listed(kind, person)), kind

    @invariant()
    def reads_agree(self) -> None:
        """What was touched is read as it is, or is no longer there."""
        for thing in self.touched:
            shape = SHAPES[thing.kind]
            path = f"{shape.path}/{thing.id}{shape.read}"
            answer = self.request(thing.owner, "GET", path)
            if thing.is_deleted:
                assert answer.is_refused(404, "DataNotFoundException", str(thing.id))
            else:
                assert answer.status == 200, answer.content
                assert answer.body["id"] == thing.id
            if thing.is_deleted and shape.shows_deleted:
                shown = self.request(thing.owner, "GET", path, query={"includeDeleted": "true"})
                assert shown.body["id"] == thing.id


Agreement.TestCase.settings = settings(
    max_examples=examples(5),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAgreement = Agreement.TestCase
