"""Encoders of timm and torchvision; the libraries are imported when an encoder needs them."""

import fnmatch
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labeltree.errors import DataError
from labeltree.models.encoder import Encoder

__all__ = ["LIBRARIES", "WrappedEncoder", "library_names", "wrap_timm", "wrap_torchvision"]

LIBRARIES = ("timm", "torchvision")


class WrappedEncoder(Encoder):
    """A network of another library that maps images to features; its stages are found in its children."""

    def __init__(self, name: str, net: nn.Module, channels: int, image_size: int) -> None:
        super().__init__(name, _feature_dim(name, net, channels, image_size))
        self.net = net

    @property
    def stages(self) -> list[nn.Module]:
        """The network's stages or blocks in order, each with the single layers before it."""
        return _find_stages(self.net)

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, c, h, w)."""
        features: Tensor = self.net(images)
        return features


def wrap_timm(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    """timm's encoder `name` without its classifier."""
    timm = import_timm(name)
    options: dict[str, Any] = {"pretrained": pretrained, "in_chans": channels, "num_classes": 0}

    def create() -> nn.Module:
        try:
            net: nn.Module = timm.create_model(name, img_size=image_size, **options)
        except TypeError as error:  # a convolutional network has no fixed image size
            if "img_size" not in str(error):
                raise
            net = timm.create_model(name, **options)
        return net

    encoder = WrappedEncoder(
        f"timm:{name}", _create(f"timm:{name}", create, pretrained), channels, image_size
    )
    published = getattr(encoder.net, "pretrained_cfg", {})
    if channels == 3 and published.get("mean") and published.get("std"):
        encoder.mean, encoder.std = tuple(published["mean"]), tuple(published["std"])
    return encoder


def wrap_torchvision(name: str, channels: int, image_size: int, pretrained: bool) -> Encoder:
    """torchvision's encoder `name` without its classifier."""
    from torchvision import models

    full_name = f"torchvision:{name}"
    weights = "DEFAULT" if pretrained else None
    net = _create(full_name, lambda: models.get_model(name, weights=weights), pretrained)
    if hasattr(net, "aux_logits"):
        raise ValueError(f"{full_name} has auxiliary classifiers and cannot be an encoder; use timm")
    _drop_classifier(full_name, net)
    if channels != 3:
        _set_channels(net, channels)
    return WrappedEncoder(full_name, net, channels, image_size)


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


def _feature_dim(name: str, net: nn.Module, channels: int, image_size: int) -> int:
    training = net.training
    net.eval()
    try:
        with torch.no_grad():
            features = net(torch.zeros(1, channels, image_size, image_size))
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"encoder {name!r} does not take {image_size}×{image_size} images of {channels} channels: {error}"
        ) from error
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


def _find_stages(net: nn.Module) -> list[nn.Module]:
    """The parts of `net` that hold blocks, in order.

    A single list of blocks or stages is expanded. Layers before the first part form the stem; later layers
    belong to the part after them, the last layers to the last part.
    """
    parts = _children(net)
    while len(lists := [part for part in parts if _is_list(part) and _holds_blocks(part)]) == 1:
        position = parts.index(lists[0])
        parts[position : position + 1] = _children(lists[0])
    stages: list[list[nn.Module]] = []
    pending: list[nn.Module] = []
    for part in parts:
        if not _holds_blocks(part):
            pending.append(part)
        elif pending and not stages:
            stages += [pending, [part]]
            pending = []
        else:
            stages.append([*pending, part])
            pending = []
    if not stages:  # a plain network: every layer with the parameter-free modules after it
        stages, pending = [], parts
        for part in pending:
            if stages and not _children(part):
                stages[-1].append(part)
            else:
                stages.append([part])
    else:
        stages[-1] += pending
    return [stage[0] if len(stage) == 1 else nn.ModuleList(stage) for stage in stages]


def _children(module: nn.Module) -> list[nn.Module]:
    """The direct children that have parameters."""
    return [child for child in module.children() if next(child.parameters(), None) is not None]


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential | nn.ModuleList) and len(_children(module)) > 1


def _holds_blocks(module: nn.Module) -> bool:
    """Whether the children of `module` contain layers, unlike the children of a convolution with its norm."""
    return any(_children(child) for child in _children(module))
