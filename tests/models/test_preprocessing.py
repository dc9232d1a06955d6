"""Images are cut out for pretrained encoders as the encoders' own libraries do it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.data.images.decode import decode
from labeltree.models import usual_images
from labeltree.preprocessing import ImageInput, Preprocessing
from tiny_checkpoints import MEAN, SIZE, STD, write_open_clip, write_transformers

SHAPES = [(96, 64), (64, 96), (71, 71), (301, 40), (30, 31)]


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Noise over a gradient: it shows where an image was cut, and how it was resized."""
    noise = np.random.default_rng(seed).integers(0, 60, (height, width, 3))
    slope = np.linspace(0, 190, width)[None, :, None] + np.zeros((height, 1, 3))
    return Image.fromarray((noise + slope).astype(np.uint8))


def ours(tmp_path: Path, image: Image.Image, read: ImageInput) -> np.ndarray:
    image.save(tmp_path / "image.png")
    assert read.size is not None
    return decode(tmp_path / "image.png", read.size, 3, preprocessing=read.preprocessing)


def test_a_size_after_resizing() -> None:
    assert Preprocessing(crop=0.875).resized(640, 480, 224) == (341, 256)
    assert Preprocessing(crop=0.875).resized(480, 640, 224) == (256, 341)
    assert Preprocessing(crop=0.95).resized(300, 300, 224) == (235, 235)
    assert Preprocessing(squash=True).resized(640, 480, 224) == (224, 224)
    with pytest.raises(ValueError, match="crop is 0; it must be above 0"):
        Preprocessing(crop=0)
    with pytest.raises(ValueError, match="interpolation is 'cubic'; expected one of 'nearest'"):
        Preprocessing(interpolation="cubic")  # type: ignore[arg-type]
    kept = Preprocessing(0.9, True, "lanczos")
    assert Preprocessing.from_dict(kept.to_dict()) == kept
    with pytest.raises(ValueError, match="the preprocessing of images is damaged"):
        Preprocessing.from_dict({"crop": 1.0})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "name", ["timm:resnet18.a1_in1k", "timm:tf_efficientnet_lite0", "mobilenetv3_small_050"]
)
def test_as_timm_does_it(name: str, shape: tuple[int, int], tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    read = usual_images(name)
    assert read is not None
    config = timm.data.resolve_data_config(
        {}, pretrained_cfg=timm.get_pretrained_cfg(name.removeprefix("timm:")).to_dict()
    )
    transform = timm.data.create_transform(**config, normalize=False)
    image = picture(*shape)
    wanted = transform(image)
    assert (read.channels, read.size, read.size) == config["input_size"]
    found = torch.from_numpy(ours(tmp_path, image, read))
    assert torch.equal(found, wanted if wanted.dtype == torch.uint8 else (wanted * 255).round().byte())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["resnet18", "vit_b_16", "efficientnet_v2_s"])
def test_as_torchvision_does_it(name: str, shape: tuple[int, int], tmp_path: Path) -> None:
    from torchvision.models import get_model_weights

    read = usual_images(f"torchvision:{name}")
    assert read is not None
    transform = get_model_weights(name).DEFAULT.transforms()
    mean, std = (torch.tensor(values)[:, None, None] for values in (transform.mean, transform.std))
    image = picture(*shape)
    wanted = ((transform(image) * std + mean) * 255).round()
    assert wanted.shape == (3, read.size, read.size)
    assert (torch.from_numpy(ours(tmp_path, image, read)).float() - wanted).abs().max() <= 1


WHOLE = {"height": SIZE, "width": SIZE}


@pytest.mark.parametrize(
    "processor",
    [
        {"class": "ViTImageProcessor", "size": WHOLE},
        {"class": "BitImageProcessor", "size": {"shortest_edge": 32}, "crop_size": WHOLE},
        {"class": "CLIPImageProcessor", "size": {"shortest_edge": SIZE}, "crop_size": WHOLE},
        {"class": "SiglipImageProcessor", "size": WHOLE},
        {"class": "ConvNextImageProcessor", "size": {"shortest_edge": SIZE}, "crop_pct": 0.875},
    ],
    ids=lambda found: found["class"],
)
@pytest.mark.parametrize("shape", [(96, 64), (40, 61)])
def test_as_transformers_does_it(processor: dict, shape: tuple[int, int], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "model"
    write_transformers(folder)
    settings = {key: value for key, value in processor.items() if key != "class"}
    made = getattr(transformers, processor["class"])(**settings, image_mean=MEAN, image_std=STD)
    made.save_pretrained(folder)
    read = usual_images(f"transformers:{folder}")
    assert read is not None
    image = picture(*shape)
    wanted = made(image, return_tensors="pt")["pixel_values"][0]
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    found = torch.from_numpy(ours(tmp_path, image, read)).float()
    assert wanted.shape == found.shape
    # its tensors are resized by torchvision, which rounds once more than Pillow
    assert ((wanted * std + mean) * 255 - found).abs().max() < 2.1


@pytest.mark.parametrize("mode", ["shortest", "squash"])
def test_as_open_clip_does_it(mode: str, tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip")
    folder = tmp_path / "model"
    write_open_clip(folder)
    path = folder / "open_clip_config.json"
    path.write_text(
        path.read_text().replace('"preprocess_cfg": {', f'"preprocess_cfg": {{"resize_mode": "{mode}", ')
    )
    read = usual_images(f"open_clip:{folder}")
    assert read == ImageInput(3, SIZE, Preprocessing(squash=mode == "squash"))
    transform = open_clip.image_transform(
        SIZE, is_train=False, mean=(0, 0, 0), std=(1, 1, 1), resize_mode=mode
    )
    for shape in SHAPES:
        image = picture(*shape)
        wanted = (transform(image) * 255).round().byte()
        assert torch.equal(torch.from_numpy(ours(tmp_path, image, read)), wanted)


def test_encoders_without_weights_say_nothing() -> None:
    assert usual_images("small-conv") is None
    assert usual_images("text:words") is None
    assert usual_images("torchvision:nothing") is None
    lite = usual_images("efficientnet-lite0+minilm")
    assert lite == ImageInput(3, 224, Preprocessing(crop=0.875))
