"""Rules are found by what they match, and only those that match are found."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from monitor.alerting.rules.compiled import Compiled, Rule, Traits
from monitor.alerting.rules.contract import (
    EventInput,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
)
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.model.errors import ConfigurationError
from monitor.model.events import EventType
from monitor.model.runs import RunKind

FIELDS = Match.__struct_fields__


class Nothing(Struct, frozen=True):
    """A memory of nothing."""


def on_event(_: EventInput, memory: Nothing | None, __: RuleSettings) -> RuleAnswer[Nothing]:
    return RuleAnswer(result=None, memory=memory)


def evaluate(_: StateInput[None], memory: Nothing | None, __: RuleSettings) -> RuleAnswer[Nothing]:
    return RuleAnswer(result=None, memory=memory)


HEARING: RuleDefinition[Nothing, None] = RuleDefinition(
    rule=RuleKind.RUN_FAILED,
    subject_kind=SubjectKind.PIPELINE,
    memory=Nothing,
    event_types=(EventType.RUN_FAILED,),
    on_event=on_event,
)
LOOKING = RuleDefinition(
    rule=RuleKind.NOT_FRESH, subject_kind=SubjectKind.PIPELINE, memory=Nothing, evaluate=evaluate
)
RULE_DEFINITIONS = {RuleKind.RUN_FAILED: HEARING, RuleKind.NOT_FRESH: LOOKING}


def rule(name: str, match: Match, kind: RuleKind = RuleKind.RUN_FAILED) -> RuleSettings:
    return RuleSettings(name=name, rule=kind, match=match)


def compiled(*rules: RuleSettings) -> Compiled:
    return Compiled(rules, RULE_DEFINITIONS)


def names(rules: tuple[Rule, ...]) -> list[str]:
    return [rule.name for rule in rules]


def fits(words: list[str | None], glob: str) -> bool:
    return any(fnmatch.fnmatchcase(word or "", glob) for word in words)


def is_naive_match(match: Match, traits: Traits) -> bool:
    """Hold every field against every glob, as the documentation says it."""
    for name in FIELDS:
        globs = getattr(match, name)
        if not globs:
            continue
        words = [getattr(traits, name)]
        if name == "pipeline":
            words.append(traits.pipeline_id)
        if all(word is None for word in words):
            continue
        if any(fits(words, glob[1:]) for glob in globs if glob.startswith("!")):
            return False
        wanted = [glob for glob in globs if not glob.startswith("!")]
        if wanted and not any(fits(words, glob) for glob in wanted):
            return False
    return True


# Few letters, so that what is drawn for a glob and for a word often meets.
WORDS = st.text("abA1[]!-é\n", max_size=6)
GLOBS = st.text("abA1[]!-é*?\n", min_size=1, max_size=8).filter(
    lambda glob: not glob.startswith("!") or glob.strip("!*") != ""
)
MATCHES = st.builds(Match, **{name: st.lists(GLOBS, max_size=2).map(tuple) for name in FIELDS})
FEW_FIELDS = st.sampled_from(FIELDS).flatmap(
    lambda name: st.builds(Match, **{name: st.lists(GLOBS, min_size=1, max_size=2).map(tuple)})
)
TRAITS = st.builds(Traits, **{name: st.none() | WORDS for name in Traits.__struct_fields__})


@given(matches=st.lists(FEW_FIELDS | MATCHES, max_size=8), traits=TRAITS)
@example(matches=[Match(pipeline=("[!]",)), Match(pipeline=("[",))], traits=Traits(pipeline="[!]"))
@example(matches=[Match(folder=("a[",))], traits=Traits(folder="a["))
@example(matches=[Match(owner=("*",))], traits=Traits(owner=""))
@example(matches=[Match(pipeline=("*" + "ab" * 40,))], traits=Traits(pipeline="b" + "ab" * 40))
def test_the_index_finds_what_matching_every_rule_would_find(
    matches: list[Match], traits: Traits
) -> None:
    """Whatever the globs are, no match is lost, none is added, and the order of the file stays."""
    rules = [rule(str(number), match) for number, match in enumerate(matches)]
    expected = [candidate.name for candidate in rules if is_naive_match(candidate.match, traits)]

    found = compiled(*rules)

    assert names(found.rules_for_event(EventType.RUN_FAILED, traits)) == expected
    assert found.rules_for_event(EventType.RUN_STARTED, traits) == ()


@given(match=MATCHES, traits=TRAITS)
def test_why_not_names_a_field_that_really_does_not_fit(match: Match, traits: Traits) -> None:
    """There is a reason exactly where the rule does not match, and it is a true one."""
    index = compiled(rule("one", match))
    (only,) = index.rules

    reason = only.why_not(traits)

    assert (reason is None) == is_naive_match(match, traits)
    if reason is not None:
        name = reason.partition(":")[0]
        assert not is_naive_match(Match(**{name: getattr(match, name)}), traits)


def test_why_not_names_glob_and_value() -> None:
    """The sentence can be shown to an operator as it is."""
    index = compiled(rule("sales", Match(workspace=("marketing",), pipeline=("sales*", "12"))))
    (only,) = index.rules
    orders = Traits(workspace="marketing", pipeline="orders", pipeline_id="7")

    assert only.why_not(orders) == ("pipeline: 'orders' and '7' fits none of 'sales*', '12'")
    assert only.why_not(Traits(workspace="")) == ("workspace: not known fits none of 'marketing'")
    index = compiled(rule("plans", Match(kind=("plan_run",))))
    assert index.rules[0].why_not(Traits(kind=RunKind.FLOW_RUN)) == (
        "kind: 'flow_run' fits none of 'plan_run'"
    )


@pytest.mark.parametrize(
    ("globs", "taken"),
    [
        (("!Month end*",), ["Orders", "Sales", "Month begin"]),
        (("Month*", "!Month end*"), ["Month begin"]),
        (("!Orders", "!7"), ["Month begin", "Month end 4"]),
        (("Orders", "!Orders"), []),
    ],
)
def test_a_glob_that_excludes_takes_away(globs: tuple[str, ...], taken: list[str]) -> None:
    """Alone it leaves all others, beside others it leaves the rest of what they take."""
    index = compiled(rule("one", Match(pipeline=globs)))
    ids = {"Orders": "1", "Sales": "7", "Month begin": "3", "Month end 4": "4"}
    found = [
        name
        for name, number in ids.items()
        if index.rules_for_event(EventType.RUN_FAILED, Traits(pipeline=name, pipeline_id=number))
    ]
    assert found == taken


def test_why_not_names_what_excludes() -> None:
    """An operator who forgot an exclusion finds it."""
    index = compiled(rule("one", Match(pipeline=("*", "!Sales", "!Month end*"))))
    (only,) = index.rules

    assert only.why_not(Traits(pipeline="Month end 4", pipeline_id="4")) == (
        "pipeline: 'Month end 4' and '4' is excluded by '!Month end*'"
    )


def test_looks_and_events_have_rules_of_their_own() -> None:
    """A rule that evaluates state gets no events, and one of events is never evaluated by state."""
    index = compiled(rule("hears", Match()), rule("looks", Match(), RuleKind.NOT_FRESH))

    assert names(index.rules_for_event(EventType.RUN_FAILED, Traits())) == ["hears"]
    assert names(index.rules_for_state(SubjectKind.PIPELINE, Traits())) == ["looks"]
    assert index.rules_for_state(SubjectKind.DAEMON, Traits()) == ()


def test_a_rule_that_is_not_enabled_is_not_compiled() -> None:
    """It is not among the rules at all."""
    off = RuleSettings(name="off", rule=RuleKind.RUN_FAILED, is_enabled=False)

    assert compiled(off).rules == ()


def test_a_rule_without_a_kind_is_about_outermost_runs() -> None:
    """Only one that names a kind asks for runs inside others."""
    index = compiled(rule("all", Match()), rule("kind", Match(kind=("job_group",))))

    assert [candidate.names_kind for candidate in index.rules] == [False, True]


def test_a_bad_template_or_mute_time_does_not_compile() -> None:
    """A text that the configuration refuses is refused here too, so that nothing fails later."""
    with pytest.raises(ConfigurationError, match="did you mean pipeline"):
        compiled(
            RuleSettings(name="x", rule=RuleKind.RUN_FAILED, annotations={"summary": "{pipelin}"})
        )
    with pytest.raises(ConfigurationError):
        compiled(RuleSettings(name="x", rule=RuleKind.RUN_FAILED, mute=("Funday UTC",)))


@pytest.mark.parametrize(
    "glob",
    [
        "pipeline {} of sales",
        "pipeline {} *",
        "pipeline {}[ab]*",
        "*line {} of*",
        "?ipeline {} of *",
        "id{}",
    ],
)
def test_a_thousand_rules_for_other_pipelines_are_not_matched(glob: str) -> None:
    """Of a thousand rules whose globs differ only the one that may match is a candidate."""
    rules = [rule(f"r{n}", Match(pipeline=(glob.format(f"{n:04}"),))) for n in range(1_000)]
    index = compiled(*rules)
    traits = Traits(workspace="w", pipeline="pipeline 0123 of sales", pipeline_id="id0123")

    candidates = index.candidates(EventType.RUN_FAILED, traits)

    assert [candidate.name for candidate in candidates] == ["r123"]
