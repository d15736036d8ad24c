"""For every rule of an output that a single value must keep, one value that breaks it."""

from __future__ import annotations

from tests.config.settings_tables import Row

EMPTY = "must not be empty; leave the key out instead"
NO_GLOB = 'must not be empty; leave the key out, or write "*"'
NO_CHANNEL_NAME = (
    "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it names the channel in metrics"
)
NO_FILE = "there is no such file; create it or name another"
NO_HOST = "names no host that could be asked for"

BROKEN_OUTPUTS: tuple[Row, ...] = (
    ("mqtt.url", "http://x", '"http://x": must begin with mqtt:// or mqtts://'),
    ("mqtt.url", "mqtt://x:y", '"mqtt://x:y": not a URL'),
    ("mqtt.url", "mqtt://", f'"mqtt://": {NO_HOST}'),
    ("mqtt.url", "mqtt://a..b", f'"mqtt://a..b": {NO_HOST}'),
    ("mqtt.url", "mqtt://bro\nker", f'"mqtt://bro\\nker": {NO_HOST}'),
    ("mqtt.url", "mqtt://x:0", '"mqtt://x:0": port 0 is none that a broker can listen on'),
    ("mqtt.url", "mqtt://x/y", '"mqtt://x/y": nothing may follow host and port'),
    (
        "mqtt.url",
        "mqtt://me:password@x",
        '"mqtt://***@x": holds credentials; use username and password_file',
    ),
    ("mqtt.username", "", f'"": {EMPTY}'),
    ("mqtt.username", "a\0b", '"a\\u0000b": must not hold a line end or control character'),
    ("mqtt.ca_file", "", f'"": {EMPTY}'),
    ("mqtt.ca_file", "/missing", f'"/missing": {NO_FILE}'),
    ("mqtt.certificate_file", "", f'"": {EMPTY}'),
    ("mqtt.certificate_file", "/missing", f'"/missing": {NO_FILE}'),
    ("mqtt.key_file", "", f'"": {EMPTY}'),
    ("mqtt.key_file", "/missing", f'"/missing": {NO_FILE}'),
    (
        "mqtt.key_file",
        "/run/key",
        '"/run/key": there is no certificate_file that it could belong to',
    ),
    ("mqtt.prefix", "", '"": must be topic levels without a slash or $ at the ends'),
    ("mqtt.prefix", "a/", '"a/": must be topic levels without a slash or $ at the ends'),
    ("mqtt.prefix", "$a", '"$a": must be topic levels without a slash or $ at the ends'),
    ("mqtt.prefix", "a/+", '"a/+": must not hold + or # or control characters'),
    (
        "mqtt.prefix",
        "x" * 201,
        f'"{"x" * 79}...: must be at most 200 characters',
    ),
    ("mqtt.instance", "", '"": must be one topic level without + or #'),
    ("mqtt.instance", "a/b", '"a/b": must be one topic level without + or #'),
    ("mqtt.instance", "a\0b", '"a\\u0000b": must be one topic level without + or #'),
    (
        "mqtt.instance",
        "x" * 201,
        f'"{"x" * 79}...: must be at most 200 characters',
    ),
    ("mqtt.protocol", "x", '"x": must be one of auto, 5, 3.1.1'),
    ("alertmanager.urls", [], "[]: name at least one Alertmanager"),
    ("alertmanager.urls", ["am:9093"], '["am:9093"]: must begin with http:// or https://'),
    (
        "alertmanager.urls",
        ["http://me:password@am:9093"],
        '["http://***@am:9093"]: holds credentials; give them in a file of their own',
    ),
    ("alertmanager.urls", ["http://[::1"], '["http://[::1"]: not a URL'),
    (
        "alertmanager.urls",
        ["http://am:0"],
        '["http://am:0"]: port 0 is none that a receiver can listen on',
    ),
    ("alertmanager.urls", ["http://a b"], f'["http://a b"]: {NO_HOST}'),
    (
        "alertmanager.urls",
        ["http://am:9093?x=1"],
        '["http://am:9093?x=1"]: no query may follow the path',
    ),
    (
        "alertmanager.urls",
        ["http://am:80", "http://am/"],
        '["http://am:80", "http://am/"]: one Alertmanager is named twice',
    ),
    ("alertmanager.username", "", '"": ' + EMPTY),
    ("file.rotate_bytes", 65_535, "65535: must be 0, or at least 65536 bytes"),
    ("file.rotate_seconds", 59, "59: must be 0, or at least 60 seconds"),
    ("alertmanager.ca_file", "", '"": ' + EMPTY),
    ("alertmanager.ca_file", "/missing", '"/missing": ' + NO_FILE),
    ("webhook.url", "hooks", '"hooks": must begin with http:// or https://'),
    ("webhook.url", "https://hooks/#a", '"https://hooks/#a": nothing may follow a #'),
    (
        "webhook.url",
        "https://me:password@hooks",
        '"https://***@hooks": holds credentials; give them in a file of their own',
    ),
    ("webhook.events", [], '[]: name at least one type, such as "alert.*"'),
    (
        "webhook.events",
        ["alert.fire"],
        "[\"alert.fire\"]: no event type matches 'alert.fire'; did you mean alert.fired?",
    ),
    ("webhook.ca_file", "", '"": ' + EMPTY),
    ("webhook.ca_file", "/missing", '"/missing": ' + NO_FILE),
    (
        "file.path",
        "events.jsonl",
        '"events.jsonl": must be an absolute path, such as "/var/log/monitor/events.jsonl"',
    ),
    ("file.events", [], '[]: name at least one type, such as "alert.*"'),
    (
        "file.events",
        ["*", "!run.detail"],
        '["*", "!run.detail"]: no event type matches \'!run.detail\'; did you mean !run.detailed?',
    ),
    (
        "webhook.events",
        ["dataprep.run.finished.v1"],
        (
            "[\"dataprep.run.finished.v1\"]: no event type matches 'dataprep.run.finished.v1'; "
            "did you mean run.failed?"
        ),
    ),
    ("notify[0].name", "Team", f'"Team": {NO_CHANNEL_NAME}'),
    ("notify[0].name", "", f'"": {NO_CHANNEL_NAME}'),
    ("notify[0].to", "x", '"x": must be one of url, owner'),
    (
        "notify[0].owner_domains",
        ["Example.com"],
        '["Example.com"]: each must be a domain in small letters, such as "example.com"',
    ),
    (
        "notify[0].events",
        [],
        "[]: name at least one event, such as fired, or let a report name the channel",
    ),
    ("notify[0].events", ["fired", "fired"], '["fired", "fired"]: names one event twice'),
    (
        "notify[0].events",
        ["fire"],
        '["fire"]: no event fits "fire"; did you mean fired?',
    ),
    (
        "notify[0].group_by",
        ["pipelines"],
        '["pipelines"]: no field fits "pipelines"; did you mean pipeline?',
    ),
    (
        "notify[0].holidays",
        "AT-Vienna",
        (
            "\"AT-Vienna\": 'Vienna' is no subdivision of AT; did you mean 9?; "
            "there are 1, 2, 3, 4, 5, 6, 7, 8, 9"
        ),
    ),
    (
        "notify[0].holiday_dates",
        ["24.12.2026"],
        "[\"24.12.2026\"]: '24.12.2026' is no date; write it as 2026-12-24",
    ),
    (
        "notify[0].mute",
        ["22:00-06:00"],
        (
            '["22:00-06:00"]: write days, times or both, and a time zone, such as '
            '"Mon-Fri 22:00-06:00 Europe/Berlin" or "Sat,Sun Europe/Berlin"'
        ),
    ),
    (
        "notify[0].time_zone",
        "Berlin",
        '"Berlin": is no time zone; did you mean Europe/Berlin?',
    ),
    ("notify[0].match.workspace", [""], f'[""]: {NO_GLOB}'),
    ("notify[0].match.pipeline", "!*", '"!*": "!*" excludes everything; remove it'),
    ("notify[0].match.folder", "", f'"": {NO_GLOB}'),
    ("notify[0].match.owner", "", f'"": {NO_GLOB}'),
    ("notify[0].match.kind", "flow", '"flow": no kind of run fits "flow"; did you mean flow_run?'),
    ("notify[0].match.rule", "", f'"": {NO_GLOB}'),
    (
        "notify[0].match.severity",
        "critial",
        '"critial": no severity fits "critial"; did you mean critical?',
    ),
    (
        "mqtt.events",
        ["!run.detailed"],
        '["!run.detailed"]: selects nothing; add what is sent, such as "*" before "!run.detailed"',
    ),
    (
        "mqtt.events",
        ["*", "!*"],
        '["*", "!*"]: selects nothing; add what is sent, such as "*" before "!run.detailed"',
    ),
)
