"""The registry of encoders by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labeltree.models.encoder import Encoder, Modality
from labeltree.plugins import load_plugins
from labeltree.preprocessing import ImageInput

__all__ = ["EncoderEntry", "register_encoder", "registered_encoders"]

EncoderFactory = Callable[[int, int], Encoder]


@dataclass(frozen=True)
class EncoderEntry:
    """A registered encoder.

    Attributes:
        name: Name of the encoder.
        summary: One line about it.
        factory: Builds the encoder with random weights.
        pretrained: Builds the encoder with pretrained weights; None if there are none.
        usually_pretrained: Whether it starts from pretrained weights by default.
        modality: Its input, "image", "text" or "vector".
        check: Raises an error if it cannot be built, pretrained or not, by quick checks only.
        from_config: Builds the encoder, for other weights, from the folder that its `save_config` wrote.
        images: The images that its pretrained weights were made for.
    """

    name: str
    summary: str
    factory: EncoderFactory
    pretrained: EncoderFactory | None = None
    usually_pretrained: bool = False
    modality: Modality = "image"
    check: Callable[[bool], object] | None = None
    from_config: Callable[[Path, int, int], Encoder] | None = None
    images: ImageInput | None = None


_ENTRIES: dict[str, EncoderEntry] = {}


def register_encoder(
    name: str,
    *,
    summary: str,
    pretrained: EncoderFactory | None = None,
    usually_pretrained: bool = False,
    modality: Modality = "image",
    check: Callable[[bool], object] | None = None,
    from_config: Callable[[Path, int, int], Encoder] | None = None,
    images: ImageInput | None = None,
) -> Callable[[EncoderFactory], EncoderFactory]:
    """Decorator: make `factory(channels, image_size) -> Encoder` known to `build_encoder` as `name`.

    A text encoder ignores channels and image size; of an encoder of vectors, the size is their length.

    Args:
        name: Without ":", which separates the names of other libraries.
        summary: One line for `list_encoders` and the command line.
        pretrained: Factory with pretrained weights.
        usually_pretrained: Start from pretrained weights by default.
        modality: Input of the encoder, "image", "text" or "vector".
        check: Called with whether the encoder will be pretrained, before any data are read; raises an error
            if the encoder cannot be built, for example if weights have not been downloaded.
        from_config: `from_config(folder, channels, image_size)` builds the encoder from what its
            `save_config` wrote, for weights that are loaded next; for encoders that need files besides them.
        images: The images that the pretrained weights were made for: they are read so unless the user says
            otherwise.

    Raises:
        ValueError: The name is taken or holds a ":", or there are no weights to start from.

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
    if usually_pretrained and pretrained is None:
        raise ValueError(f"encoder {name!r} is usually_pretrained, but no function pretrained is given")

    def add(factory: EncoderFactory) -> EncoderFactory:
        _ENTRIES[name] = EncoderEntry(
            name, summary, factory, pretrained, usually_pretrained, modality, check, from_config, images
        )
        return factory

    return add


def registered_encoders() -> dict[str, EncoderEntry]:
    """All registered encoders by name, a copy; also those of other packages (`labeltree.encoders`)."""
    load_plugins("encoders")
    return dict(_ENTRIES)
