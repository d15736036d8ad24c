"""What names something names what is there, however data, recipes and flows come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from monitor.sandbox.api.data.recipes import INPUTS, primary_of
from monitor.sandbox.api.resources import RESOURCES
from monitor.sandbox.api.response.kinds import OnDelete
from monitor.sandbox.world.lineage import builds_upon, inputs_of
from monitor.sandbox.world.records.objects import Connection, Flow, ImportedDataset, Recipe, Record
from monitor.sandbox.world.records.parts import DatasetNode, ReferenceNode
from tests.examples import examples
from tests.sandbox.http_workspace import ADMIN_TOKEN, Answer, Workspace, open_workspace

PICKS = st.integers(min_value=0, max_value=1_000)
SOURCES = st.sampled_from([ImportedDataset, Recipe, ReferenceNode])
PATHS: dict[type[Record], str] = {
    Connection: "connections",
    ImportedDataset: "importedDatasets",
    Recipe: "wrangledDatasets",
    Flow: "flows",
}


class Links(RuleBasedStateMachine):
    """An administrator makes, joins, swaps, copies and deletes."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.workspace: Workspace = self.runner.run(
            self.stack.enter_async_context(open_workspace())
        )
        self.workspace.token = ADMIN_TOKEN

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        # Time passes, so that no quota is met.
        self.runner.run(self.workspace.clock.advance(30))
        answer = self.runner.run(self.workspace.request(method, f"/v4/{path}", body=body))
        assert answer.status in {200, 201, 204, 400, 404}, answer.content
        return answer

    def pick(self, kind: type[Record], number: int) -> int:
        """Return the id of a live record; one that never was where there is none."""
        found = [other_kind.id for other_kind in self.workspace.world.shelf(kind).live()]
        return found[number % len(found)] if found else 999_999

    def input(self, kind: type[Record], number: int) -> dict[str, Any]:
        name = "importedDataset" if kind is ImportedDataset else "wrangledDataset"
        return {name: {"id": self.pick(kind, number)}}

    @rule(number=PICKS, is_table=st.booleans())
    def import_data(self, number: int, is_table: bool) -> None:  # noqa: FBT001 - drawn by name
        table = {"connectionId": self.pick(Connection, number), "jdbcTable": "t"}
        place = table if is_table else {"uri": "gs://in/x.csv"}
        self.request("POST", "importedDatasets", {"name": f"d{number}", **place})

    @rule(kind=SOURCES, number=PICKS, flow=PICKS)
    def make_recipe(self, kind: type[Record], number: int, flow: int) -> None:
        body = {"flow": {"id": self.pick(Flow, flow)}, "name": f"r{number}"}
        self.request("POST", "wrangledDatasets", {**body, **self.input(kind, number)})

    @rule(kind=SOURCES, number=PICKS, recipe=PICKS)
    def swap(self, kind: type[Record], number: int, recipe: int) -> None:
        path = f"wrangledDatasets/{self.pick(Recipe, recipe)}/primaryInputDataset"
        self.request("PUT", path, self.input(kind, number))

    @rule(kind=st.sampled_from([ImportedDataset, Recipe]), number=PICKS, flow=PICKS)
    def add_to_flow(self, kind: type[Record], number: int, flow: int) -> None:
        body = {"flow": {"id": self.pick(Flow, flow)}}
        self.request("POST", f"{PATHS[kind]}/{self.pick(kind, number)}/addToFlow", body)

    @rule(number=PICKS, with_data=st.booleans())
    def copy_flow(self, number: int, with_data: bool) -> None:  # noqa: FBT001 - drawn by name
        body = {"name": f"f{number}", "copyDatasources": with_data}
        if len(list(self.workspace.world.flows.live())) < 8:
            self.request("POST", f"flows/{self.pick(Flow, number)}/copy", body)

    @rule(kind=st.sampled_from(list(PATHS)), number=PICKS)
    def delete(self, kind: type[Record], number: int) -> None:
        self.request("DELETE", f"{PATHS[kind]}/{self.pick(kind, number)}")

    def dangling(self) -> Iterator[str]:
        world = self.workspace.world
        for kind in RESOURCES.kinds:
            # Several links of one attribute: its ids are of any of their kinds.
            targets: dict[str, list[type[Record]]] = {}
            for link in kind.references:
                if link.on_delete is not OnDelete.KEEP:
                    targets.setdefault(link.attribute, []).append(link.target)
            for row in world.shelf(kind.record).live():
                for attribute, kinds in targets.items():
                    value = getattr(row, attribute)
                    ids = value if isinstance(value, tuple) else (value,)
                    for id_ in ids:
                        if id_ is not None and not any(world.shelf(k).get(id_) for k in kinds):
                            yield f"{kind.name} {row.id}.{attribute} names {id_}"

    @invariant()
    def every_link_leads_somewhere(self) -> None:
        """Nothing that is there names what is gone, history excepted."""
        assert list(self.dangling()) == []

    @invariant()
    def nothing_builds_upon_itself(self) -> None:
        """What a recipe reads is never made of what it makes."""
        world = self.workspace.world
        for recipe in world.recipes.live():
            upstream = [world.recipes.get(upstream_id_) for upstream_id_ in recipe.upstream_ids]
            assert not any(
                builds_upon(world, upstream_id_, recipe.id)
                for upstream_id_ in upstream
                if upstream_id_
            )

    @invariant()
    def every_link_is_an_input(self) -> None:
        """A dataset in a flow is among its inputs, and a recipe's input is shown as stored."""
        world = self.workspace.world
        for node in world.shelf(DatasetNode).live():
            assert node.dataset_id in {input_.id for input_ in inputs_of(world, node.flow_id)}
        recipe = next(reversed(list(world.recipes.live())), None)
        if recipe is not None:
            path = f"wrangledDatasets/{recipe.id}/primaryInputDataset"
            answer, primary = self.request("GET", path), primary_of(recipe)
            assert (answer.status == 404) is (primary is None)
            if primary is not None:
                ((name, shown),) = answer.body.items()
                assert (INPUTS[name], shown["id"]) == primary


Links.TestCase.settings = settings(
    max_examples=examples(5),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLinks = Links.TestCase
