"""Encoders by name."""

import difflib
import fnmatch
from pathlib import Path

from labeltree.models.encoder import Encoder, Modality
from labeltree.models.registry import registered_encoders
from labeltree.models.text_loading import PREFIX, load_text_encoder, need_text_library
from labeltree.models.weights import load_weights
from labeltree.models.wrapped import LIBRARIES, library_names, wrap_timm, wrap_torchvision

__all__ = ["build_encoder", "check_encoder", "encoder_modality", "list_encoders", "usually_pretrained"]


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of encoders for `build_encoder` that match `pattern` (such as "small-*"), sorted.

    Registered names by default; "timm:*" and "torchvision:*" list those libraries, if installed.
    """
    library, _, rest = pattern.partition(":")
    if rest and library in LIBRARIES:
        return [f"{library}:{name}" for name in library_names(library, rest)]
    return sorted(fnmatch.filter(registered_encoders(), pattern))


def encoder_modality(name: str) -> Modality:
    """The modality of the encoder called `name`, "image" or "text", without building it."""
    entry = registered_encoders().get(name)
    if entry is not None:
        return entry.modality
    return "text" if name.startswith(PREFIX) else "image"


def usually_pretrained(name: str) -> bool:
    """Whether the encoder called `name` starts from pretrained weights unless the user says otherwise.

    Example:
        >>> from labeltree.models import usually_pretrained
        >>> usually_pretrained("minilm"), usually_pretrained("small-conv")
        (True, False)
    """
    entry = registered_encoders().get(name)
    return name.startswith(PREFIX) if entry is None else entry.usually_pretrained


def check_encoder(name: str, *, pretrained: bool | None = None, weights: str | Path | None = None) -> None:
    """Raise an error if an encoder cannot be built, as far as quick checks can tell.

    The arguments are those of `build_encoder`; only that function looks up names of other libraries.

    Raises:
        ValueError: the file of weights does not exist.
        ImportError: a library is not installed.
        DataError: packaged weights have not been downloaded.
    """
    if weights is not None and not Path(weights).is_file():
        raise ValueError(f"weights: there is no file {weights}")
    entry = registered_encoders().get(name)
    if entry is not None and entry.check is not None:
        entry.check(_starts_pretrained(name, pretrained, weights))
    elif name.startswith(PREFIX):
        need_text_library(name)


def _starts_pretrained(name: str, pretrained: bool | None, weights: str | Path | None) -> bool:
    return weights is None and usually_pretrained(name) if pretrained is None else pretrained


def build_encoder(
    name: str,
    *,
    channels: int = 3,
    image_size: int = 32,
    pretrained: bool | None = None,
    weights: str | Path | None = None,
) -> Encoder:
    """Build the encoder called `name`.

    Args:
        name: a registered name (`list_encoders()`), "timm:NAME", "torchvision:NAME", a bare name of timm, or
            "text:NAME", a model of sentence-transformers or transformers, or the folder of one.
        channels: channels of the images; text encoders ignore it.
        image_size: height and width of the images in pixels; text encoders ignore it.
        pretrained: start from published weights: the library's, or those that `labeltree data get NAME`
            downloads. None = the default of the encoder (`usually_pretrained`).
        weights: start from this file, `.safetensors` or a PyTorch state dict; no code in it is run.

    Raises:
        ValueError: the name is unknown (the message gives the nearest names), or the weights do not fit.
        ImportError: the library that the name belongs to is not installed.
        DataError: published weights could not be downloaded, or have not been downloaded yet.

    Example:
        >>> from labeltree.models import build_encoder
        >>> encoder = build_encoder("small-conv", channels=1, image_size=28)
        >>> encoder.feature_dim, len(encoder.stages)
        (96, 4)
    """
    if channels < 1 or image_size < 1:
        raise ValueError(f"channels is {channels} and image_size is {image_size}; expected at least 1")
    pretrained = _starts_pretrained(name, pretrained, weights)
    entry = registered_encoders().get(name)
    if entry is not None:
        factory = entry.pretrained if pretrained else entry.factory
        if factory is None:
            raise ValueError(
                f"encoder {name!r} has no pretrained weights; use weights=FILE, or a name of timm"
            )
        encoder = factory(channels, image_size)
    else:
        encoder = _from_library(name, channels, image_size, pretrained)
    if weights is not None:
        load_weights(encoder, weights)
    return encoder


def _from_library(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    if name.startswith(PREFIX):
        return load_text_encoder(name, name.removeprefix(PREFIX), pretrained)
    library, _, rest = name.rpartition(":")
    if library == "torchvision" and rest in library_names("torchvision"):
        return wrap_torchvision(rest, channels, image_size, pretrained)
    if library == "timm" or (not library and rest.split(".")[0] in library_names("timm")):
        bare = rest.split(".")[0]  # a tag of pretrained weights may follow the name
        known = library_names("timm")
        if bare in known or not known:
            return wrap_timm(rest, channels, image_size, pretrained)
    raise ValueError(f"encoder is {name!r}, which is unknown; {_nearest(name)}")


def _nearest(name: str) -> str:
    own = list(registered_encoders())
    names = own + [f"{library}:{n}" for library in LIBRARIES for n in library_names(library)]
    wanted = name if ":" in name else f"timm:{name}"
    near = difflib.get_close_matches(name, own, n=2, cutoff=0.5) + difflib.get_close_matches(
        wanted, names, n=3, cutoff=0.6
    )
    if near:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?"
    return (
        f"expected one of {', '.join(map(repr, sorted(own)))}, 'timm:NAME', 'torchvision:NAME' or 'text:NAME'"
    )
