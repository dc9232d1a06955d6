"""What tools read of constructors is what users give, on every Python."""

import inspect

import pytest

from labeltree import losses, sampling

CLASSES = [
    made
    for room in (losses, sampling)
    for made in (getattr(room, name) for name in room.__all__)
    if isinstance(made, type) and made.__module__.startswith("labeltree") and not inspect.isabstract(made)
]


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.__name__)
def test_the_signature_of_a_class_is_that_of_its_constructor(made: type) -> None:
    if made.__name__ == "StoredKeys":  # a tuple, whose `__new__` makes it
        return
    shown = list(inspect.signature(made).parameters.values())
    assert shown == list(inspect.signature(made.__init__).parameters.values())[1:]  # type: ignore[misc]
