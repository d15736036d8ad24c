"""An OpenID provider on loopback, of a library, that notes what it is asked and what it issues."""

from __future__ import annotations

import io
import json
import threading
from typing import Any
from urllib.parse import parse_qs

import oidc_provider_mock  # type: ignore[import-untyped]
from werkzeug.serving import make_server

_CLAIMS: dict[str, dict[str, Any]] = {
    "read-user": {},
    "grace": {"groups": ["staff", "group-operate-user"]},
    "eve": {"groups": "staff"},
    "unverified": {"email": "read-user@example.com", "email_verified": False},
    "as-text": {"email": "read-user@example.com", "email_verified": "false"},
    "another": {"email": "read-user@example.com", "azp": "another-client"},
    "admin": {"email": "admin-user", "groups": ["group-read-user"]},
    "member": {"groups": ["group-read-user", *(f"group-{number}" for number in range(1_000))]},
    "new\nline": {"groups": ["group-read-user"]},
}
USERS = [
    oidc_provider_mock.User(sub=name, claims={"email": f"{name}@example.com", **claims})
    for name, claims in _CLAIMS.items()
]


class Provider:
    """A provider that notes what its token endpoint gets and gives, and may be stopped."""

    def __init__(self) -> None:
        self._app = oidc_provider_mock.app(require_nonce=True, user_claims=USERS)
        self.exchanged: list[dict[str, list[str]]] = []
        self.issued: list[dict[str, Any]] = []  # ID tokens and access tokens
        self.is_quoting = False  # it refuses codes, with what it was sent
        self._server = make_server("127.0.0.1", 0, self, threaded=True)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/oauth2/token":
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = io.BytesIO(body)
            self.exchanged.append(parse_qs(body.decode()))
            if self.is_quoting:
                quoted = f"not with {body.decode()} and {environ.get('HTTP_AUTHORIZATION')}"
                start_response("400 Bad Request", [("Content-Type", "application/json")])
                refusal = {"error": "invalid_client", "error_description": quoted}
                return [json.dumps(refusal).encode()]
            answer = b"".join(self._app(environ, start_response))
            self.issued.append(json.loads(answer))
            return [answer]
        return self._app(environ, start_response)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
