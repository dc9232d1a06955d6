"""Image encoders of transformers (ViT, DINOv2, DINOv3, CLIP, SigLIP, Swin …) from a folder on disk."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from labeltree.errors import DataError
from labeltree.models.encoder import Encoder
from labeltree.models.encoder_config import READER, read_config, write_config
from labeltree.models.local_folders import (
    first_line,
    need_files,
    need_library,
    quiet_transformers,
    without_first_weights,
)
from labeltree.models.stages import layer_stages
from labeltree.models.timm_and_torchvision import fitting, measured_width
from labeltree.preprocessing import ImageInput, Interpolation, Preprocessing

__all__ = [
    "TRANSFORMERS",
    "Pooling",
    "TransformersImages",
    "check_transformers_folder",
    "load_transformers_images",
    "load_transformers_pair",
    "reads_images",
    "rebuild_transformers_images",
    "transformers_images",
]

TRANSFORMERS = "transformers:"
Pooling = Literal["auto", "pooler", "cls", "mean"]
_CONFIG = "config.json"
_OFFLINE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_USUAL_SIZE = 224


class TransformersImages(Encoder):
    """A vision model of transformers, with the pooling of its authors.

    Args:
        name: See `Encoder`.
        net: Maps `pixel_values` to token vectors or feature maps.
        pooling: "pooler", "cls" (the first token) or "mean" (of all tokens or places); "auto": the model's
            own pooler if it has one, else the class token if it has one, else the mean.
        image_size: Height and width of the images in pixels.
        mean: See `Encoder`.
        std: See `Encoder`.
    """

    def __init__(
        self,
        name: str,
        net: Any,
        pooling: Pooling,
        image_size: int,
        mean: tuple[float, ...] | None,
        std: tuple[float, ...] | None,
    ) -> None:
        super().__init__(name, 0)
        self.net = net
        self.mean, self.std = mean, std
        asked = inspect.signature(net.forward).parameters
        resized = _side(getattr(net.config, "image_size", None)) not in (None, image_size)
        self._options = (
            {"interpolate_pos_encoding": True} if resized and "interpolate_pos_encoding" in asked else {}
        )
        if pooling == "auto":
            with fitting(name, 3, image_size):
                pooling = _usual_pooling(net, image_size, self._options)
        self.pooling = pooling
        own: Any = getattr(net, "pooler", None)
        if self.pooling != "pooler" and own is not None and next(own.parameters(), None) is not None:
            net.pooler = None  # else its weights would be trained without effect
        self.feature_dim = measured_width(name, self, 3, image_size)

    @property
    def stages(self) -> list[nn.Module]:
        """The embeddings, then every layer or stage; what comes after them belongs to the last."""
        return layer_stages(self.net)

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, 3, h, w)."""
        output = self.net(pixel_values=images, **self._options)
        if self.pooling == "pooler":
            pooled: Tensor = output.pooler_output
            return pooled.flatten(1)
        vectors: Tensor = output.last_hidden_state
        if self.pooling == "cls":
            return vectors[:, 0]
        return vectors.mean((2, 3)) if vectors.ndim == 4 else vectors.mean(1)

    def save_config(self, folder: Path) -> None:
        """Write the configuration of transformers, the pooling and the normalisation."""
        with quiet_transformers():
            self.net.config.save_pretrained(folder)
        write_config(folder, {"pooling": self.pooling, "mean": self.mean, "std": self.std})


def check_transformers_folder(name: str, *, pretrained: bool = True) -> Path:
    """The folder that the encoder's name contains, after quick checks.

    Raises:
        ImportError: Transformers is not installed.
        DataError: The folder lacks a file.
    """
    need_library(f"encoder {name!r}", "transformers", "transformers", "encoders")
    return need_files(name, name.removeprefix(TRANSFORMERS), _CONFIG, weights=pretrained)


def reads_images(name: str, folder: Path) -> bool:
    """Whether the model in a folder, or a tower of it, reads images, by its configuration alone."""
    from transformers import MODEL_MAPPING

    kinds = MODEL_MAPPING.get(type(_vision_config(name, folder)), None)
    model = kinds[0] if isinstance(kinds, tuple) else kinds
    return getattr(model, "main_input_name", None) == "pixel_values"


def transformers_images(name: str) -> ImageInput:
    """The images that the model was made for."""
    folder = check_transformers_folder(name, pretrained=False)
    read = _processor(name, folder, _vision_config(name, folder))
    return ImageInput(3, read.size, read.preprocessing)


def load_transformers_images(
    name: str, channels: int, image_size: int, pretrained: bool, pooling: Pooling = "auto"
) -> TransformersImages:
    """Load the vision model in the folder that `name` contains; of CLIP and its kin, the image tower.

    Nothing is fetched, and no code of a model is run: weights are read from safetensors only.

    Raises:
        ImportError: Transformers is not installed.
        DataError: a file is missing or damaged, or has no weights for a part of the model.
        ValueError: The model does not read images, or not of this size or number of channels.
    """
    folder = check_transformers_folder(name, pretrained=pretrained)
    _need_colour(name, channels)
    from transformers import AutoModel

    config = _vision_config(name, folder)
    read = _processor(name, folder, config)
    if not pretrained:
        return TransformersImages(name, _fresh(name, config), pooling, image_size, read.mean, read.std)
    try:
        with quiet_transformers():
            net, loading = AutoModel.from_pretrained(
                folder,
                config=config,
                use_safetensors=True,
                output_loading_info=True,
                dtype=torch.float32,
                **_OFFLINE,
            )
    except Exception as error:
        raise DataError(f"encoder {name!r} cannot be loaded: {first_line(error)}") from error
    _need_image_model(name, net)
    missing = sorted(key for key in loading["missing_keys"] if not key.endswith("mask_token"))
    if lacking := [key for key in missing if not key.startswith("pooler.")]:
        raise DataError(
            f"encoder {name!r}: '{folder}' has no weights for {', '.join(lacking[:3])}"
            + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        )
    if missing:  # a checkpoint of a classifier that does without the pooler
        if pooling == "pooler":
            raise ValueError(
                f"pooling is 'pooler', but '{folder}' has no weights for it; use 'cls' or 'mean'"
            )
        net.pooler = None
    if read.mean is None:
        warnings.warn(
            f"encoder {name!r} has no preprocessor_config.json, so its images are normalised by ImageNet's "
            "mean and standard deviation; save the model's image processor there if it needs others",
            stacklevel=2,
        )
    return TransformersImages(name, net, pooling, image_size, read.mean, read.std)


def load_transformers_pair(name: str) -> tuple[Any, Any, ImageInput, Mapping[str, Any]]:
    """Load a model of images and texts, such as CLIP or SigLIP, with both towers; nothing is fetched.

    Returns:
        The model of transformers, its tokenizer, its images, and how these are normalised (`mean`, `std`;
        None where the folder does not say).

    Raises:
        ImportError: Transformers is not installed.
        DataError: a file is missing or damaged, or the model has no text tower.
    """
    folder = check_transformers_folder(name)
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    read = _processor(name, folder, _vision_config(name, folder))
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, **_OFFLINE)
            if not hasattr(config, "vision_config") or not hasattr(config, "text_config"):
                raise DataError("it has no text tower to read names with; take one of CLIP or SigLIP")
            net, loading = AutoModel.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, dtype=torch.float32, **_OFFLINE
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **_OFFLINE)
    except Exception as error:
        raise DataError(f"encoder {name!r} cannot be loaded: {first_line(error)}") from error
    if lacking := sorted(loading["missing_keys"]):
        raise DataError(f"encoder {name!r}: '{folder}' has no weights for {', '.join(lacking[:3])}")
    images = ImageInput(3, read.size, read.preprocessing)
    return net.eval(), tokenizer, images, {"mean": read.mean, "std": read.std}


def rebuild_transformers_images(
    name: str, folder: Path, channels: int, image_size: int
) -> TransformersImages:
    """The encoder whose `save_config` wrote `folder`; its weights are to be loaded next."""
    need_library(f"encoder {name!r}", "transformers", "transformers", "encoders")
    _need_colour(name, channels)
    numbers = list[float] | None
    kept = read_config(folder, {"pooling": Literal["pooler", "cls", "mean"], "mean": numbers, "std": numbers})
    with (
        READER.reading(folder / _CONFIG, "it is not a configuration of transformers"),
        without_first_weights(),
    ):
        net = _fresh(name, _vision_config(name, folder))
    mean, std = (None if value is None else tuple(value) for value in (kept["mean"], kept["std"]))
    return TransformersImages(name, net, kept["pooling"], image_size, mean, std)


def _fresh(name: str, config: Any) -> Any:
    from transformers import AutoModel

    with quiet_transformers():
        net = AutoModel.from_config(config, trust_remote_code=False)
    _need_image_model(name, net)
    return net.float()


def _vision_config(name: str, folder: Path) -> Any:
    """The configuration of the model, or of the image tower of a model of images and texts."""
    from transformers import AutoConfig

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, **_OFFLINE)
    except Exception as error:
        raise DataError(f"encoder {name!r} cannot be loaded: {first_line(error)}") from error
    config = getattr(config, "vision_config", None) or config
    if hasattr(config, "mask_ratio"):
        config.mask_ratio = 0.0  # masked autoencoders would hide most of the image
    return config


class _Processor(NamedTuple):
    """What the folder's image processor says.

    Attributes:
        size: Height and width in pixels.
        preprocessing: How the square is cut out of an image.
        mean: Per channel, of pixels in [0, 1]; None if there is no processor.
        std: Likewise.
    """

    size: int
    preprocessing: Preprocessing | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


def _processor(name: str, folder: Path, config: Any) -> _Processor:
    from transformers import AutoImageProcessor

    own = _side(getattr(config, "image_size", None))
    if not any((folder / file).is_file() for file in ("preprocessor_config.json", "processor_config.json")):
        return _Processor(own or _USUAL_SIZE, None, None, None)
    try:
        with quiet_transformers():
            processor = AutoImageProcessor.from_pretrained(folder, **_OFFLINE)
    except Exception as error:
        raise DataError(
            f"encoder {name!r}: its image processor cannot be read: {first_line(error)}"
        ) from error
    # The processor computes (factor·byte − mean) / std; ours is (byte/255 − mean) / std.
    scale = 255 * (processor.rescale_factor if processor.do_rescale else 1.0)
    mean = processor.image_mean if processor.do_normalize else [0.0] * 3
    std = processor.image_std if processor.do_normalize else [1.0] * 3
    size, how = _cut(processor)
    return _Processor(
        size or own or _USUAL_SIZE, how, tuple(m / scale for m in mean), tuple(s / scale for s in std)
    )


_FILTERS: tuple[Interpolation, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
_WHOLE_FROM = 384  # ConvNeXT's processors crop smaller images only


def _cut(processor: Any) -> tuple[int | None, Preprocessing]:
    """Side of the square that an image processor cuts out, and how."""
    resample = getattr(processor, "resample", None)
    kind = "bicubic" if resample is None else _FILTERS[int(resample)]
    size, share = _side(processor.size), getattr(processor, "crop_pct", None)
    squash = not _keeps_ratio(processor.size)
    if getattr(processor, "do_center_crop", False):
        side = _side(getattr(processor, "crop_size", None)) or size
        crop = min(side / size, 1.0) if side and size else 1.0
        return side, Preprocessing(crop, squash, kind)
    if share and size and size < _WHOLE_FROM:
        return size, Preprocessing(min(float(share), 1.0), False, kind)
    return size, Preprocessing(1.0, squash or bool(share), kind)


def _keeps_ratio(size: Any) -> bool:
    """Whether a size, as transformers writes it, is of the shorter side alone."""
    if size is None or isinstance(size, int | list | tuple):
        return isinstance(size, int)
    known = dict(size) if isinstance(size, Mapping) else vars(size)
    return not known.get("height")


def _side(size: Any) -> int | None:
    """The side in pixels in a size as transformers writes it: a number, a pair or a mapping."""
    if size is None or isinstance(size, int):
        return size
    if isinstance(size, list | tuple):
        return int(size[0])
    known = dict(size) if isinstance(size, Mapping) else vars(size)
    sides = (known.get(key) for key in ("height", "shortest_edge", "longest_edge"))
    return next((int(side) for side in sides if side), None)


def _usual_pooling(net: Any, image_size: int, options: Mapping[str, bool]) -> Pooling:
    """The pooler if the model has one, else the class token if it has one, else the mean."""
    training = net.training
    output = net.eval()(pixel_values=torch.zeros(1, 3, image_size, image_size), **options)
    net.train(training)
    if output.get("pooler_output") is not None:
        return "pooler"
    last = {key.rpartition(".")[2] for key, _ in net.named_parameters()}
    return "cls" if {"cls_token", "class_embedding"} & last else "mean"


def _need_image_model(name: str, net: Any) -> None:
    if getattr(net, "main_input_name", None) != "pixel_values":
        raise ValueError(
            f"encoder {name!r} is a {type(net).__name__}, which does not read images; a text model is "
            "'text:FOLDER'"
        )


def _need_colour(name: str, channels: int) -> None:
    if channels != 3:
        raise ValueError(f"encoder {name!r} reads images of 3 channels, not {channels}; set channels to 3")
