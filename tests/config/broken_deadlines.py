"""For every rule that a key of a deadline must keep, one value that breaks it."""

from __future__ import annotations

from tests.config.settings_tables import Row

BROKEN_DEADLINES: tuple[Row, ...] = (
    ("alerts[0].deadline", "7", "\"7\": '7' is no time of the day: write 00:00 to 23:59"),
    (
        "alerts[0].deadline",
        "24:00",
        "\"24:00\": '24:00' is no time of the day: write 00:00 to 23:59",
    ),
    (
        "alerts[0].counts_from",
        "12:60",
        "\"12:60\": '12:60' is no time of the day: write 00:00 to 23:59",
    ),
    (
        "alerts[0].deadline_timezone",
        "Europe/Berln",
        '"Europe/Berln": is no time zone; did you mean Europe/Berlin?',
    ),
    (
        "alerts[0].deadline_days",
        "Mon-Fr",
        "\"Mon-Fr\": 'Fr' is no day; did you mean Fri?",
    ),
    (
        "alerts[0].deadline_days",
        "Mon 22:00-06:00",
        '"Mon 22:00-06:00": must be days alone, such as "Mon-Fri" or "Mon,Thu"',
    ),
    (
        "alerts[0].deadline_days",
        "Mon-Fri,!holidays",
        (
            '"Mon-Fri,!holidays": must be days of the week; holidays and holiday_dates have keys '
            "of their own"
        ),
    ),
    ("alerts[0].counts", "begun", '"begun": must be one of started, ended'),
    (
        "alerts[0].holidays",
        "Germany",
        (
            "\"Germany\": 'Germany' is no country; did you mean DE?; write its two letters by "
            "ISO 3166, such as DE or DE-BE"
        ),
    ),
    (
        "alerts[0].holidays",
        "AT-Vienna",
        (
            "\"AT-Vienna\": 'Vienna' is no subdivision of AT; did you mean 9?; "
            "there are 1, 2, 3, 4, 5, 6, 7, 8, 9"
        ),
    ),
    (
        "alerts[0].holidays",
        "AT-",
        '"AT-": names no subdivision; write AT or such as DE-BE',
    ),
    (
        "alerts[0].holiday_dates",
        ["2026-12-24", "2026-02-30"],
        '["2026-12-24", "2026-02-30"]: \'2026-02-30\' is no date; write it as 2026-12-24',
    ),
    (
        "alerts[0].holiday_dates",
        ["20261224"],
        "[\"20261224\"]: '20261224' is not written as 2026-12-24",
    ),
)
