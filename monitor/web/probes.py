"""A listener of its own for probes: an orchestrator finds it free whatever clients do elsewhere."""

from __future__ import annotations

import msgspec
from aiohttp import hdrs, web

from monitor.listening.http_listener import STOP_SECONDS, HttpListener
from monitor.listening.refusals import Refusals
from monitor.listening.settings import AddressSettings
from monitor.model.clock import Clock
from monitor.web.health import ReadChecks, Readiness, readiness

_HEALTH, _READINESS = "/healthz", "/readyz"


class ProbeListener:
    """Answers ``/healthz`` and ``/readyz``, in plain HTTP: ok or not, and nothing else."""

    def __init__(
        self,
        listen: str,
        *,
        checks: ReadChecks,
        store_id: str | None,
        refusals: Refusals,
        clock: Clock,
    ) -> None:
        self._checks = checks
        self._store_id = store_id
        self._listener = HttpListener(
            "server",
            settings=AddressSettings(listen=listen),
            refusals=refusals,
            clock=clock,
            address_key="probe_listen",
        )

    async def start(self) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            AddressError: the address cannot be listened on.
        """
        server = web.Server(self._answer, **self._listener.options())
        return await self._listener.start(web.ServerRunner(server, shutdown_timeout=STOP_SECONDS))

    async def stop(self) -> None:
        await self._listener.stop()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            return web.Response(status=405, headers={hdrs.ALLOW: "GET, HEAD"})
        if request.path == _HEALTH:
            return web.json_response({"alive": True, "store": self._store_id})
        if request.path != _READINESS:
            return web.Response(status=404)
        found = await readiness(self._checks())
        return web.Response(
            status=200 if found.ready else 503,
            body=msgspec.json.encode(Readiness(ready=found.ready, checks={})),
            content_type="application/json",
        )
