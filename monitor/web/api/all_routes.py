"""Every route of the JSON API, in one list: the server and its document come from it."""

from __future__ import annotations

from monitor.web.api.badges import Badges
from monitor.web.api.event_stream import EventStreams, stream_route
from monitor.web.api.json_api import JsonApi
from monitor.web.api.message_schemas import MessageSchemas
from monitor.web.api.replay import replay_write
from monitor.web.api.silences import acknowledge_write, expire_write, silence_write
from monitor.web.api.track import track_write, untrack_write
from monitor.web.api.webhooks import webhooks_view, webhooks_write
from monitor.web.requests import Requests
from monitor.web.views.all_views import AllViews
from monitor.web.views.sources import ViewSources


def json_api(
    views: AllViews, *, sources: ViewSources, streams: EventStreams, requests: Requests
) -> JsonApi:
    """Return the API: the views of the pages, what is JSON only, and what changes something."""
    schemas = MessageSchemas()
    return JsonApi(
        views=[*views.all(), webhooks_view(requests), schemas.view()],
        writes=[
            track_write(requests),
            untrack_write(requests),
            webhooks_write(requests),
            silence_write(sources.alerting, clock=sources.clock),
            expire_write(sources.alerting),
            acknowledge_write(sources.alerting),
            replay_write(sources.alerting),
        ],
        raw=[stream_route(streams), schemas.route(), *Badges(sources).routes()],
        settings=sources.settings,
    )
