"""Public shapes are filled from what is known."""

from __future__ import annotations

import pytest
from msgspec import Struct

from monitor.model.public_shapes import filled


class Known(Struct):
    """What is known: two fields, and what follows from them."""

    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height


class Shown(Struct, kw_only=True):
    height: int
    area: int
    name: str = "none"


class Named(Struct, kw_only=True):
    name: str


def test_a_shape_has_what_is_known_by_the_same_names() -> None:
    """Properties count too, and what is handed in goes before what is known."""
    known = Known(2, 3)
    assert filled(Shown, known, name="a") == Shown(height=3, area=6, name="a")
    assert filled(Shown, known, area=7, name="b") == Shown(height=3, area=7, name="b")
    assert filled(Named, known, name="c") == Named(name="c")
    assert filled(Named, Named(name="d")) == Named(name="d")


def test_a_field_that_is_neither_known_nor_handed_in_is_a_mistake() -> None:
    """A default hides no field that was forgotten, and no shape takes a field of another."""
    with pytest.raises(AttributeError, match="name"):
        filled(Shown, Known(2, 3))
    with pytest.raises(TypeError, match="depth"):
        filled(Shown, Known(2, 3), name="a", depth=4)
