"""Image towers of open_clip (CLIP, SigLIP, BioCLIP …) from a folder or a file on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from labeltree.errors import DataError
from labeltree.models.encoder import Encoder
from labeltree.models.encoder_config import READER
from labeltree.models.hub import hub_folder
from labeltree.models.hub_cache import HubName
from labeltree.models.local_folders import need_library
from labeltree.models.stages import block_stages, layer_stages
from labeltree.models.timm_and_torchvision import measured_width
from labeltree.models.weights import misfits, read_weights
from labeltree.preprocessing import ImageInput, Preprocessing, filter_name
from labeltree.safe_files import read_json

__all__ = [
    "OPEN_CLIP",
    "OpenClipImages",
    "check_open_clip",
    "load_open_clip",
    "load_open_clip_pair",
    "open_clip_images",
    "rebuild_open_clip",
]

OPEN_CLIP = "open_clip:"
_CONFIG = "open_clip_config.json"
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
_TEXT_TOWER = {"layers": 1, "width": 8, "heads": 1, "vocab_size": 8, "context_length": 8}
_USUAL_SIZE = 224


class OpenClipImages(Encoder):
    """The image tower of a model of open_clip, with its projection: what `encode_image` gives.

    Args:
        name: See `Encoder`.
        net: The tower.
        config: Content of `open_clip_config.json`, as far as it is about the tower.
        channels: Channels of the images.
        image_size: Height and width of the images in pixels.
    """

    def __init__(
        self, name: str, net: nn.Module, config: dict[str, Any], channels: int, image_size: int
    ) -> None:
        super().__init__(name, 0)
        self.net = net
        self.config = config
        read = config["preprocess_cfg"]
        self.mean, self.std = tuple(read["mean"]), tuple(read["std"])
        self.feature_dim = measured_width(name, self, channels, image_size)

    @property
    def stages(self) -> list[nn.Module]:
        """The layers or stages of the tower; its projection belongs to the last."""
        trunk, head = getattr(self.net, "trunk", None), getattr(self.net, "head", None)
        if trunk is None:  # open_clip's own transformer, or else its ResNet
            own = any(isinstance(module, nn.ModuleList) for module in self.net.modules())
            return layer_stages(self.net) if own else block_stages(self.net)
        *stages, last = block_stages(trunk)  # timm's
        return [*stages, nn.ModuleList([last, *([head] if head is not None else [])])]

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, 3, h, w)."""
        features: Tensor | tuple[Tensor, ...] = self.net(images)
        return features[0] if isinstance(features, tuple) else features  # CoCa gives the tokens, too

    def save_config(self, folder: Path) -> None:
        """Write `open_clip_config.json`, without the text tower."""
        (folder / _CONFIG).write_text(json.dumps(self.config, indent=2) + "\n", "utf-8")


def check_open_clip(name: str, *, pretrained: bool = True) -> None:
    """Quick checks of what `load_open_clip` needs.

    Raises:
        ImportError: open_clip is not installed.
        DataError: a file is missing.
    """
    need_library(f"encoder {name!r}", "open_clip", "open-clip-torch", "encoders")
    folder, model, file = _parts(name, weights=pretrained)
    if folder is not None:
        if not (folder / _CONFIG).is_file():
            raise DataError(
                f"encoder {name!r}: there is no {_CONFIG} in '{folder}', so it is not a checkpoint"
            )
        if pretrained:
            _weights_file(name, folder)
    elif file is None:
        raise DataError(
            f"encoder {name!r}: there is no folder '{model}'; name the folder of a checkpoint on this disk "
            f"with {_CONFIG} and weights in it, or an architecture of open_clip and its weights as "
            "'open_clip:ViT-B-32@FILE'"
        )
    elif pretrained and not file.is_file():
        raise DataError(f"encoder {name!r}: there is no file '{file}'")


def open_clip_images(name: str) -> ImageInput:
    """The images that the tower was made for."""
    check_open_clip(name, pretrained=False)
    config = _config(name)
    read = config["preprocess_cfg"]
    how = Preprocessing(
        squash=read["resize_mode"] == "squash", interpolation=filter_name(read["interpolation"])
    )
    return ImageInput(3, _side(config["model_cfg"]["vision_cfg"].get("image_size", _USUAL_SIZE)), how)


def load_open_clip(name: str, channels: int, image_size: int, pretrained: bool) -> OpenClipImages:
    """Load the image tower of a checkpoint; nothing is fetched, and no code in a file is run.

    Args:
        name: "open_clip:FOLDER", a folder with `open_clip_config.json` and weights,
            "open_clip:hf-hub:OWNER/NAME", the same on the Hugging Face hub, or "open_clip:NAME@FILE", an
            architecture of open_clip and its weights.
        channels: Must be 3.
        image_size: Height and width of the images; position embeddings are interpolated to it.
        pretrained: Load the weights; otherwise the same architecture has random ones.

    Raises:
        ImportError: open_clip is not installed.
        DataError: a file is missing or damaged, or the weights are not those of the architecture.
        ValueError: The tower does not take images of this shape, or open_clip does not know the architecture.
    """
    check_open_clip(name, pretrained=pretrained)
    config = _config(name)
    model = _model(name, config, channels, image_size)
    if pretrained:
        folder, _, file = _parts(name)
        path = _weights_file(name, folder) if folder is not None else file
        assert path is not None
        _load_tower(name, model, path, image_size)
    return _encoder(name, model, config, channels, image_size)


def load_open_clip_pair(name: str) -> tuple[Any, Any, ImageInput, dict[str, Any]]:
    """Load a checkpoint with both towers; nothing is fetched, and no code in a file is run.

    Args:
        name: See `load_open_clip`.

    Returns:
        The model of open_clip, its tokenizer, its images, and how these are normalised (`mean`, `std`).

    Raises:
        ImportError: open_clip is not installed.
        DataError: a file is missing or damaged, or the checkpoint has no text tower of its own.
        ValueError: open_clip does not know the architecture, or cannot build it.
    """
    check_open_clip(name)
    folder, model, file = _parts(name)
    images, read = open_clip_images(name), _config(name)["preprocess_cfg"]
    path = _weights_file(name, folder) if folder is not None else file
    assert path is not None
    from open_clip import CLIP, CustomTextCLIP, get_model_config
    from open_clip.convert import convert_state_dict

    known = get_model_config(model) if folder is None else read_json(folder / _CONFIG, READER)["model_cfg"]
    texts = known.get("text_cfg")
    if not isinstance(texts, dict) or "hf_model_name" in texts:
        raise DataError(
            f"encoder {name!r} has no text tower of its own to read names with; take a checkpoint of CLIP or "
            "SigLIP"
        )
    sizes = {"vision_cfg": {**known["vision_cfg"], "timm_model_pretrained": False}, "text_cfg": dict(texts)}
    try:
        build = CustomTextCLIP if known.get("custom_text") else CLIP
        net = build(known["embed_dim"], **sizes, quick_gelu=bool(known.get("quick_gelu", False)))
    except Exception as error:
        raise ValueError(f"encoder {name!r}: open_clip cannot build it: {error}") from error
    state = convert_state_dict(net, _read_state(path))
    state = {key: value for key, value in state.items() if key != "text.position_ids"}
    if problems := misfits(net.state_dict(), state):
        raise DataError(f"encoder {name!r}: '{path}' does not have the weights of both towers: {problems}")
    net.load_state_dict(state)
    return net.eval(), _tokenizer(name, folder, texts, net), images, read


def _tokenizer(name: str, folder: Path | None, texts: dict[str, Any], net: Any) -> Any:
    """The tokenizer of a text tower: in its folder, or CLIP's own, which comes with open_clip."""
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    length = int(net.context_length)
    if not texts.get("hf_tokenizer_name"):
        simple: Any = SimpleTokenizer(context_length=length)
        if simple.vocab_size > net.vocab_size:
            raise DataError(
                f"encoder {name!r}: its text tower knows {net.vocab_size:,} tokens, and CLIP's tokenizer has "
                f"{simple.vocab_size:,}"
            )
        return simple
    if folder is None or not (folder / "tokenizer.json").is_file():
        raise DataError(f"encoder {name!r}: its tokenizer (tokenizer.json) is not with its weights")
    with READER.reading(folder / "tokenizer.json", "it is not a tokenizer"):
        return HFTokenizer(str(folder), context_length=length, **texts.get("tokenizer_kwargs", {}))


def rebuild_open_clip(name: str, folder: Path, channels: int, image_size: int) -> OpenClipImages:
    """The encoder whose `save_config` wrote `folder`; its weights are to be loaded next."""
    need_library(f"encoder {name!r}", "open_clip", "open-clip-torch", "encoders")
    config = _read_folder(folder)
    return _encoder(name, _model(name, config, channels, image_size), config, channels, image_size)


def _encoder(name: str, model: Any, config: dict[str, Any], channels: int, size: int) -> OpenClipImages:
    tower = model.visual
    if hasattr(tower, "trunk") and hasattr(tower, "set_input_size"):
        tower.set_input_size(size)  # timm interpolates the position embeddings that it has loaded
    return OpenClipImages(name, tower, config, channels, size)


def _parts(name: str, *, weights: bool = False) -> tuple[Path | None, str, Path | None]:
    """The folder, if there is one of that name; else the architecture and the file of its weights."""
    rest = name.removeprefix(OPEN_CLIP)
    if HubName.of(name) is not None:
        return hub_folder(name, weights=weights), rest, None
    folder = Path(rest).expanduser()
    if rest and folder.is_dir():
        return folder, rest, None
    model, at, file = rest.partition("@")
    return None, model, Path(file).expanduser() if at and file else None


def _config(name: str) -> dict[str, Any]:
    """The configuration of the image tower and its normalisation."""
    folder, model, _ = _parts(name)
    if folder is not None:
        return _read_folder(folder)
    import open_clip

    known = open_clip.get_model_config(model)
    if known is None:
        raise ValueError(
            f"encoder {name!r}: open_clip has no architecture {model!r}; 'open_clip.list_models()' names them"
        )
    return _tower_config(known, {})


def _read_folder(folder: Path) -> dict[str, Any]:
    path = folder / _CONFIG
    content = read_json(path, READER)
    model = content.get("model_cfg")
    if not isinstance(model, dict) or not isinstance(model.get("vision_cfg"), dict):
        raise READER.failure(path, "it describes no image tower (model_cfg.vision_cfg)")
    return _tower_config(model, content.get("preprocess_cfg") or {})


def _tower_config(model: dict[str, Any], preprocess: dict[str, Any]) -> dict[str, Any]:
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    read = merge_preprocess_dict(PreprocessCfg(), preprocess)
    return {
        "model_cfg": {
            "embed_dim": model["embed_dim"],
            "quick_gelu": bool(model.get("quick_gelu", False)),
            "vision_cfg": {**model["vision_cfg"], "timm_model_pretrained": False},
        },
        "preprocess_cfg": {
            "mean": list(read["mean"]),
            "std": list(read["std"]),
            "interpolation": read["interpolation"],
            "resize_mode": read["resize_mode"],
        },
    }


def _model(name: str, config: dict[str, Any], channels: int, image_size: int) -> Any:
    """A model with the image tower, and a text tower as small as can be: some would be fetched."""
    if channels != 3:
        raise ValueError(f"encoder {name!r} reads images of 3 channels, not {channels}; set channels to 3")
    from open_clip import CustomTextCLIP

    model = config["model_cfg"]
    try:
        return CustomTextCLIP(
            model["embed_dim"],
            {**model["vision_cfg"], "image_size": image_size},
            dict(_TEXT_TOWER),
            quick_gelu=model["quick_gelu"],
        )
    except Exception as error:
        raise ValueError(f"encoder {name!r}: open_clip cannot build its image tower: {error}") from error


def _weights_file(name: str, folder: Path) -> Path:
    """The weights in a folder, preferably as safetensors and under open_clip's own name."""
    files = [file for file in folder.iterdir() if file.suffix in _SUFFIXES]
    if not files:
        raise DataError(f"encoder {name!r}: there are no weights in '{folder}' ({', '.join(_SUFFIXES)})")
    return min(
        files, key=lambda file: (_SUFFIXES.index(file.suffix), "open_clip" not in file.name, file.name)
    )


def _load_tower(name: str, model: Any, path: Path, image_size: int) -> None:
    from open_clip.convert import convert_state_dict
    from open_clip.model import resize_pos_embed

    state = convert_state_dict(model, _read_state(path))
    resize_pos_embed(state, model)
    tower = {key.removeprefix("visual."): v for key, v in state.items() if key.startswith("visual.")}
    if problems := misfits(model.visual.state_dict(), tower):
        raise DataError(
            f"encoder {name!r}: '{path}' does not have the weights of its image tower for images of "
            f"{image_size} px: {problems}"
        )
    model.visual.load_state_dict(tower)


def _read_state(path: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = read_weights(path)
    if state and all(key.startswith("module.") for key in state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    return state


def _side(size: Any) -> int:
    return int(size[0] if isinstance(size, list | tuple) else size)
