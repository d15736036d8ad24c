"""For every rule that a single value must keep, one value that breaks it."""

from __future__ import annotations

from monitor.alerting.settings import RuleKind
from tests.config.broken_deadlines import BROKEN_DEADLINES
from tests.config.broken_listeners import BROKEN_LISTENERS
from tests.config.broken_outputs import BROKEN_OUTPUTS, EMPTY, NO_FILE, NO_GLOB
from tests.config.broken_storage import BROKEN_STORAGE
from tests.config.settings_tables import Row

NO_HTTP_URL = 'must be an http or https URL, such as "https://api.clouddataprep.com"'
NO_PUBLIC_URL = 'must be an http or https URL, such as "https://monitor.example.com"'
NO_PAGE_URL = 'must be such as "https://monitor.example.com", without credentials, query and "#"'
NO_NAME = 'each must be a host name without scheme and port, such as "monitor.example.com"'
TOO_WIDE = (
    "a network so wide lets any sender forge its address: name the proxies themselves, "
    "at least /8 (IPv6: /32)"
)
NO_NETWORK = 'each must be an IP address or network, such as "127.0.0.1" or "10.1.0.0/16"'
NO_ADDRESS = 'must be HOST:PORT, such as "127.0.0.1:9876" or "[::1]:9876"; port 0 takes a free one'
OTHER_MEANING = "has another meaning; name a header that the proxy alone sets"
NO_RUN = (
    'each must be KIND/ID, such as "job_group/123", "flow_run/7" or "plan_run/9"; job '
    "groups and flow runs have numbers"
)
RULES = ", ".join(RuleKind)

BROKEN_RULES: tuple[Row, ...] = (
    *BROKEN_OUTPUTS,
    *BROKEN_DEADLINES,
    *BROKEN_LISTENERS,
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
    ("workspaces[0].shard", "A", '"A": use 1 to 63 of a-z, 0-9 and -, not - first'),
    ("workspaces[0].shard", "", '"": use 1 to 63 of a-z, 0-9 and -, not - first'),
    ("workspaces[0].edition", "x", '"x": must be one of auto, PC, PL, RL, LE, open'),
    ("workspaces[0].ca_file", "", f'"": {EMPTY}'),
    ("workspaces[0].ca_file", "", f'"": {EMPTY}'),
    *(
        (f"{listener}.tls.{name}_file", "/missing", f'"/missing": {NO_FILE}')
        for listener in ("server", "callbacks")
        for name in ("certificate", "key", "client_ca")
    ),
    ("workspaces[0].ca_file", "/missing/ca.pem", f'"/missing/ca.pem": {NO_FILE}'),
    ("workspaces[0].poll.ranfor", [], f"[]: {EMPTY}"),
    ("workspaces[0].poll.ranfor", [""], f'[""]: {EMPTY}'),
    ("workspaces[0].poll.ranfor", ["recipe", 5], '["recipe", 5]: must be a list of texts'),
    ("workspaces[0].poll.follow", ["job/1"], f'["job/1"]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["flow_run/abc"], f'["flow_run/abc"]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["job_group/"], f'["job_group/"]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["job_group/.."], f'["job_group/.."]: {NO_RUN}'),
    ("workspaces[0].poll.follow", ["plan_run/1/2"], f'["plan_run/1/2"]: {NO_RUN}'),
    (
        "workspaces[0].oauth.token_url",
        "x",
        '"x": must be an https URL, such as "https://pingauth.alteryxcloud.com/as/token"',
    ),
    (
        "workspaces[0].oauth.token_url",
        "http://auth.example.com/token",
        (
            '"http://auth.example.com/token": must begin with https://, since the refresh token '
            "travels there"
        ),
    ),
    (
        "workspaces[0].oauth.token_url",
        "https://me:word@auth.example.com/token",
        (
            '"https://***@auth.example.com/token": must not hold credentials; give client_id and '
            "client_secret"
        ),
    ),
    (
        "workspaces[0].oauth.token_url",
        "https://auth.example.com/token#part",
        '"https://auth.example.com/token#part": must not have a fragment; remove it',
    ),
    ("workspaces[0].oauth.client_id", "", f'"": {EMPTY}'),
    (
        "workspaces[0].oauth.scope",
        "a\nb",
        '"a\\nb": must not hold a line end or control character',
    ),
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
            "must be what comes before /hooks; remove /hooks, query and fragment"
        ),
    ),
    ("workspaces[0].callbacks.flows", [" "], '[" "]: holds an empty text; remove that'),
    ("workspaces[0].callbacks.signature", "x", '"x": must be one of off, observe, require'),
    ("server.listen", "localhost", f'"localhost": {NO_ADDRESS}'),
    ("server.listen", "127.0.0.1:65536", f'"127.0.0.1:65536": {NO_ADDRESS}'),
    ("server.listen", "a..b:80", f'"a..b:80": {NO_ADDRESS}'),
    ("server.listen", "[:]:80", f'"[:]:80": {NO_ADDRESS}'),
    ("server.hosts", ["https://a.example"], f'["https://a.example"]: {NO_NAME}'),
    ("server.hosts", ["a.example", "a.example:80"], f'["a.example", "a.example:80"]: {NO_NAME}'),
    ("server.public_url", "monitor.example.com", f'"monitor.example.com": {NO_PAGE_URL}'),
    ("server.public_url", "https://me:pw@x", f'"https://***@x": {NO_PAGE_URL}'),
    ("server.public_url", "https://x/?a=b", f'"https://x/?a=b": {NO_PAGE_URL}'),
    (
        "server.user_header",
        "X Forwarded User",
        '"X Forwarded User": must be the name of a header, such as "X-Forwarded-User"',
    ),
    ("server.user_header", "Cookie", f'"Cookie": {OTHER_MEANING}'),
    (
        "server.groups_header",
        "X-Groups:",
        '"X-Groups:": must be the name of a header, such as "X-Forwarded-User"',
    ),
    (
        "server.oidc.issuer",
        "http://login.example.com",
        '"http://login.example.com": must be such as "https://login.example.com/realms/data"',
    ),
    ("server.oidc.client_id", "", '"": must not be empty; leave the key out instead'),
    ("server.oidc.scopes", [], "[]: must not be empty; leave the key out instead"),
    ("server.oidc.user_claim", "", '"": must not be empty; leave the key out instead'),
    ("server.oidc.groups_claim", "", '"": must not be empty; leave the key out instead'),
    (
        "server.oidc.ca_file",
        "/missing/ca.pem",
        '"/missing/ca.pem": there is no such file; create it or name another',
    ),
    (
        "access[0].name",
        "ada.lovelace",
        ('"ada.lovelace": use 1 to 128 of A-Z, a-z, 0-9, @, _, + and -, a letter or digit first'),
    ),
    ("access[0].role", "root", '"root": must be one of metrics, read, operate, admin'),
    ("access[0].users", [], "[]: must not be empty; leave the key out instead"),
    ("access[0].workspaces", "", '"": must not be empty; leave the key out instead'),
    ("access[0].workspaces", [], "[]: must not be empty; leave the key out instead"),
    ("access[0].workspaces", ["!*"], '["!*"]: "!*" excludes everything; remove it'),
    ("access[0].groups", [""], '[""]: must not be empty; leave the key out instead'),
    (
        "access[0].token_hash",
        "the-token-itself",
        (
            "***: must be what dataprep-monitor access add prints, $argon2id$v=19$...; never the "
            "token itself"
        ),
    ),
    ("server.hosts", ["*.example"], f'["*.example"]: {NO_NAME}'),
    ("server.hosts", ["2001:db8::1"], f'["2001:db8::1"]: {NO_NAME}'),
    ("server.trusted_proxies", ["proxy"], f'["proxy"]: {NO_NETWORK}'),
    ("server.trusted_proxies", ["10.0.0.0/33"], f'["10.0.0.0/33"]: {NO_NETWORK}'),
    ("server.trusted_proxies", ["0.0.0.0/0"], f'["0.0.0.0/0"]: {TOO_WIDE}'),
    ("callbacks.trusted_proxies", ["::/0"], f'["::/0"]: {TOO_WIDE}'),
    ("callbacks.trusted_proxies", ["10.0.0.1", ""], f'["10.0.0.1", ""]: {NO_NETWORK}'),
    ("server.username", "", f'"": {EMPTY}'),
    ("server.username", "a\nb", '"a\\nb": must not hold a line end or control character'),
    ("callbacks.listen", ":9877", f'":9877": {NO_ADDRESS}'),
    *BROKEN_STORAGE,
    ("log.level", "x", '"x": must be one of debug, info, warning, error'),
    ("log.form", "x", '"x": must be one of auto, console, json'),
    (
        "alerts[0].name",
        "Orders",
        (
            '"Orders": use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a '
            "label and a topic level"
        ),
    ),
    (
        "alerts[0].name",
        "a/b",
        (
            '"a/b": use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a label '
            "and a topic level"
        ),
    ),
    (
        "alerts[0].name",
        "run_failed",
        (
            '"run_failed": is the name of another rule, and this one is '
            "failing_repeatedly; choose another"
        ),
    ),
    (
        "alerts[0].rule",
        "run_faild",
        f'"run_faild": must be one of {RULES}; did you mean run_failed?',
    ),
    ("alerts[0].rule", "x", f'"x": must be one of {RULES}'),
    (
        "alerts[0].severity",
        "critcal",
        '"critcal": must be one of critical, warning, info; did you mean critical?',
    ),
    (
        "alerts[0].mute",
        ["Mon-Fri 22:00-06:00 Europe/Berln"],
        (
            "[\"Mon-Fri 22:00-06:00 Europe/Berln\"]: 'Europe/Berln' is no time zone; did "
            "you mean Europe/Berlin?"
        ),
    ),
    (
        "alerts[0].mute",
        ["Funday UTC"],
        "[\"Funday UTC\"]: 'Funday' is no day: write Mon, Tue, Wed, Thu, Fri, Sat, Sun",
    ),
    (
        "alerts[0].mute",
        ["Mn UTC", "Sat UTC", "Sun Mars"],
        (
            '["Mn UTC", "Sat UTC", "Sun Mars"]: \'Mn\' is no day; did you mean Mon?; and '
            "'Mars' is no time zone; write one of the IANA list, such as Europe/Berlin or UTC"
        ),
    ),
    (
        "alerts[0].mute",
        ["always"],
        (
            '["always"]: write days, times or both, and a time zone, such as "Mon-Fri '
            '22:00-06:00 Europe/Berlin" or "Sat,Sun Europe/Berlin"'
        ),
    ),
    (
        "alerts[0].expect",
        "0 30 6 ? * MUN-FRI",
        "\"0 30 6 ? * MUN-FRI\": cron day-of-week 'MUN': expected 1 to 7; did you mean SUN?",
    ),
    (
        "alerts[0].expect",
        "daily",
        (
            '"daily": is no cron expression; write it as "0 30 6 ? * MON-FRI" in Quartz '
            'or "30 6 * * 1-5" in plain cron'
        ),
    ),
    ("alerts[0].expect", "0 0 31 2 *", '"0 0 31 2 *": never comes true; write a day that there is'),
    (
        "alerts[0].expect",
        "0 6 1 * 1",
        (
            '"0 6 1 * 1": gives a day of the month and one of the week, where plain '
            "cron means either; write a rule for each"
        ),
    ),
    (
        "alerts[0].expect_timezone",
        "Europe/Berln",
        '"Europe/Berln": is no time zone; did you mean Europe/Berlin?',
    ),
    (
        "alerts[0].expect_timezone",
        "x",
        '"x": is no time zone; write one of the IANA list, such as Europe/Berlin or UTC',
    ),
    ("alerts[0].match.workspace", "", '"": ' + NO_GLOB),
    (
        "alerts[0].match.workspace",
        "marketting",
        '["marketting"]: no workspace fits "marketting"; did you mean marketing?',
    ),
    (
        "alerts[0].match.workspace",
        ["marketing", "sales*"],
        '["marketing", "sales*"]: no workspace fits "sales*"; there are marketing',
    ),
    (
        "alerts[0].match.kind",
        "job_grup",
        '"job_grup": no kind of run fits "job_grup"; did you mean job_group?',
    ),
    (
        "alerts[0].match.kind",
        ["flow_run", "x"],
        '["flow_run", "x"]: no kind of run fits "x"; there are flow_run, job_group, plan_run',
    ),
    ("alerts[0].match.kind", "", '"": ' + NO_GLOB),
    ("alerts[0].match.pipeline", ["a", ""], '["a", ""]: ' + NO_GLOB),
    (
        "alerts[0].match.pipeline",
        "x" * 501,
        f'"{"x" * 79}...: must be at most 1,000 globs of 500 characters each',
    ),
    ("alerts[0].match.pipeline", "!", '"!": ' + NO_GLOB),
    ("alerts[0].match.pipeline", ["!*"], '["!*"]: "!*" excludes everything; remove it'),
    (
        "alerts[0].match.kind",
        ["!job_grup"],
        '["!job_grup"]: no kind of run fits "job_grup"; did you mean job_group?',
    ),
    (
        "alerts[0].match.trigger",
        ["scheduled", "schedule", "manuel"],
        (
            '["scheduled", "schedule", "manuel"]: no trigger fits "scheduled"; did you mean '
            'schedule?; and no trigger fits "manuel"; did you mean manual?'
        ),
    ),
    ("alerts[0].match.folder", "", '"": ' + NO_GLOB),
    ("alerts[0].match.owner", "", '"": ' + NO_GLOB),
    (
        "alerts[0].match.trigger",
        "scheduled",
        '"scheduled": no trigger fits "scheduled"; did you mean schedule?',
    ),
    (
        "silences[0].matchers",
        [],
        '[]: name what is to be silent, such as "workspace=marketing" or "pipeline!=daily*"',
    ),
    (
        "silences[0].matchers",
        ["workspce=a"],
        "[\"workspce=a\"]: 'workspce=a': no alert has a label 'workspce'; did you mean workspace?",
    ),
    (
        "silences[0].matchers",
        ["workspace"],
        (
            "[\"workspace\"]: 'workspace' is no matcher: write it as "
            '"workspace=marketing" or "pipeline!=daily*"'
        ),
    ),
    ("silences[0].comment", " ", '" ": is needed: who reads it later wants to know'),
    ("silences[0].author", "", '"": is needed: who reads it later wants to know'),
    (
        "reports[0].name",
        "Last night",
        (
            '"Last night": use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a part of an '
            "event's id"
        ),
    ),
    (
        "reports[0].at",
        "0 7 * *",
        (
            '"0 7 * *": is no cron expression; write it as "0 30 6 ? * MON-FRI" in Quartz or '
            '"30 6 * * 1-5" in plain cron'
        ),
    ),
    ("reports[0].at", "0 7 30 2 *", '"0 7 30 2 *": never comes true; write a day that there is'),
    (
        "reports[0].time_zone",
        "Europe/Belin",
        '"Europe/Belin": is no time zone; did you mean Europe/Berlin?',
    ),
    (
        "reports[0].period",
        "month",
        '"month": must be one of night, day, week',
    ),
    ("reports[0].since", "6pm", '"6pm": is no time of day; write it as 18:00'),
    ("reports[0].match.workspace", "", '"": ' + NO_GLOB),
    ("reports[0].match.pipeline", "", '"": ' + NO_GLOB),
    ("reports[0].match.folder", "", '"": ' + NO_GLOB),
    ("reports[0].match.owner", "", '"": ' + NO_GLOB),
    (
        "alerting.runbooks",
        "two words",
        '"two words": must be a URL or path without spaces, "#" and braces',
    ),
)
