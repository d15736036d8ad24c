"""Any history of alerts over outages and kills reaches a channel in order, and nothing is lost."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pytest

from monitor.model.events import AlertEvent, EventType
from tests.outputs.alert_histories import acknowledged, alert, event_of, fired, resolved
from tests.outputs.channels import channel, gotify, texts
from tests.outputs.output_scenario import OutputScenario
from tests.outputs.receiving import BROKEN, PostReceiver

ALERTS = 6
WORDS = {
    EventType.ALERT_FIRED: "FAILED",
    EventType.ALERT_ACKNOWLEDGED: "ACKNOWLEDGED",
    EventType.ALERT_REMINDED: "STILL FAILED",
    EventType.ALERT_RESOLVED: "RESOLVED",
}
_LINE = re.compile(r"^([A-Z ]+): orders (\d+) \(w\)$", re.MULTILINE)


def history(chance: random.Random) -> list[AlertEvent]:
    """Return the events of some alerts, mixed, those of each alert in their order."""
    waiting = {
        number: [
            fired(number),
            *([acknowledged(number)] if chance.random() < 0.5 else []),
            *(
                event_of(alert(number), EventType.ALERT_REMINDED, number=count + 1)
                for count in range(chance.randrange(3))
            ),
            *([resolved(number)] if chance.random() < 0.7 else []),
        ]
        for number in range(1, ALERTS + 1)
    }
    events: list[AlertEvent] = []
    while waiting:
        number = chance.choice(list(waiting))
        events.append(waiting[number].pop(0))
        if not waiting[number]:
            del waiting[number]
    return events


def words_of(receiver: PostReceiver) -> dict[str, list[str]]:
    """Return what the service was sent about each alert, in the order of its messages."""
    received: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts(receiver):
        for word, number in _LINE.findall(text):
            received[number].append(word)
    return received


@pytest.mark.parametrize("seed", range(12))
async def test_an_alert_ends_in_a_channel_as_it_ended(tmp_path: Path, seed: int) -> None:
    """Of each alert the last message is its last state, none comes before an earlier state."""
    chance = random.Random(seed)  # noqa: S311 - a test is repeatable
    events = history(chance)
    final = {event.subject: WORDS[event.type] for event in events}
    async with (
        PostReceiver() as receiver,
        OutputScenario(
            tmp_path,
            lambda scenario: channel(
                scenario, gotify(receiver), group_wait_seconds=0.02, timeout_seconds=1.0
            ),
        ) as scenario,
    ):
        receiver.text = "{}"
        await scenario.start()
        while events:
            count = chance.randint(1, 4)
            some, events = events[:count], events[count:]
            receiver.answers.extend(
                chance.choice([503, 429, BROKEN]) for _ in range(chance.randrange(3))
            )
            await scenario.emit(*some)
            if chance.random() < 0.4:
                await scenario.kill()
                await scenario.start()
            elif chance.random() < 0.5:
                await scenario.until_delivered()
        await scenario.until_delivered()
        assert await scenario.letters() == []

    received = words_of(receiver)
    order = list(WORDS.values())
    for number in range(1, ALERTS + 1):
        words = received[str(number)]
        assert words, f"nothing was sent about orders {number}"
        last = final[fired(number).subject]
        # In one message with its start, an acknowledgement is a fact of that.
        assert words[-1] in (last, "FAILED" if last == "ACKNOWLEDGED" else last), (number, words)
        once = [word for index, word in enumerate(words) if word not in words[:index]]
        assert [order.index(word) for word in once] == sorted(order.index(word) for word in once)
