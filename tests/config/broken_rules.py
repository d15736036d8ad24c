"""For every rule that a single value must keep, one value that breaks it."""

from __future__ import annotations

from tests.config.settings_tables import Row

NO_HTTP_URL = 'must be an http or https URL, such as "https://api.clouddataprep.com"'
NO_PUBLIC_URL = 'must be an http or https URL, such as "https://monitor.example.com"'
NO_ADDRESS = 'must be HOST:PORT, such as "127.0.0.1:9876" or "[::1]:9876"; port 0 takes a free one'
NO_STORE = (
    'must be sqlite:// and an absolute path, such as "sqlite:///var/lib/dataprep-monitor/state.db"'
)
NO_RUN = 'each must be KIND/ID, such as "job_group/123", "flow_run/7" or "plan_run/9"'
EMPTY = "must not be empty; leave the key out instead"
NO_FILE = "there is no such file; create it or name another"
NO_HOST = "names no host that could be asked for"

BROKEN_RULES: tuple[Row, ...] = (
    (
        "workspaces[0].name",
        "A",
        '"A": use 1 to 63 of a-z, 0-9 and -, not - first; it is a label and a topic level',
    ),
    (
        "workspaces[0].name",
        "bridge",
        '"bridge": is reserved for the daemon\'s own topics; choose another name',
    ),
    ("workspaces[0].url", "ftp://x", f'"ftp://x": {NO_HTTP_URL}'),
    ("workspaces[0].url", "https://[::1", f'"https://[::1": {NO_HTTP_URL}'),
    ("workspaces[0].url", "https://x:99999", f'"https://x:99999": {NO_HTTP_URL}'),
    ("workspaces[0].url", "https://x:0", f'"https://x:0": {NO_HTTP_URL}'),
    ("workspaces[0].url", "https://a..b", f'"https://a..b": {NO_HTTP_URL}'),
    ("workspaces[0].url", "https://a\nb", f'"https://a\\nb": {NO_HTTP_URL}'),
    (
        "workspaces[0].url",
        "https://me:pass word@x",
        f'"https://***@x": {NO_HTTP_URL}',
    ),
    (
        "workspaces[0].url",
        "https://me:password@x",
        '"https://***@x": must not hold credentials; give the token as token_file',
    ),
    (
        "workspaces[0].url",
        "https://x?a=1",
        '"https://x?a=1": must end with host, port or path; remove the query or fragment',
    ),
    ("workspaces[0].edition", "x", '"x": must be one of auto, PC, PL, RL, LE, open'),
    ("workspaces[0].ca_file", "", f'"": {EMPTY}'),
    ("workspaces[0].ca_file", "/missing/ca.pem", f'"/missing/ca.pem": {NO_FILE}'),
    ("workspaces[0].poll.ranfor", [], f"[]: {EMPTY}"),
    ("workspaces[0].poll.ranfor", [""], f'[""]: {EMPTY}'),
    ("workspaces[0].poll.ranfor", ["recipe", 5], '["recipe", 5]: must be a list of texts'),
    ("workspaces[0].poll.follow", ["job/1"], f'["job/1"]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["job_group/"], f'["job_group/"]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["job_group/.."], f'["job_group/.."]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["plan_run/1/2"], f'["plan_run/1/2"]: {NO_RUN}'),
    ("workspaces[0].callbacks.public_url", "x", f'"x": {NO_PUBLIC_URL}'),
    (
        "workspaces[0].callbacks.public_url",
        "https://me:password@x",
        '"https://***@x": must not hold credentials; callbacks carry the secret in a header',
    ),
    (
        "workspaces[0].callbacks.public_url",
        "https://x/hooks/a",
        (
            '"https://x/hooks/a": '
            "must be what stands in front of /hooks; remove /hooks, query and fragment"
        ),
    ),
    ("workspaces[0].callbacks.flows", [" "], '[" "]: holds an empty text; remove that'),
    ("workspaces[0].callbacks.signature", "x", '"x": must be one of off, observe, require'),
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
    ("server.listen", "localhost", f'"localhost": {NO_ADDRESS}'),
    ("server.listen", "127.0.0.1:65536", f'"127.0.0.1:65536": {NO_ADDRESS}'),
    ("server.listen", "a..b:80", f'"a..b:80": {NO_ADDRESS}'),
    ("server.listen", "[:]:80", f'"[:]:80": {NO_ADDRESS}'),
    ("server.username", "", f'"": {EMPTY}'),
    ("server.username", "a\nb", '"a\\nb": must not hold a line end or control character'),
    ("callbacks.listen", ":9877", f'":9877": {NO_ADDRESS}'),
    ("storage.url", "nats://x", f'"nats://x": {NO_STORE}'),
    ("storage.url", "sqlite:relative", f'"sqlite:relative": {NO_STORE}'),
    ("storage.url", "sqlite://relative", f'"sqlite://relative": {NO_STORE}'),
    ("storage.url", "sqlite:///", f'"sqlite:///": {NO_STORE}'),
    ("storage.url", "sqlite:///a?mode=ro", f'"sqlite:///a?mode=ro": {NO_STORE}'),
    ("storage.url", "sqlite:///a%00", f'"sqlite:///a%00": {NO_STORE}'),
    ("log.level", "x", '"x": must be one of debug, info, warning, error'),
    ("log.form", "x", '"x": must be one of auto, console, json'),
)
