"""Encoders by name."""

import difflib
import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labeltree.models.encoder import Encoder, Modality
from labeltree.models.encoder_registry import registered_encoders
from labeltree.models.hub_cache import HubName
from labeltree.models.hub_names import is_any_library, pinned_name, pins
from labeltree.models.open_clip_images import (
    OPEN_CLIP,
    check_open_clip,
    load_open_clip,
    open_clip_images,
    rebuild_open_clip,
)
from labeltree.models.paired import paired
from labeltree.models.text_encoders.text_loading import (
    PREFIX,
    load_text_encoder,
    need_text_library,
    rebuild_text_encoder,
)
from labeltree.models.timm_and_torchvision import (
    LIBRARIES,
    check_timm_folder,
    library_names,
    load_timm_folder,
    rebuild_timm_folder,
    timm_folder,
    timm_folder_images,
    timm_images,
    torchvision_images,
    wrap_timm,
    wrap_torchvision,
)
from labeltree.models.transformers_images import (
    TRANSFORMERS,
    Pooling,
    check_transformers_folder,
    load_transformers_images,
    rebuild_transformers_images,
    transformers_images,
)
from labeltree.models.weights import load_weights
from labeltree.preprocessing import ImageInput
from labeltree.progress import Progress

__all__ = [
    "as_pinned",
    "build_encoder",
    "check_encoder",
    "check_encoder_name",
    "encoder_modality",
    "encoder_pair",
    "encoder_summaries",
    "encoder_with_absolute_path",
    "list_encoders",
    "pinned_encoder",
    "usual_images",
    "usually_pretrained",
]

_NAMES = {
    "hf:OWNER/NAME": "a network of the Hugging Face hub for images or texts; @REVISION may follow",
    "timm:NAME": "any image encoder of timm",
    "timm:./FOLDER": "a checkpoint of timm on this disk",
    "torchvision:NAME": "any image encoder of torchvision",
    "transformers:FOLDER": "a vision model of transformers on this disk: ViT, DINOv2, DINOv3, CLIP, SigLIP …",
    "open_clip:FOLDER": "the image tower of a checkpoint of open_clip on this disk, such as BioCLIP",
    "open_clip:NAME@FILE": "the same: an architecture of open_clip, and its weights in a file",
    "text:NAME": "a text encoder of the Hugging Face hub, or the folder of one",
    "IMAGES+TEXTS": "one for each, for samples that have both: small-conv+small-text",
}
_TEXT_PREFIXES = (PREFIX, "hf:")


@dataclass(frozen=True)
class _Family:
    """Encoders whose names begin alike, and that start from the weights that the name points to."""

    modality: Modality
    load: Callable[[str, int, int, bool, Pooling], Encoder]
    rebuild: Callable[[str, Path, int, int], Encoder]
    check: Callable[[str, bool], object]
    images: Callable[[str], ImageInput | None]


_TEXTS = _Family(
    "text",
    lambda name, _channels, _size, pretrained, _pooling: load_text_encoder(
        name, name.removeprefix(PREFIX), pretrained
    ),
    lambda name, folder, _channels, _size: rebuild_text_encoder(name, folder),
    lambda name, _pretrained: need_text_library(name),
    lambda _name: None,
)
_TRANSFORMERS = _Family(
    "image",
    load_transformers_images,
    rebuild_transformers_images,
    lambda name, pretrained: check_transformers_folder(name, pretrained=pretrained),
    transformers_images,
)
_OPEN_CLIP = _Family(
    "image",
    lambda name, channels, size, pretrained, _pooling: load_open_clip(name, channels, size, pretrained),
    rebuild_open_clip,
    lambda name, pretrained: check_open_clip(name, pretrained=pretrained),
    open_clip_images,
)
_TIMM_FOLDERS = _Family(
    "image",
    lambda name, channels, size, pretrained, _pooling: load_timm_folder(name, channels, size, pretrained),
    rebuild_timm_folder,
    lambda name, pretrained: check_timm_folder(name, pretrained=pretrained),
    timm_folder_images,
)
_FAMILIES = {PREFIX: _TEXTS, TRANSFORMERS: _TRANSFORMERS, OPEN_CLIP: _OPEN_CLIP}


def _family(name: str) -> _Family | None:
    if timm_folder(name) is not None:
        return _TIMM_FOLDERS
    return next((family for prefix, family in _FAMILIES.items() if name.startswith(prefix)), None)


def encoder_pair(name: str) -> tuple[str, str] | None:
    """The names of the image encoder and the text encoder in `IMAGES+TEXTS`; None if it is one encoder.

    A folder may have a plus in its name: the last one before the name of a text encoder separates the two.

    Example:
        >>> encoder_pair("small-conv+small-text"), encoder_pair("timm:./a+b")
        (('small-conv', 'small-text'), None)
    """
    known = registered_encoders()
    if name in known:
        return None
    for place in (at for at, mark in enumerate(name) if mark == "+"):
        images, texts = name[:place].strip(), name[place + 1 :].strip()
        reads_texts = texts in known and known[texts].modality == "text"
        if images and (reads_texts or texts.startswith(_TEXT_PREFIXES)):
            return images, texts
    return None


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of encoders for `build_encoder` that match `pattern` (such as "small-*"), sorted.

    Registered names by default; "timm:*" and "torchvision:*" list those libraries, if installed.
    """
    library, _, rest = pattern.partition(":")
    if rest and library in LIBRARIES:
        return [f"{library}:{name}" for name in library_names(library, rest)]
    return sorted(fnmatch.filter(registered_encoders(), pattern))


def encoder_summaries() -> dict[str, str]:
    """A line about every encoder: those of `list_encoders`, then how those of other libraries are named."""
    own = registered_encoders()
    return {name: own[name].summary for name in sorted(own)} | _NAMES


def encoder_modality(name: str) -> Modality:
    """The modality of the encoder called `name`, "image", "text" or "both", without building it."""
    if encoder_pair(name) is not None:
        return "both"
    if is_any_library(name):
        name = pinned_encoder(name, pretrained=False)
    entry, family = registered_encoders().get(name), _family(name)
    if entry is not None:
        return entry.modality
    return "image" if family is None else family.modality


def usually_pretrained(name: str) -> bool:
    """Whether the encoder called `name` starts from pretrained weights unless the user says otherwise.

    Example:
        >>> from labeltree.models import usually_pretrained
        >>> usually_pretrained("minilm"), usually_pretrained("small-conv"), usually_pretrained("timm:./vit")
        (True, False, True)
    """
    if pair := encoder_pair(name):
        return any(map(usually_pretrained, pair))
    entry = registered_encoders().get(name)
    if entry is not None:
        return entry.usually_pretrained
    return is_any_library(name) or _family(name) is not None


def usual_images(name: str) -> ImageInput | None:
    """The images that the pretrained weights of the encoder called `name` were made for; None: not known.

    Raises:
        ImportError: The library that the name belongs to is not installed.
        DataError: The folder or a file is missing or damaged.
    """
    if pair := encoder_pair(name):
        name = pair[0]
    if is_any_library(name):
        name = pinned_encoder(name, pretrained=False)
    entry, family = registered_encoders().get(name), _family(name)
    if entry is not None:
        return entry.images
    if family is not None:
        return family.images(name)
    library, _, rest = name.rpartition(":")
    return torchvision_images(rest) if library == "torchvision" else timm_images(rest)


def pinned_encoder(
    name: str,
    *,
    pretrained: bool | None = None,
    weights: str | Path | None = None,
    progress: Progress | None = None,
) -> str:
    """The name of an encoder with the commit of the Hugging Face hub's repository that it means now, if any.

    What the hub's cache lacks is downloaded, pickles and code excepted. The other arguments are those of
    `build_encoder`.

    Args:
        name: Name of an encoder: "hf:facebook/dinov2-small", "text:sentence-transformers/all-MiniLM-L6-v2",
            a name of timm whose pretrained weights are wanted, "open_clip:hf-hub:imageomics/bioclip-2".
        progress: Callback that reports progress; None = a line on a terminal.

    Raises:
        ImportError: a library that it needs is not installed.
        DataError: It is not in the cache and cannot be had, has no weights in safetensors, or needs code of
            its own.
        WriteError: The disk is full, or the cache cannot be written to.
    """
    if pair := encoder_pair(name):
        return "+".join(
            pinned_encoder(one, pretrained=_is_pretrained(one, pretrained, weights), progress=progress)
            for one in pair
        )
    if name in registered_encoders():
        return name
    return pinned_name(name, _starts_pretrained(name, pretrained, weights), progress)


def as_pinned(name: str, pinned: str, *, pretrained: bool | None = None) -> str:
    """The pinned name of a run, if it is the pinned form of `name`; else `name`. Nothing is fetched.

    Args:
        name: Name of an encoder.
        pinned: The name that a run has recorded.
        pretrained: See `build_encoder`.
    """
    pair, known = encoder_pair(name) or (name,), encoder_pair(pinned) or (pinned,)
    same = len(pair) == len(known) and all(
        one == other or pins(other, one, _starts_pretrained(one, pretrained, None))
        for one, other in zip(pair, known, strict=True)
    )
    return pinned if same else name


def encoder_with_absolute_path(name: str) -> str:
    """The name of an encoder with its folder or file as an absolute path, if there is one."""
    if pair := encoder_pair(name):
        return "+".join(map(encoder_with_absolute_path, pair))
    if _family(name) is None or HubName.of(name) is not None:
        return name
    prefix, _, rest = name.partition(":")
    place = timm_folder(name) or rest
    front, at, file = place.rpartition("@")
    if place and Path(place).expanduser().exists():
        return f"{prefix}:{Path(place).expanduser().resolve()}"
    if f"{prefix}:" == OPEN_CLIP and at and Path(file).expanduser().is_file():
        return f"{prefix}:{front}@{Path(file).expanduser().resolve()}"
    return name


def check_encoder(name: str, *, pretrained: bool | None = None, weights: str | Path | None = None) -> None:
    """Raise an error if an encoder cannot be built, as far as quick checks can tell.

    The arguments are those of `build_encoder`; only that function looks up names of other libraries.

    Raises:
        ValueError: The file of weights does not exist.
        ImportError: a library is not installed.
        DataError: Packaged weights have not been downloaded, or a folder lacks a file.
    """
    if weights is not None and not Path(weights).is_file():
        raise ValueError(f"weights: there is no file {weights}")
    if pair := encoder_pair(name):
        for one in pair:
            check_encoder(one, pretrained=_is_pretrained(one, pretrained, weights))
        return
    name = pinned_encoder(name, pretrained=pretrained, weights=weights)
    entry, family = registered_encoders().get(name), _family(name)
    starts = _starts_pretrained(name, pretrained, weights)
    if entry is not None:
        if entry.check is not None:
            entry.check(starts)
    elif family is not None:
        family.check(name, starts)


def _starts_pretrained(name: str, pretrained: bool | None, weights: str | Path | None) -> bool:
    return weights is None and usually_pretrained(name) if pretrained is None else pretrained


def build_encoder(
    name: str,
    *,
    channels: int = 3,
    image_size: int = 32,
    pretrained: bool | None = None,
    weights: str | Path | None = None,
    pooling: Pooling = "auto",
    config: str | Path | None = None,
) -> Encoder:
    """Build the encoder called `name`.

    Args:
        name: a registered name (`list_encoders()`), two joined by a plus (an image encoder, then a text
            encoder: "small-conv+small-text"), "timm:NAME", "torchvision:NAME", a bare name of timm,
            "hf:OWNER/NAME" or "text:NAME", a network of the Hugging Face hub (see `pinned_encoder`); or a
            checkpoint on this disk: "transformers:FOLDER", "open_clip:FOLDER", "open_clip:NAME@FILE",
            "text:FOLDER" or "timm:./FOLDER".
        channels: Channels of the images; text encoders ignore it.
        image_size: Height and width of the images in pixels; text encoders ignore it. Of "vectors": their
            length.
        pretrained: Start from published weights: the library's, those in the folder, or those that
            `labeltree data get NAME` downloads. None = the default of the encoder (`usually_pretrained`).
            True, of a pair: those that usually do.
        weights: Start from this file, `.safetensors` or a PyTorch state dict; no code in it is run.
        pooling: Of "transformers:FOLDER" and image models of "hf:": "pooler", "cls" or "mean"; "auto": as its
            authors do, see `TransformersImages`.
        config: Build it from this folder, which `Encoder.save_config` wrote, and not from the place that the
            name points to. Its weights are to be loaded next: until then they may have any values. If there
            is no such folder, `config` is ignored.

    Raises:
        ValueError: The name is unknown (the message gives the nearest names), or the weights do not fit.
        ImportError: The library that the name belongs to is not installed.
        DataError: Published weights could not be downloaded, or have not been downloaded yet; a file of a
            folder is missing or damaged.

    Example:
        >>> from labeltree.models import build_encoder
        >>> encoder = build_encoder("small-conv", channels=1, image_size=28)
        >>> encoder.feature_dim, len(encoder.stages)
        (96, 4)
    """
    if channels < 1 or image_size < 1:
        raise ValueError(f"channels is {channels} and image_size is {image_size}; expected at least 1")
    if pair := encoder_pair(name):
        encoder = _build_pair(
            name, pair, channels, image_size, _pair_is_pretrained(pretrained, weights), pooling, config
        )
        if weights is not None:
            load_weights(encoder, weights)
        return encoder
    if config is None or not Path(config).is_dir():
        name = pinned_encoder(name, pretrained=pretrained, weights=weights)
    if pooling != "auto" and not name.startswith(TRANSFORMERS):
        raise ValueError(f"pooling is {pooling!r}, but encoder {name!r} has its own; leave it at 'auto'")
    kept = _rebuilt(name, channels, image_size, config)
    encoder = (
        _build(name, channels, image_size, _starts_pretrained(name, pretrained, weights), pooling)
        if kept is None
        else kept
    )
    if weights is not None:
        load_weights(encoder, weights)
    return encoder


def _pair_is_pretrained(pretrained: bool | None, weights: str | Path | None) -> bool | None:
    return False if pretrained is None and weights is not None else pretrained


def _is_pretrained(name: str, pretrained: bool | None, weights: str | Path | None = None) -> bool | None:
    """Whether one of a pair starts from published weights: if any do, it is those that usually do."""
    return usually_pretrained(name) if _pair_is_pretrained(pretrained, weights) in (None, True) else False


def _build_pair(
    name: str,
    pair: tuple[str, str],
    channels: int,
    image_size: int,
    pretrained: bool | None,
    pooling: Pooling,
    config: str | Path | None,
) -> Encoder:
    """The encoder of images and texts, each built by its own name."""
    image, text = (
        build_encoder(
            one,
            channels=channels,
            image_size=image_size,
            pretrained=_is_pretrained(one, pretrained),
            pooling=pooling if one.startswith((TRANSFORMERS, "hf:")) and one == pair[0] else "auto",
            config=None if config is None else Path(config) / side,
        )
        for one, side in zip(pair, ("image", "text"), strict=True)
    )
    return paired(name, image, text)


def _rebuilt(name: str, channels: int, image_size: int, config: str | Path | None) -> Encoder | None:
    """The encoder from a folder that `save_config` wrote; None if there is none."""
    if config is None or not Path(config).is_dir():
        return None
    entry, family = registered_encoders().get(name), _family(name)
    if entry is not None:
        from_config = entry.from_config
        return None if from_config is None else from_config(Path(config), channels, image_size)
    return None if family is None else family.rebuild(name, Path(config), channels, image_size)


def _build(name: str, channels: int, image_size: int, pretrained: bool, pooling: Pooling) -> Encoder:
    entry, family = registered_encoders().get(name), _family(name)
    if entry is not None:
        factory = entry.pretrained if pretrained else entry.factory
        if factory is None:
            raise ValueError(
                f"encoder {name!r} has no pretrained weights; use weights=FILE, or a name of timm"
            )
        return factory(channels, image_size)
    if family is not None:
        return family.load(name, channels, image_size, pretrained, pooling)
    library, _, rest = name.rpartition(":")
    if library == "torchvision" and rest in library_names("torchvision"):
        return wrap_torchvision(rest, channels, image_size, pretrained)
    if library == "timm" or (not library and rest.split(".")[0] in library_names("timm")):
        bare = rest.split(".")[0]  # a tag of pretrained weights may follow the name
        known = library_names("timm")
        if bare in known or not known:
            return wrap_timm(rest, channels, image_size, pretrained)
    raise _unknown(name)


def check_encoder_name(name: str, modality: Modality) -> None:
    """Raise an error if no encoder has that name; names of other libraries are looked up.

    Args:
        name: The name.
        modality: What an encoder should read that was meant.

    Raises:
        ValueError: With the nearest names of such encoders.
    """
    library, _, rest = name.rpartition(":")
    if name in registered_encoders() or _family(name) or is_any_library(name) or encoder_pair(name):
        return
    bare = rest if library == "torchvision" else rest.split(".")[0]
    known = library_names(library or "timm") if library in ("", *LIBRARIES) else []
    if bare not in known and (known or not library):
        raise _unknown(name, modality)


def _unknown(name: str, modality: Modality = "image") -> ValueError:
    return ValueError(f"encoder is {name!r}, which is unknown; {_nearest(name, modality)}")


def _nearest(name: str, modality: Modality) -> str:
    library, _, rest = name.partition(":")
    if library in LIBRARIES and Path(rest).is_dir():
        return f"a folder is written with its path: '{library}:./{rest}'"
    own = [n for n, entry in registered_encoders().items() if modality in ("image", entry.modality)]
    if modality != "image":
        near = difflib.get_close_matches(name, own, n=2, cutoff=0.5)
        return f"did you mean {' or '.join(map(repr, near or sorted(own)))}?"
    names = own + [f"{library}:{n}" for library in LIBRARIES for n in library_names(library)]
    wanted = name if ":" in name else f"timm:{name}"
    near = difflib.get_close_matches(name, own, n=2, cutoff=0.5) + difflib.get_close_matches(
        wanted, names, n=3, cutoff=0.6
    )
    if near:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?"
    return f"expected one of {', '.join(map(repr, [*sorted(own), *_NAMES]))}"
