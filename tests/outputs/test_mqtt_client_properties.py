"""Properties that are packed in advance equal those that the library packs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from monitor.outputs.mqtt.packets import packed_properties

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@given(
    content_type=st.none() | TEXTS,
    is_text=st.booleans(),
    expiry_seconds=st.none() | st.integers(0, 2**32 - 1),
    user_properties=st.lists(st.tuples(TEXTS, TEXTS), max_size=6).map(tuple),
)
def test_packed_properties_are_the_librarys(
    content_type: str | None,
    is_text: bool,  # noqa: FBT001 - drawn
    expiry_seconds: int | None,
    user_properties: tuple[tuple[str, str], ...],
) -> None:
    """The bytes are equal for any values."""
    expected = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
    if is_text:
        expected.PayloadFormatIndicator = 1
    if expiry_seconds is not None:
        expected.MessageExpiryInterval = expiry_seconds
    if content_type is not None:
        expected.ContentType = content_type
    if user_properties:
        expected.UserProperty = list(user_properties)

    packed = packed_properties(
        content_type=content_type,
        is_text=is_text,
        expiry_seconds=expiry_seconds,
        user_properties=user_properties,
    )

    assert packed == expected.pack()  # type: ignore[no-untyped-call]  # paho
