"""The settings of callbacks: the listener of the daemon, and each workspace's own part."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.callbacks.task_secrets import task_secret
from monitor.listening.settings import AddressSettings, listen_address
from monitor.model.outside import split_web_url
from monitor.model.secrets import Secret
from monitor.model.settings import Setting, StartSetting, hard_to_guess

# Compared with when there is nothing to compare with, so that a miss takes the time of a hit.
_NEVER_GIVEN = Secret("\0 no callback carries this")


class SignatureMode(StrEnum):
    """What a signature that does not match leads to. The scheme itself is not published."""

    OFF = "off"  # not checked
    OBSERVE = "observe"  # counted and warned about; the callback is taken
    REQUIRE = "require"  # answered 401


def _public_url(url: str) -> str | None:
    parts = split_web_url(url)
    if parts is None:
        return 'must be an http or https URL, such as "https://monitor.example.com"'
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials; callbacks carry the secret in a header"
    if "?" in url or "#" in url or "/hooks" in parts.path:
        return "must be what comes before /hooks; remove /hooks, query and fragment"
    return None


def _no_empty_text(texts: list[str]) -> str | None:
    return None if all(text.strip() for text in texts) else "holds an empty text; remove that"


class ListenerSettings(AddressSettings, frozen=True, kw_only=True):
    """Listener for callbacks only. Without this table the daemon accepts no callbacks."""

    listen: Annotated[
        str,
        StartSetting(
            "HOST:PORT. Use loopback behind a reverse proxy that terminates TLS.",
            check=listen_address,
        ),
    ] = "127.0.0.1:9877"
    body_limit_bytes: Annotated[
        int,
        Meta(ge=256, le=1_048_576),
        StartSetting("Maximum size of a callback body; a larger one is answered 413."),
    ] = 64 * 1024
    body_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=30), StartSetting("Timeout for receiving the body of a callback.")
    ] = 10.0
    in_flight_limit: Annotated[
        int,
        Meta(ge=1, le=100_000),
        StartSetting(
            "Maximum number of callbacks in progress; more are answered 503 with Retry-After."
        ),
    ] = 1_000
    commit_timeout_seconds: Annotated[
        float,
        Meta(ge=0.1, le=25),
        StartSetting(
            "Timeout for storing a callback. The workspace itself gives up after 30 seconds."
        ),
    ] = 10.0
    wrong_secret_delay_seconds: float = 1.0


class CallbackSettings(Struct, frozen=True, kw_only=True):
    """Callbacks of this workspace. Without this table they are refused. Needs [callbacks]."""

    public_url: Annotated[
        str | None,
        Setting(
            "URL at which the workspace reaches [callbacks]. Without it no webhook task is "
            "created.",
            "https://monitor.example.com",
            _public_url,
        ),
    ] = None
    flows: Annotated[
        tuple[str, ...],
        Setting(
            'Flows in which the daemon registers a webhook task: ids, names, or "*" for all.',
            check=_no_empty_text,
        ),
    ] = ()
    secret: Annotated[
        Secret | None,
        Setting(
            "Shared secret of callbacks, at least 16 characters: openssl rand -hex 32.",
            "dataprep-callback-secret",
            hard_to_guess(16),
            is_required=True,
        ),
    ] = None
    former_secret: Annotated[
        Secret | None,
        Setting(
            "Previous shared secret; accepted too while webhook tasks switch to the new one.",
            "dataprep-callback-former-secret",
            hard_to_guess(16),
        ),
    ] = None
    former_secret_expires_at: Annotated[
        datetime | None,
        Setting(
            "End of the previous shared secret; from then on it is refused.",
            datetime(2027, 11, 23, tzinfo=UTC),
        ),
    ] = None
    signature: Annotated[
        SignatureMode,
        Setting("Bad signatures are ignored (off), counted (observe) or refused (require)."),
    ] = SignatureMode.OBSERVE
    signing_secret: Annotated[
        Secret | None,
        Setting(
            "Key that webhook tasks sign with. Without it no signature is verified.",
            "dataprep-signing-secret",
            hard_to_guess(16),
        ),
    ] = None
    inbox_bound: Annotated[
        int,
        Meta(ge=1, le=10_000_000),
        Setting("Maximum number of callbacks waiting for confirmation; more are answered 503."),
    ] = 50_000
    give_up_seconds: Annotated[
        float,
        Meta(ge=60, le=7 * 86_400),
        Setting("A callback whose run is not confirmed within this time is dropped."),
    ] = 86_400.0
    verify_seconds: Annotated[
        float,
        Meta(ge=30, le=86_400),
        Setting("Interval of checks that the registered webhook tasks still exist."),
    ] = 900.0
    miss_after_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        Setting("An expected callback that is later than this counts as missed."),
    ] = 120.0

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        return [*self._problems_of_signature(), *self._problems_of_former_secret()]

    def accepts(
        self, given: str, *, workspace: str, task_flow_id: str | None, now: datetime
    ) -> bool:
        """True for the secret, and for the former one before its end; in constant time.

        From the task of a flow only what is derived from them for this flow is right.
        """
        secret, former, end = self.secret, self.former_secret, self.former_secret_expires_at
        right, also_right = secret or _NEVER_GIVEN, former or _NEVER_GIVEN
        if task_flow_id is not None:
            right = task_secret(right, workspace=workspace, flow_id=task_flow_id)
            also_right = task_secret(also_right, workspace=workspace, flow_id=task_flow_id)
        is_current = right.matches(given) and secret is not None
        is_former = also_right.matches(given) and former is not None
        return is_current or (is_former and end is not None and now < end)

    def _problems_of_signature(self) -> list[str]:
        if self.signature is not SignatureMode.REQUIRE or self.signing_secret is not None:
            return []
        return [
            "signature: needs the key that is signed with; add signing_secret_file, or take observe"
        ]

    def _problems_of_former_secret(self) -> list[str]:
        if self.former_secret is None:
            return []
        if self.former_secret_expires_at is None:
            return ["former_secret: needs an end; add former_secret_expires_at"]
        if self.former_secret == self.secret:
            return ["former_secret: is the secret itself; remove it, or put a new secret there"]
        return []
