"""Encoders of timm and torchvision; the libraries are imported when an encoder needs them."""

import contextlib
import fnmatch
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labeltree.errors import DataError
from labeltree.models.encoder import Encoder
from labeltree.models.encoder_config import READER
from labeltree.models.hub_cache import HUB
from labeltree.models.local_folders import first_line, need_files, need_library
from labeltree.models.stages import block_stages
from labeltree.offline import offline
from labeltree.preprocessing import ImageInput, Preprocessing, filter_name
from labeltree.safe_files import read_json

__all__ = [
    "LIBRARIES",
    "WrappedEncoder",
    "check_timm_folder",
    "fitting",
    "library_names",
    "load_timm_folder",
    "measured_width",
    "rebuild_timm_folder",
    "timm_folder",
    "timm_folder_images",
    "timm_images",
    "torchvision_images",
    "wrap_timm",
    "wrap_torchvision",
]

LIBRARIES = ("timm", "torchvision")
_TIMM = "timm:"
_LOCAL = "local-dir:"  # timm's own mark of a folder
_CONFIG = "config.json"
_TIMM_CROP = 0.875  # timm's own default


class WrappedEncoder(Encoder):
    """A network of another library that maps images to features; its stages are found in its children."""

    def __init__(self, name: str, net: nn.Module, channels: int, image_size: int) -> None:
        super().__init__(name, measured_width(name, net, channels, image_size))
        self.net = net

    @property
    def stages(self) -> list[nn.Module]:
        """The network's stages or blocks in order, each with the single layers before it."""
        return block_stages(self.net)

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, c, h, w)."""
        features: Tensor = self.net(images)
        return features


class _TimmFolder(WrappedEncoder):
    """A network of timm from a folder, whose configuration it keeps."""

    config: dict[str, Any]

    def save_config(self, folder: Path) -> None:
        """Write timm's own configuration."""
        (folder / _CONFIG).write_text(json.dumps(self.config, indent=2) + "\n", "utf-8")


def timm_folder(name: str) -> str | None:
    """The folder in an encoder's name such as "timm:./model" or "timm:local-dir:model"; None: it names none.

    A folder has a path separator in it, to be told from the names of timm. What is on the Hugging Face hub,
    "timm:hf-hub:OWNER/NAME", is read from a folder, too.
    """
    if not name.startswith(_TIMM):
        return None
    rest = name.removeprefix(_TIMM)
    local = rest.removeprefix(_LOCAL)
    return local if local != rest or rest.startswith(HUB) or "/" in rest or "\\" in rest else None


def check_timm_folder(name: str, *, pretrained: bool = True) -> Path:
    """The folder that the encoder's name contains, after quick checks.

    Raises:
        ImportError: Timm is not installed.
        DataError: The folder lacks a file.
    """
    need_library(f"encoder {name!r}", "timm", "timm", "timm")
    return need_files(name, timm_folder(name) or "", _CONFIG, weights=pretrained)


def timm_folder_images(name: str) -> ImageInput:
    """The images that the network in a folder was made for."""
    folder = check_timm_folder(name, pretrained=False)
    config = read_json(folder / _CONFIG, READER)
    return _timm_input(config.get("pretrained_cfg", config))


def timm_images(name: str) -> ImageInput | None:
    """The images that timm's pretrained weights for `name` were made for; None if it has none."""
    timm = import_timm(name)
    try:
        published = timm.get_pretrained_cfg(name)
    except (RuntimeError, ValueError):  # an unknown name, of which building says what is near
        return None
    return None if published is None else _timm_input(published.to_dict())


def _timm_input(config: Mapping[str, Any]) -> ImageInput:
    channels, height, width = map(int, config.get("input_size") or (3, 224, 224))
    crop = float(config.get("crop_pct") or _TIMM_CROP)
    squash = config.get("crop_mode") == "squash"
    how = Preprocessing(min(crop, 1.0), squash, filter_name(config.get("interpolation")))
    return ImageInput(channels, height if height == width else None, how)


def torchvision_images(name: str) -> ImageInput | None:
    """The images that torchvision's best weights for `name` were made for; None if it has none."""
    how = _torchvision_transforms(name)
    if how is None:
        return None
    (size,), (resized,) = how.crop_size, how.resize_size
    kind = filter_name(how.interpolation.value)
    return ImageInput(3, int(size), Preprocessing(min(size / resized, 1.0), False, kind))


def _torchvision_transforms(name: str) -> Any:
    """The transforms of torchvision's best weights for a classifier; None if there are none."""
    from torchvision import models

    try:
        weights = models.get_model_weights(name).DEFAULT
    except (AttributeError, ValueError):
        return None
    how = weights.transforms()
    return how if hasattr(how, "crop_size") else None


def load_timm_folder(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    """The network of timm in a folder, as `timm.models.save_for_hf` or the Hugging Face hub writes it.

    Raises:
        ImportError: Timm is not installed.
        DataError: The folder or a file is missing or damaged.
    """
    folder = check_timm_folder(name, pretrained=pretrained)
    return _build_from_timm_folder(name, folder, channels, image_size, pretrained)


def rebuild_timm_folder(name: str, folder: Path, channels: int, image_size: int) -> Encoder:
    """The encoder whose `save_config` wrote `folder`; its weights are to be loaded next."""
    return _build_from_timm_folder(name, folder, channels, image_size, False)


def _build_from_timm_folder(
    name: str, folder: Path, channels: int, image_size: int, pretrained: bool
) -> Encoder:
    config = read_json(folder / _CONFIG, READER)
    if not isinstance(config.get("architecture"), str):
        raise READER.failure(folder / _CONFIG, "it names no architecture of timm")
    try:
        net = _timm_net(f"{_LOCAL}{folder}", channels, image_size, pretrained)
    except Exception as error:
        raise DataError(f"encoder {name!r} cannot be loaded: {first_line(error)}") from error
    encoder = _TimmFolder(name, net, channels, image_size)
    encoder.config = config
    _set_normalisation(encoder)
    return encoder


def wrap_timm(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    """timm's encoder `name` without its classifier; of pretrained weights, those that are not on the hub."""
    full_name = f"{_TIMM}{name}"
    if pretrained:
        _need_file(full_name, getattr(import_timm(name).models.get_pretrained_cfg(name), "url", None))
    net = _create(full_name, lambda: _timm_net(name, channels, image_size, pretrained), pretrained)
    encoder = WrappedEncoder(full_name, net, channels, image_size)
    if channels == 3:
        _set_normalisation(encoder)
    return encoder


def _timm_net(name: str, channels: int, image_size: int, pretrained: bool) -> nn.Module:
    timm = import_timm(name)
    options: dict[str, Any] = {"pretrained": pretrained, "in_chans": channels, "num_classes": 0}

    try:
        net: nn.Module = timm.create_model(name, img_size=image_size, **options)
    except TypeError as error:  # a convolutional network has no fixed image size
        if "img_size" not in str(error):
            raise
        net = timm.create_model(name, **options)
    return net


def _set_normalisation(encoder: WrappedEncoder) -> None:
    published = getattr(encoder.net, "pretrained_cfg", {})
    if published.get("mean") and published.get("std"):
        encoder.mean, encoder.std = tuple(published["mean"]), tuple(published["std"])


def wrap_torchvision(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    """torchvision's encoder `name` without its classifier."""
    from torchvision import models

    full_name = f"torchvision:{name}"
    weights = "DEFAULT" if pretrained else None
    if pretrained:
        _need_file(full_name, models.get_model_weights(name)["DEFAULT"].url)
    net = _create(full_name, lambda: models.get_model(name, weights=weights), pretrained)
    if hasattr(net, "aux_logits"):
        raise ValueError(f"{full_name} has auxiliary classifiers and cannot be an encoder; use timm")
    _drop_classifier(full_name, net)
    if channels != 3:
        _set_channels(net, channels)
    encoder = WrappedEncoder(full_name, net, channels, image_size)
    if channels == 3 and (how := _torchvision_transforms(name)) is not None:
        encoder.mean, encoder.std = tuple(how.mean), tuple(how.std)
    return encoder


def _need_file(name: str, url: str | None) -> None:
    """Raise a DataError if nothing may be fetched, and the file of pretrained weights was not before."""
    if url is None or not offline():
        return
    file = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if not file.is_file():
        raise DataError(
            f"the pretrained weights of encoder {name!r} are not in '{file}', and nothing may be fetched "
            "(LABELTREE_OFFLINE, HF_HUB_OFFLINE); fetch them elsewhere, and give the file as weights"
        )


def _create(name: str, create: Callable[[], nn.Module], pretrained: bool) -> nn.Module:
    try:
        return create()
    except Exception as error:
        if not pretrained:
            raise
        raise DataError(
            f"the pretrained weights of encoder {name!r} could not be had: {error}; without a connection,"
            " fetch them elsewhere and give the file as weights"
        ) from error


def import_timm(name: str) -> Any:
    """The module timm, or an error that says how to install it."""
    try:
        import timm
    except ImportError as error:
        raise ImportError(
            f"encoder 'timm:{name}' needs the library timm; install it with: pip install 'labeltree[timm]'"
        ) from error
    return timm


def library_names(library: str, pattern: str = "*") -> list[str]:
    """Names of `library` ("timm", "torchvision") that match `pattern`; none if it is not installed."""
    if importlib.util.find_spec(library) is None:
        return []
    if library == "timm":
        return sorted(fnmatch.filter(import_timm("").list_models(), pattern))
    from torchvision import models

    return sorted(fnmatch.filter(models.list_models(models), pattern))


@contextlib.contextmanager
def fitting(name: str, channels: int, image_size: int) -> Iterator[None]:
    """Convert errors of a network that sees its first images within the block to a ValueError."""
    try:
        with torch.no_grad():
            yield
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"encoder {name!r} does not take {image_size}×{image_size} images of {channels} channels: {error}"
        ) from error


def measured_width(name: str, net: nn.Module, channels: int, image_size: int) -> int:
    """The number of features that a network gives for an image.

    Raises:
        ValueError: It does not take images of this shape, or does not give one vector per image.
    """
    training = net.training
    net.eval()
    with fitting(name, channels, image_size):
        features = net(torch.zeros(1, channels, image_size, image_size))
    net.train(training)
    if not isinstance(features, Tensor) or features.dim() != 2:
        raise ValueError(f"encoder {name!r} does not give one feature vector per image")
    return features.shape[1]


def _drop_classifier(name: str, net: nn.Module) -> None:
    """Replace the last linear layer of the classifier by the identity."""
    for attribute in ("fc", "classifier", "heads", "head"):
        classifier = getattr(net, attribute, None)
        if isinstance(classifier, nn.Linear):
            setattr(net, attribute, nn.Identity())
            return
        if isinstance(classifier, nn.Sequential):
            for key, layer in reversed(list(classifier.named_children())):
                if isinstance(layer, nn.Linear):
                    setattr(classifier, key, nn.Identity())
                    return
    raise ValueError(f"{name} has no classifier to take off; it is not an image classifier")


def _set_channels(net: nn.Module, channels: int) -> None:
    """Make the first convolution take `channels` channels: its weights averaged over colour, repeated."""
    for parent in net.modules():
        for key, layer in parent.named_children():
            if isinstance(layer, nn.Conv2d):
                new = nn.Conv2d(
                    channels,
                    layer.out_channels,
                    layer.kernel_size,  # type: ignore[arg-type]
                    layer.stride,  # type: ignore[arg-type]
                    layer.padding,  # type: ignore[arg-type]
                    bias=layer.bias is not None,
                )
                with torch.no_grad():
                    mean = layer.weight.mean(dim=1, keepdim=True) * (layer.in_channels / channels)
                    new.weight.copy_(mean.expand_as(new.weight))
                    if new.bias is not None and layer.bias is not None:
                        new.bias.copy_(layer.bias)
                setattr(parent, key, new)
                return
