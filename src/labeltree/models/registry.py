"""The encoders that have a name of their own."""

from collections.abc import Callable
from dataclasses import dataclass

from labeltree.models.encoder import Encoder

__all__ = ["EncoderEntry", "register_encoder", "registered_encoders"]

EncoderFactory = Callable[[int, int], Encoder]


@dataclass(frozen=True)
class EncoderEntry:
    """A registered encoder: its name, one line about it, and the function that builds it."""

    name: str
    summary: str
    factory: EncoderFactory


_ENTRIES: dict[str, EncoderEntry] = {}


def register_encoder(name: str, *, summary: str) -> Callable[[EncoderFactory], EncoderFactory]:
    """Decorator: make `factory(channels, image_size) -> Encoder` known to `build_encoder` as `name`.

    Args:
        name: without ":", which separates the names of other libraries.
        summary: one line for `list_encoders` and the command line.

    Raises:
        ValueError: the name is taken or holds a ":".

    Example:
        >>> from labeltree.models import list_encoders, register_encoder
        >>> @register_encoder("my-encoder", summary="for the example")
        ... def my_encoder(channels, image_size): ...
        >>> "my-encoder" in list_encoders("my-*")
        True
    """
    if not name or ":" in name:
        raise ValueError(f"name is {name!r}; expected a name without ':'")
    if name in _ENTRIES:
        raise ValueError(f"an encoder named {name!r} is registered already; choose another name")

    def add(factory: EncoderFactory) -> EncoderFactory:
        _ENTRIES[name] = EncoderEntry(name, summary, factory)
        return factory

    return add


def registered_encoders() -> dict[str, EncoderEntry]:
    """All registered encoders by name, a copy."""
    return dict(_ENTRIES)
