"""Find the rules that match an event or a subject without matching every rule.

An index holds each rule by one literal part of its most selective field. A lookup finds what may
match, by exact words, by prefixes and by other parts of the words, and only those candidates are
matched completely. So the cost grows with the rules that match, not with all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from monitor.alerting.rules.contract import AnyRuleDefinition, SubjectKind
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alert_texts import check_template
from monitor.model.events import EventType
from monitor.model.globs import Globs, parse_globs
from monitor.model.mute_windows import MuteWindow, parse_mute_window


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


_DISABLED = "it is disabled"
# From the most selective to the least: few things share a pipeline, many a workspace.
_BY_SELECTIVITY = ("pipeline", "folder", "owner", "workspace", "trigger", "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, parsed. Two are equal where their settings are."""

    settings: RuleSettings
    definition: AnyRuleDefinition = field(compare=False)
    mute: tuple[MuteWindow, ...] = field(compare=False)
    globs: Mapping[str, Globs] = field(compare=False)  # by the fields of ``match``

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
        return all(self.fits(name, traits) for name in self.globs)

    def fits(self, name: str, traits: Traits) -> bool:
        """True where one field of ``match`` fits, is not set, or does not apply."""
        globs, words = self.globs.get(name), traits.of(name)
        return globs is None or words is None or globs.match(words)

    def why_not(self, traits: Traits) -> str | None:
        """Return the first field of ``match`` that does not fit, as a sentence; None if all do.

        A disabled rule applies to nothing.
        """
        for name, globs in self.globs.items():
            if not self.fits(name, traits):
                return f"{name}: {globs.why_not(traits.of(name) or ())}"
        return None if self.settings.is_enabled else _DISABLED


class Compiled:
    """The enabled rules of a configuration, parsed, and found by what they match.

    ``disabled`` are the others, for explanations alone.
    """

    def __init__(
        self,
        settings: Iterable[RuleSettings],
        definitions: Mapping[RuleKind, AnyRuleDefinition] = RULE_DEFINITIONS,
    ) -> None:
        """Parse the globs, templates and mute times of all rules.

        Raises:
            ConfigurationError: one of them is invalid; `config` refuses it.
        """
        parsed = [_parsed(rule, definitions[rule.rule]) for rule in settings]
        self.rules = tuple(rule for rule in parsed if rule.settings.is_enabled)
        self.disabled = tuple(rule for rule in parsed if not rule.settings.is_enabled)
        self._by_event: defaultdict[EventType, _Index] = defaultdict(_Index)
        self._by_state: defaultdict[SubjectKind, _Index] = defaultdict(_Index)
        for number, rule in enumerate(self.rules):
            for event_type in rule.definition.event_types:
                self._by_event[event_type].add(number, rule)
            if rule.definition.evaluate is not None:
                self._by_state[rule.definition.subject_kind].add(number, rule)

    def rules_for_event(self, event_type: EventType, traits: Traits) -> tuple[Rule, ...]:
        """Return the rules that handle an event of that type, in the order of their file."""
        return self._by_event[event_type].matching(traits)

    def rules_for_state(self, subject_kind: SubjectKind, traits: Traits) -> tuple[Rule, ...]:
        """Return the rules that evaluate a subject, in the order of their file."""
        return self._by_state[subject_kind].matching(traits)

    def candidates(self, event_type: EventType, traits: Traits) -> list[Rule]:
        """Return the rules that are matched with an event of that type, whether or not they do."""
        return self._by_event[event_type].candidates(traits)


def _parsed(settings: RuleSettings, definition: AnyRuleDefinition) -> Rule:
    for text in settings.annotations.values():
        check_template(text, definition.annotation_fields)
    return Rule(
        settings=settings,
        definition=definition,
        mute=tuple(parse_mute_window(text, settings.days_off) for text in settings.mute),
        globs={
            name: parse_globs(globs)
            for name in Match.__struct_fields__
            if (globs := getattr(settings.match, name))
        },
    )


# A run of characters that is matched as it stands. ``[`` without its ``]`` is such a character.
_WILD = re.compile(r"\[!?+\]?+[^\]]*+\]|[*?]")
_LONGEST_PART = 32  # of a word that is looked up from every position of it

_Numbers = defaultdict[str, list[int]]  # of rules, by literal text


class _Index:
    """Rules for one type of event or kind of subject, by field and by what is literal in it."""

    def __init__(self) -> None:
        self._fields: dict[str, _FieldIndex] = {}
        self._always: list[int] = []
        self._rules: dict[int, Rule] = {}
        self._all: list[Rule] = []

    def add(self, number: int, rule: Rule) -> None:
        self._rules[number] = rule
        self._all.append(rule)
        for name in _BY_SELECTIVITY:
            globs = rule.globs[name].included if name in rule.globs else ()
            # A glob without a literal part fits anything.
            if globs and all(any(_WILD.split(glob)) for glob in globs):
                index = self._fields.setdefault(name, _FieldIndex())
                for glob in globs:
                    index.add(glob, number)
                return
        self._always.append(number)

    def matching(self, traits: Traits) -> tuple[Rule, ...]:
        return tuple(
            candidate for candidate in self.candidates(traits) if candidate.matches(traits)
        )

    def candidates(self, traits: Traits) -> list[Rule]:
        """Return all rules that match and few others."""
        if not self._fields:
            return self._all
        found = set(self._always)
        for name, index in self._fields.items():
            found.update(index.candidates(traits.of(name)))
        return [self._rules[number] for number in sorted(found)]


class _FieldIndex:
    """Numbers of rules by a literal text of a glob; texts that are parts by their length, too."""

    def __init__(self) -> None:
        self._all: set[int] = set()
        self._words = _Numbers(list)
        self._prefixes: defaultdict[int, _Numbers] = defaultdict(lambda: _Numbers(list))
        self._inside: defaultdict[int, _Numbers] = defaultdict(lambda: _Numbers(list))

    def add(self, glob: str, number: int) -> None:
        self._all.add(number)
        first, *_ = parts = _WILD.split(glob)
        if first == glob:
            self._words[glob].append(number)
        elif first:
            self._prefixes[len(first)][first].append(number)
        else:
            part = max(parts, key=len)[:_LONGEST_PART]
            self._inside[len(part)][part].append(number)

    def candidates(self, words: tuple[str, ...] | None) -> Iterator[int]:
        if words is None:
            yield from self._all
            return
        for word in words:
            yield from self._words.get(word, ())
            for length, numbers in self._prefixes.items():
                yield from numbers.get(word[:length], ())
            for length, numbers in self._inside.items():
                for start in range(len(word) - length + 1):
                    yield from numbers.get(word[start : start + length], ())
