"""Find the rules that match an event or a subject without matching every rule.

An index holds each rule by one literal part of its most selective field. A lookup finds what may
match, by exact words, by prefixes and by other parts of the words, and only those candidates are
matched completely. So the cost grows with the rules that match, not with all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from monitor.alerting.rules.contract import AnyRuleDefinition, SubjectKind
from monitor.alerting.rules.globs import EXCLUDES, Globs, parse_globs
from monitor.alerting.rules.muting import MuteWindow, parse_mute_window
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.rules.templates import Template, parse_template
from monitor.model.events import EventType


class Traits(Struct, frozen=True, kw_only=True, gc=False):
    """What rules match by. None: it does not apply here; "": it is not known."""

    workspace: str | None = None
    kind: str | None = None
    pipeline: str | None = None
    pipeline_id: str | None = None
    folder: str | None = None
    owner: str | None = None
    trigger: str | None = None

    def of(self, name: str) -> tuple[str, ...] | None:
        """Return the words that globs of a field of ``match`` are compared with."""
        if name == "pipeline":
            if self.pipeline is None and self.pipeline_id is None:
                return None
            return (self.pipeline or "", self.pipeline_id or "")
        word: str | None = getattr(self, name)
        return None if word is None else (word,)


_FIELDS = Match.__struct_fields__

# From the most selective to the least: few things share a pipeline, many a workspace.
_BY_SELECTIVITY = ("pipeline", "folder", "owner", "workspace", "trigger", "kind")


class MatchField(Struct, frozen=True, kw_only=True):
    """One field of ``match``."""

    name: str
    globs: Globs

    def matches(self, traits: Traits) -> bool:
        words = traits.of(self.name)
        return words is None or self.globs.match(words)

    def why_not(self, traits: Traits) -> str:
        """Return why the traits do not fit; call only where they do not."""
        # The repr of a kind or trigger is that of an enum, which nobody has written.
        words = [str(word) for word in traits.of(self.name) or () if word]
        known = " and ".join(repr(word) for word in words) or "not known"
        excluding = [
            glob for glob in self.globs.excluded if not parse_globs([f"!{glob}"]).match(words)
        ]
        if excluding:
            return f"{self.name}: {known} is excluded by {f'{EXCLUDES}{excluding[0]}'!r}"
        return f"{self.name}: {known} fits none of {', '.join(map(repr, self.globs.included))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, parsed. Two are equal where their settings are."""

    settings: RuleSettings
    definition: AnyRuleDefinition = field(compare=False)
    annotations: Mapping[str, Template] = field(compare=False)
    mute: tuple[MuteWindow, ...] = field(compare=False)
    match_fields: tuple[MatchField, ...] = field(compare=False)

    def __hash__(self) -> int:
        return hash(self.settings.name)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def names_kind(self) -> bool:
        """True where the rule is about runs by themselves, also inside other runs."""
        return bool(self.settings.match.kind)

    def matches(self, traits: Traits) -> bool:
        return all(field.matches(traits) for field in self.match_fields)


def rule_of(settings: RuleSettings, definition: AnyRuleDefinition) -> Rule:
    """Return the rule with its globs, templates and mute times parsed.

    Raises:
        ConfigurationError: a glob, a template or a mute time is invalid; `config` refuses it.
    """
    fields = definition.annotation_fields
    return Rule(
        settings=settings,
        definition=definition,
        annotations={
            name: parse_template(text, fields) for name, text in settings.annotations.items()
        },
        mute=tuple(parse_mute_window(text) for text in settings.mute),
        match_fields=tuple(
            MatchField(name=name, globs=parse_globs(globs))
            for name in _FIELDS
            if (globs := getattr(settings.match, name))
        ),
    )


class Compiled:
    """All rules of a configuration, found by what they match."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_event: defaultdict[EventType, _Index] = defaultdict(_Index)
        self._by_state: defaultdict[SubjectKind, _Index] = defaultdict(_Index)
        for number, rule in enumerate(self.rules):
            for event_type in rule.definition.event_types:
                self._by_event[event_type].add(number, rule)
            if rule.definition.evaluate is not None:
                self._by_state[rule.definition.subject_kind].add(number, rule)

    @classmethod
    def of(
        cls,
        settings: Iterable[RuleSettings],
        definitions: Mapping[RuleKind, AnyRuleDefinition] = RULE_DEFINITIONS,
    ) -> Compiled:
        """Return the rules that are enabled.

        Raises:
            ConfigurationError: see `rule_of`.
        """
        return cls(
            rule_of(setting, definitions[setting.rule])
            for setting in settings
            if setting.is_enabled
        )

    def rules_for_event(self, event_type: EventType, traits: Traits) -> tuple[Rule, ...]:
        """Return the rules that handle an event of that type, in the order of their file."""
        index = self._by_event.get(event_type)
        return () if index is None else index.matching(traits)

    def rules_for_state(self, subject_kind: SubjectKind, traits: Traits) -> tuple[Rule, ...]:
        """Return the rules that evaluate a subject, in the order of their file."""
        index = self._by_state.get(subject_kind)
        return () if index is None else index.matching(traits)

    def candidates(self, event_type: EventType, traits: Traits) -> list[Rule]:
        """Return the rules that are matched with an event of that type, whether or not they do."""
        index = self._by_event.get(event_type)
        return [] if index is None else index.candidates(traits)

    def why_not(self, rule: Rule, traits: Traits) -> str | None:
        """Return the first field of ``match`` that does not fit, as a sentence; None if all do."""
        for match_field in rule.match_fields:
            if not match_field.matches(traits):
                return match_field.why_not(traits)
        return None


# A run of characters that is matched as it stands. ``[`` without its ``]`` is such a character.
_WILD = re.compile(r"\[!?+\]?+[^\]]*+\]|[*?]")
_LONGEST_PART = 32  # of a word that is looked up from every position of it


class _Index:
    """Rules for one type of event or kind of subject, by field and by what is literal in it."""

    def __init__(self) -> None:
        self._fields = {name: _FieldIndex() for name in _BY_SELECTIVITY}
        self._always: list[int] = []
        self._rules: dict[int, Rule] = {}

    def add(self, number: int, rule: Rule) -> None:
        self._rules[number] = rule
        included = {field.name: field.globs.included for field in rule.match_fields}
        for name in _BY_SELECTIVITY:
            globs = included.get(name, ())
            if globs and all(_parts(glob) for glob in globs):
                for glob in globs:
                    self._fields[name].add(glob, number)
                return
        self._always.append(number)

    def matching(self, traits: Traits) -> tuple[Rule, ...]:
        return tuple(
            candidate for candidate in self.candidates(traits) if candidate.matches(traits)
        )

    def candidates(self, traits: Traits) -> list[Rule]:
        """Return all rules that match and few others."""
        found = set(self._always)
        for name, index in self._fields.items():
            if index.is_used:
                found.update(index.candidates(traits.of(name)))
        return [self._rules[number] for number in sorted(found)]


class _FieldIndex:
    """The rules that the globs of one field select."""

    def __init__(self) -> None:
        self.is_used = False
        self._all: set[int] = set()
        self._exact = _TextIndex()
        self._prefixes = _TextIndex()
        self._inside = _TextIndex()

    def add(self, glob: str, number: int) -> None:
        self.is_used = True
        self._all.add(number)
        first, *_ = parts = _WILD.split(glob)
        if first == glob:
            self._exact.add(glob, number)
        elif first:
            self._prefixes.add(first, number)
        else:
            self._inside.add(max(parts, key=len)[:_LONGEST_PART], number)

    def candidates(self, words: tuple[str, ...] | None) -> Iterator[int]:
        if words is None:
            yield from self._all
            return
        for word in words:
            yield from self._exact.get(word)
            for length in self._prefixes.lengths:
                yield from self._prefixes.get(word[:length])
            for length in self._inside.lengths:
                for start in range(len(word) - length + 1):
                    yield from self._inside.get(word[start : start + length])


class _TextIndex:
    """Numbers of rules by a literal text, and how long these texts are."""

    def __init__(self) -> None:
        self.lengths: set[int] = set()
        self._numbers: dict[Hashable, list[int]] = {}

    def add(self, text: str, number: int) -> None:
        self.lengths.add(len(text))
        self._numbers.setdefault(text, []).append(number)

    def get(self, text: str) -> list[int]:
        return self._numbers.get(text, _NONE)


_NONE: list[int] = []


def _parts(glob: str) -> list[str]:
    """Return the literal parts of a glob; none for one that fits anything."""
    return [part for part in _WILD.split(glob) if part]
