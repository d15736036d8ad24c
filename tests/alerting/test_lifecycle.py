"""The life cycle, row by row: the state, what happens, the transition."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.alerts.instance import AlertInstance, AlertSpan, FingerprintHistory, StepWord
from monitor.model.alerts import AlertState
from tests.alerting.lifecycle_history import NOON, SILENCED, History


def test_it_fires_and_resolves() -> None:
    """`Firing` fires at once, `Ok` resolves, and the end is no earlier than the start."""
    history = History()

    assert history.wrong() == "fired"
    assert history.right(after=60) == "resolved"

    assert history.told.words == ["fired", "resolved"]
    ended = history.told.tellings[-1].alert
    assert (ended.starts_at, ended.ends_at) == (NOON, NOON + timedelta(seconds=60))
    assert history.told.open_start() is None


def test_right_where_nothing_was_wrong_is_nothing() -> None:
    """A success after a success is not notified."""
    history = History()

    assert history.right() == "ok"
    assert (history.held, history.told.words) == (FingerprintHistory(), [])


def test_it_waits_for_its_time() -> None:
    """Below `for_seconds` it is pending and not published; then it fires by time alone."""
    history = History(for_seconds=300)

    assert history.wrong() == "pending"
    assert history.wrong(after=100) == "pending"
    assert history.passes(199) == ""
    assert history.told.words == []
    assert history.passes(1) == "fired"


def test_a_condition_that_passes_before_its_time_publishes_nothing() -> None:
    """Pending and then `Ok`: nothing is ever published."""
    history = History(for_seconds=300)
    history.wrong()

    assert history.right(after=299) == "it ended while it was pending"
    assert history.told.words == []


def test_it_does_not_fire_while_it_is_unknown() -> None:
    """Time passes, but what is known does not go on, or became unclear: no alert."""
    unknown, unclear = History(for_seconds=300), History(for_seconds=300)
    unknown.wrong()
    unclear.wrong()
    unclear.unclear(after=10)

    assert unknown.passes(900, as_of=NOON + timedelta(seconds=299)) == ""
    assert unclear.passes(900) == ""
    assert unclear.wrong() == "fired"


def test_more_of_the_same_is_evidence() -> None:
    """Ten more failures publish nothing; each event is evidence once."""
    history = History()
    history.wrong()

    assert {history.wrong(after=1) for _ in range(60)} == {"deduplicated"}

    assert isinstance(history.held, AlertInstance)
    assert history.told.words == ["fired"]
    assert history.held.alert.evidence_count == 61
    assert history.held.alert.evidence == tuple(f"event-{number}" for number in range(12, 62))


def test_a_silenced_alert_is_published_as_silenced_and_later_fires() -> None:
    """A silence suppresses the notification; when it ends and it is still so, it fires."""
    history = History()
    history.muted_by = SILENCED

    assert history.wrong() == "silenced"
    assert history.passes(60) == ""
    history.muted_by = ()
    assert history.passes(60) == "fired"
    assert history.told.words == ["silenced", "fired"]


def test_a_muted_alert_that_ends_was_never_published() -> None:
    """A mute time suppresses every notification, and no end is owed of what was not begun."""
    history = History()
    history.muted_by = ("mute",)

    assert history.wrong() == "muted"
    assert history.right(after=60) == "it ended before anybody was notified"
    assert history.told.words == []


def test_the_end_is_owed_also_in_silence() -> None:
    """The end of a published alert is published, whatever is silenced meanwhile."""
    history = History()
    history.wrong()
    history.muted_by = SILENCED

    assert history.passes(60) == "silenced"
    assert history.right(after=60) == "resolved"
    assert history.told.words == ["fired", "silenced", "resolved"]


def test_the_end_of_a_silence_reminds() -> None:
    """A silence over a fired alert is published when it starts; when it ends, a reminder is."""
    history = History()
    history.wrong()
    for _ in range(2):
        history.muted_by = SILENCED
        history.passes(60)
        history.muted_by = ()
        history.passes(60)

    assert history.told.words == ["fired", "silenced", "reminded", "silenced", "reminded"]
    assert [telling.number for telling in history.told.tellings] == [0, 1, 1, 2, 2]


def test_it_reminds_in_its_rhythm() -> None:
    """Each `repeat_seconds` once, also when it was late, and not where it is switched off."""
    history, quiet = History(repeat_seconds=600), History(repeat_seconds=0)
    history.wrong()
    quiet.wrong()

    assert [history.passes(seconds) for seconds in (599, 1, 599, 3_000, 600)] == [
        "",
        "reminded",
        "",
        "reminded",
        "reminded",
    ]
    assert quiet.passes(86_400) == ""


def test_a_clock_set_back_delays_a_reminder_by_one_rhythm_at_most() -> None:
    """A notification in a future that a restart took back counts as of now."""
    history = History(repeat_seconds=600)
    history.wrong(after=86_400)
    history.now = NOON

    assert [history.passes(seconds) for seconds in (1, 599, 1)] == ["", "", "reminded"]


def test_changes_in_quick_succession_are_one_notice() -> None:
    """The third start within an hour flaps: published as such, over only when it is quiet."""
    history = History()
    for _ in range(3):
        history.wrong(after=60)
        history.right(after=60)
    for _ in range(5):
        history.wrong(after=60)
        history.right(after=60)

    assert history.told.words == ["fired", "resolved", "fired", "resolved", "flapping"]
    assert history.passes(1_799) == ""
    assert history.passes(1) == "resolved"
    ended = history.told.tellings[-1].alert
    assert ended.ends_at is not None
    assert ended.ends_at == history.now - timedelta(seconds=1_800)


def test_an_ended_alert_is_shown_for_an_hour() -> None:
    """Then only what keeps a later alert from having its ids stays."""
    history = History()
    history.wrong()
    history.right(after=60)

    history.passes(3_599)
    assert history.state is AlertState.RESOLVED
    history.passes(1)
    assert history.held == FingerprintHistory(
        spans=(AlertSpan(starts_at=NOON, ends_at=NOON + timedelta(seconds=60)),), starts=(NOON,)
    )


def test_two_alerts_never_have_one_id() -> None:
    """Evidence with the same start gets a new start, also after an unpublished alert."""
    history = History()
    for muted_by in ((), ("mute",), ()):
        history.muted_by = muted_by
        history.wrong(since=NOON)
        history.right()
        history.passes(4_000)

    assert len(set(history.told.ids)) == len(history.told.ids) == 4


def test_a_rule_that_goes_ends_what_it_began() -> None:
    """The end and its reason are published."""
    history = History()
    history.wrong()

    assert history.rule_goes() == "resolved"
    assert history.told.tellings[-1].alert.facts == {"ended_because": "rule removed"}


def test_more_evidence_than_is_kept_changes_nothing_by_itself() -> None:
    """Sixty runs wait, one more joins them, ten start: each is counted once, the rest is quiet."""
    history = History()
    waiting = [f"run-{number}" for number in range(61)]
    counts: list[int] = []
    for runs in (waiting[:60], waiting[:60], waiting, waiting, waiting[10:], waiting[10:]):
        history.looks_wrong(*runs)
        assert isinstance(history.held, AlertInstance)
        assert history.held.alert.evidence == tuple(runs[-50:])
        counts.append(history.held.alert.evidence_count)
    before = history.held

    history.looks_wrong(*waiting[10:])

    assert history.held is before
    assert counts == [60, 60, 61, 61, 61, 61]


def test_a_clock_that_was_set_back_over_a_restart_holds_nothing_up() -> None:
    """A mark of the former clock counts from now, and not from a day to come."""
    pending, over = History(for_seconds=300), History()
    pending.wrong()
    over.wrong()
    over.right()
    for history in (pending, over):
        history.now -= timedelta(days=1)
        history.passes(2, as_of=NOON)

    assert pending.passes(299, as_of=NOON + timedelta(seconds=299)) == ""
    assert pending.passes(1, as_of=NOON + timedelta(seconds=300)) == "fired"
    over.passes(3_600)
    assert isinstance(over.held, FingerprintHistory)


def test_an_alert_that_was_over_when_seen_fires_and_resolves_at_once() -> None:
    """Both carry its own start and the mark; it lasts no longer, and it is no flapping."""
    history = History()
    for hour in range(4):
        since = NOON - timedelta(hours=10 - hour)
        assert history.late(since=since, lasted=60) == ["fired", "resolved"]
    fired, resolved = history.told.tellings[-2:]
    assert fired.alert.over_when_seen
    assert resolved.alert.over_when_seen
    assert fired.alert.starts_at == NOON - timedelta(hours=7)
    assert resolved.alert.ends_at == NOON - timedelta(hours=7) + timedelta(seconds=60)


def test_a_failure_inside_an_ended_alert_is_evidence_of_it() -> None:
    """The same trouble is not notified twice, however long ago it ended."""
    history = History()
    history.wrong()
    history.right(after=600)
    assert history.late(since=NOON + timedelta(seconds=60), lasted=60) == ["deduplicated"]
    assert isinstance(history.held, AlertInstance)
    assert history.held.alert.evidence == ("event-1", "event-2")
    history.passes(3_601)
    assert history.late(since=NOON + timedelta(seconds=90), lasted=60) == ["deduplicated"]
    assert history.told.words == ["fired", "resolved"]


def test_a_failure_that_was_over_is_evidence_of_the_open_alert() -> None:
    """The open alert keeps its start."""
    history = History()
    history.wrong()
    assert history.late(since=NOON - timedelta(hours=1), lasted=60) == ["deduplicated"]
    assert history.told.words == ["fired"]
    assert isinstance(history.held, AlertInstance)
    assert history.held.alert.starts_at == NOON


def test_a_failure_shorter_than_the_wait_of_its_rule_is_not_notified() -> None:
    """It would have ended while it was pending."""
    history = History(for_seconds=300)
    assert history.late(since=NOON - timedelta(hours=1), lasted=299) == [StepWord.TOO_SHORT]
    assert history.late(since=NOON - timedelta(hours=1), lasted=300) == ["fired", "resolved"]


def test_an_alert_that_was_over_when_seen_is_silenced_as_well() -> None:
    """A silence keeps it back for good: it is over."""
    history = History()
    history.muted_by = SILENCED
    history.late(since=NOON - timedelta(hours=1), lasted=60)
    history.muted_by = ()
    history.passes(60)
    assert history.told.words == ["silenced"]


def test_reopening_under_the_same_start_is_numbered() -> None:
    """A better time shows that the failure is open after all: the same start, other ids."""
    history = History()
    history.wrong()
    history.right(after=60)
    history.wrong(after=60, since=NOON)
    history.right(after=60)
    assert history.told.words == ["fired", "resolved", "fired", "resolved"]
    assert [telling.number for telling in history.told.tellings] == [0, 0, 2, 2]
    assert {telling.alert.starts_at for telling in history.told.tellings} == {NOON}


def test_a_start_is_never_moved_after_an_earlier_end() -> None:
    """A failure inside the span of an ended alert begins at its own time, not at that end."""
    history = History()
    history.wrong()
    history.right(after=600)
    history.wrong(since=NOON + timedelta(seconds=300))
    assert history.told.tellings[-1].alert.starts_at == NOON + timedelta(seconds=300)
