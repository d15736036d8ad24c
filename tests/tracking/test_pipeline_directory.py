"""Labels tell pipelines of one name apart, whatever the order of changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.model.runs import Pipeline, PipelineKind
from monitor.tracking.pipeline_directory import PipelineDirectory, PipelineId

IDS = st.tuples(
    st.sampled_from(["acme", "other"]),
    st.sampled_from(list(PipelineKind)),
    st.sampled_from(["1", "2", "10", "x"]),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["name", "forget", "leave"]), IDS, st.sampled_from([None, "a", "b"])),
    max_size=30,
)


def labels_of(names: dict[PipelineId, str | None]) -> dict[PipelineId, str]:
    """Return the labels by their definition: of one name, the lowest number keeps it."""
    labels: dict[PipelineId, str] = {}
    taken: set[tuple[str, str, str]] = set()
    numbered = {"1": 1, "2": 2, "10": 10, "x": 0}
    for identity in sorted(names, key=lambda known: (known[0], known[1], numbered[known[2]])):
        workspace, kind, pipeline_id = identity
        name = names[identity]
        if name is None:
            labels[identity] = f"#{pipeline_id}"
        elif (workspace, kind, name) in taken:
            labels[identity] = f"{name}#{pipeline_id}"
        else:
            labels[identity] = name
            taken.add((workspace, kind, name))
    return labels


@given(steps=STEPS)
def test_labels_are_those_of_the_present_names(
    steps: list[tuple[str, PipelineId, str | None]],
) -> None:
    """After any names, renames and deletions each label follows from the names that there are."""
    names, present = PipelineDirectory(), dict[PipelineId, str | None]()
    for what, identity, name in steps:
        if what == "name":
            names.name(identity, name)
            if name is not None or identity not in present:
                present[identity] = name
        elif what == "forget":
            names.forget(identity)
            present.pop(identity, None)
        else:
            names.forget_workspace(identity[0])
            present = {key: name for key, name in present.items() if key[0] != identity[0]}
    expected = labels_of(present)

    assert {(known.workspace, known.kind, known.id): known.label for known in names.all()} == (
        expected
    )
    for (workspace, kind, pipeline_id), label in expected.items():
        assert names.label(workspace, Pipeline(kind=kind, id=pipeline_id)) == label
    for workspace in ("acme", "other"):
        named = [(kind, name) for (in_, kind, _), name in present.items() if in_ == workspace]
        assert names.shared(workspace) == tuple(
            sorted(
                (kind, pipeline_id, name)
                for (named_in, kind, pipeline_id), name in present.items()
                if named_in == workspace and name is not None and named.count((kind, name)) > 1
            )
        )


def test_a_new_name_among_many_costs_little() -> None:
    """One more pipeline among ten thousand changes at most two rows, also of the same name."""
    names = PipelineDirectory()
    for number in range(10_000):
        names.name(("acme", PipelineKind.FLOW, str(number + 1)), f"flow {number % 100}")
    rows = names.all()
    before = {id(known) for known in rows}
    names.name(("acme", PipelineKind.FLOW, "0"), "flow 7")
    new = [known for known in names.all() if id(known) not in before]

    assert len(rows) == 10_000
    assert sorted(known.label for known in new) == ["flow 7", "flow 7#8"]
