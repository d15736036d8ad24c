"""Values of the listeners' certificates and of the socket for probes that break a rule."""

from __future__ import annotations

from tests.config.broken_outputs import NO_FILE
from tests.config.settings_tables import Row

_NO_ADDRESS = 'must be HOST:PORT, such as "127.0.0.1:9876" or "[::1]:9876"; port 0 takes a free one'

BROKEN_LISTENERS: tuple[Row, ...] = (
    *(
        (f"{listener}.tls.{name}_file", "/missing", f'"/missing": {NO_FILE}')
        for listener in ("server", "callbacks")
        for name in ("certificate", "key", "client_ca")
    ),
    ("server.probe_listen", "localhost", f'"localhost": {_NO_ADDRESS}'),
    (
        "server.probe_listen",
        "127.0.0.1:9876",
        '"127.0.0.1:9876": has the port of listen; choose another',
    ),
    (
        "status_pages[0].name",
        "Finance",
        (
            '"Finance": use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a part of an '
            "address"
        ),
    ),
    ("status_pages[0].shows", {}, "(a table): name 1 to 100 pipelines"),
    ("status_pages[0].title", "", '"": must not be empty; leave the key out instead'),
    (
        "status_pages[0].time_zone",
        "Europe/Berln",
        '"Europe/Berln": is no time zone; did you mean Europe/Berlin?',
    ),
    ("status_pages[0].embedded_in", [], "[]: must not be empty; leave the key out instead"),
)
