"""Checkpoints of image models with a few thousand random weights, as their libraries write them."""

import copy
import json
from pathlib import Path
from typing import Any

MEAN, STD = [0.4, 0.5, 0.6], [0.25, 0.5, 0.5]
SIZE = 28
_SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": SIZE,
    "patch_size": 7,
}
_TEXTS = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 9,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_OPEN_CLIP_TEXTS = {"layers": 1, "width": 8, "heads": 2, "vocab_size": 9, "context_length": 4}
OPEN_CLIP = {
    "embed_dim": 12,
    "vision_cfg": {"layers": 2, "width": 16, "head_width": 8, "patch_size": 7, "image_size": SIZE},
    "text_cfg": _OPEN_CLIP_TEXTS,
    "quick_gelu": True,
}


def write_transformers(folder: Path, kind: str = "vit", seed: int = 1) -> Any:
    """Write a vision model of transformers with its image processor; returns the model."""
    import torch
    import transformers as tf

    dino = {key: value for key, value in _SMALL.items() if key != "intermediate_size"} | {"mlp_ratio": 2}
    resnet = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    make = {
        "vit": lambda: tf.ViTModel(tf.ViTConfig(**_SMALL)),
        "vit-classifier": lambda: tf.ViTForImageClassification(tf.ViTConfig(**_SMALL)),
        "dinov2": lambda: tf.Dinov2Model(tf.Dinov2Config(**dino)),
        "dinov3": lambda: tf.DINOv3ViTModel(tf.DINOv3ViTConfig(**_SMALL, num_register_tokens=2)),
        "clip": lambda: tf.CLIPModel(tf.CLIPConfig(vision_config=_SMALL, text_config=_TEXTS)),
        "clip-tower": lambda: tf.CLIPVisionModel(tf.CLIPVisionConfig(**_SMALL)),
        "siglip": lambda: tf.SiglipModel(tf.SiglipConfig(vision_config=_SMALL, text_config=_TEXTS)),
        "resnet": lambda: tf.ResNetForImageClassification(tf.ResNetConfig(**resnet)),
        "mae": lambda: tf.ViTMAEModel(tf.ViTMAEConfig(**_SMALL)),
    }
    torch.manual_seed(seed)
    model = make[kind]().eval()
    model.save_pretrained(folder)
    size = {"height": SIZE, "width": SIZE}
    tf.ViTImageProcessor(size=size, image_mean=MEAN, image_std=STD).save_pretrained(folder)
    return model


def write_open_clip(
    folder: Path, config: dict[str, Any] = OPEN_CLIP, *, pickled: bool = False, seed: int = 1
) -> Any:
    """Write a model of open_clip, as safetensors or as a training state; returns the model."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    custom = config.get("custom_text", False)
    sizes = {key: value for key, value in copy.deepcopy(config).items() if key != "custom_text"}
    model = (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**sizes).eval()
    folder.mkdir(parents=True)
    content = {"model_cfg": config, "preprocess_cfg": {"mean": MEAN, "std": STD}}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    if pickled:
        state = {f"module.{key}": value for key, value in model.state_dict().items()}
        torch.save({"epoch": 3, "name": "run", "state_dict": state}, folder / "epoch_3.pt")
    else:
        tensors = {key: value.contiguous() for key, value in model.state_dict().items()}
        save_file(tensors, folder / "open_clip_model.safetensors")
    return model


def write_timm(folder: Path, seed: int = 1) -> Any:
    """Write a network of timm in the form of the Hugging Face hub; returns it."""
    import timm
    import torch

    torch.manual_seed(seed)
    arguments = {"img_size": SIZE, "patch_size": 7, "embed_dim": 16, "depth": 2, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **arguments).eval()
    model.pretrained_cfg |= {"mean": MEAN, "std": STD, "input_size": (3, SIZE, SIZE)}
    timm.models.save_for_hf(model, folder, model_args=arguments, safe_serialization=True)
    return model
