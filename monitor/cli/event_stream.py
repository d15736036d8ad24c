"""Prints recorded events page by page, and new ones from the daemon's stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from monitor.cli import lazy_terminal, time_options
from monitor.cli.admin import AdminClient, rows_of
from monitor.cli.daemon_address import DaemonAddress
from monitor.cli.event_lines import (
    FIELDS,
    Event,
    EventFilter,
    event_line,
    event_row,
    event_type,
)
from monitor.cli.row_layout import OutputForm
from monitor.cli.tables import print_csv, print_remark
from monitor.model.alerts import BRIDGE
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import ConfigurationError, MonitorError
from monitor.model.events import POSITION_DIGITS
from monitor.model.suggestions import did_you_mean

_PAGE = 1_000
_LAST = 100
_REMEMBERED = 10_000  # ids of printed events
_MOST_PAGES = 100  # that are searched backwards for events that fit
_PATH = "/api/v1/events"


class EventRequest(Struct, frozen=True, kw_only=True):
    """What is printed. ``limit`` None: the last hundred, or all since an instant; 0: all."""

    fits: EventFilter
    since: str | None
    follow: bool
    limit: int | None
    form: OutputForm


def print_events(address: DaemonAddress, request: EventRequest) -> None:
    """Print the events since an instant, or the newest; with ``follow`` then new ones."""
    write_line = _writer(request)
    # Ids: of several logs, the newest come again when followed.
    printed: BoundedMemory[str, bool] = BoundedMemory(_REMEMBERED)

    def write(event: Event) -> None:
        printed.put(event["id"], value=True)
        write_line(event)

    client = AdminClient(address)
    _refuse_unknown(client, request.fits.workspace)
    position: int | str | None = None
    if request.since is not None or request.limit is not None or not request.follow:
        position = _print_recorded(client, request, write)
    if request.follow:
        for event in client.events(position, request.fits.query()):
            _demand_form(event)
            if request.fits.fits(event) and not printed.get(event["id"]):
                write_line(event)


def _refuse_unknown(client: AdminClient, workspace: str | None) -> None:
    """Refuse a workspace that is not followed: no events would read as if all were well."""
    if workspace is None:
        return
    rows = rows_of(client.get("/api/v1/workspaces"))
    names = [BRIDGE, *(row["workspace"] for row in rows)]
    if workspace not in names:
        hint = did_you_mean(workspace, names) or f"; there are {', '.join(names)}"
        raise ConfigurationError(f"--workspace: {workspace!r} is not known{hint}")


def _print_recorded(
    client: AdminClient, request: EventRequest, write: Callable[[Event], None]
) -> int | str:
    """Return the position after the last event that was read."""
    if request.since is None and request.limit != 0:
        return _print_newest(client, request, write)
    printed = 0
    position: int | str = 0
    for rows, position in _forward(client, request):
        for event in rows:
            if not request.fits.fits(event):
                continue
            if request.limit and printed == request.limit:
                print_remark(f"showing the first {printed:,}; leave --limit out for all")
                return position
            write(event)
            printed += 1
    return position


def _forward(
    client: AdminClient, request: EventRequest
) -> Iterator[tuple[list[dict[str, Any]], int | str]]:
    """Yield pages of events, oldest first, each with the position after it."""
    query = {"limit": str(_PAGE), **request.fits.query()}
    place = {} if request.since is None else {"since": request.since}
    while True:
        page = client.get(_PATH, {**query, **place})
        rows, position = _events_of(page), page["next"]
        yield rows, position
        if not page.get("has_more", len(rows) >= _PAGE):
            return
        place = {"after": str(position)}


def _print_newest(
    client: AdminClient, request: EventRequest, write: Callable[[Event], None]
) -> int | str:
    """Print the newest events that fit, oldest first; search backwards for them."""
    most = request.limit or _LAST
    last = client.get(_PATH, {"limit": "1", "last": "1"})
    if not isinstance(last["next"], int):
        return _print_newest_of_several(client, request, write, most=most)
    size = min(most + 1, _PAGE) if request.fits.is_any else _PAGE
    oldest = _events_of(client.get(_PATH, {"limit": "1"}))
    newest: int = last["next"]
    end = _position(oldest[0]) if oldest else newest + 1
    fitting: list[Event] = []
    before, pages = newest + 1, 0
    while before > end and len(fitting) <= most and pages < _MOST_PAGES:
        after = max(end - 1, before - 1 - size)
        query = {"limit": str(_PAGE), "after": str(after), **request.fits.query()}
        rows = [row for row in _events_of(client.get(_PATH, query)) if _position(row) < before]
        fitting = [row for row in rows if request.fits.fits(row)] + fitting
        before, pages, size = after + 1, pages + 1, _PAGE
    for event in fitting[-most:]:
        write(event)
    if len(fitting) > most:
        print_remark(f"showing the newest {most:,}; --limit 0 for all, or --since 7d")
    elif before > end:
        print_remark(f"searched the newest {newest - before:,} events; --since 30d for older ones")
    elif not fitting:
        print_remark("no event is recorded yet" if request.fits.is_any else "no event fits")
    return newest


def _print_newest_of_several(
    client: AdminClient,
    request: EventRequest,
    write: Callable[[Event], None],
    *,
    most: int,
) -> int | str:
    """Print the newest events where several logs have no common position to search backwards by."""
    size = min(most + 1, _PAGE) if request.fits.is_any else _PAGE
    page = client.get(_PATH, {"limit": str(_PAGE), "last": str(size), **request.fits.query()})
    fitting = [row for row in _events_of(page) if request.fits.fits(row)]
    for event in fitting[-most:]:
        write(event)
    if len(fitting) > most:
        print_remark(f"showing the newest {most:,}; --limit 0 for all, or --since 7d")
    elif not request.fits.is_any:
        print_remark(f"searched the newest {size:,} events; --since 30d for older ones")
    elif not fitting:
        print_remark("no event is recorded yet")
    position: int | str = page["next"]
    return position


def _events_of(page: Any) -> list[Event]:
    events = rows_of(page)
    for event in events:
        _demand_form(event)
    return events


def _demand_form(event: Event) -> None:
    if "specversion" not in event:
        raise MonitorError(
            "the daemon's events are no CloudEvents: it is older than this command; restart it"
        )


def _position(event: Event) -> int:
    return int(event["sequence"][-POSITION_DIGITS:])


def _writer(request: EventRequest) -> Callable[[Event], None]:
    """Return what prints one event at once."""
    # Beside new events an old one would age on the screen, so both stand with their instants.
    has_instant = request.form is OutputForm.WIDE or request.follow
    is_coloured = sys.stdout.isatty()
    has_head = True

    def write(event: Event) -> None:
        nonlocal has_head
        if request.form is OutputForm.JSON:
            sys.stdout.write(json.dumps(event) + "\n")
        elif request.form is OutputForm.CSV:
            print_csv([event_row(event)], FIELDS, has_head=has_head)
            has_head = False
        else:
            line = event_line(
                event,
                has_instant=has_instant,
                is_wide=request.form is OutputForm.WIDE,
                now=time_options.now(),
            )
            transition = event_type(event).rpartition(".")[2]
            if is_coloured:
                line = lazy_terminal.terminal.coloured(transition, line)
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    return write
