"""Image encoders from folders: the library's own features, rebuilt without the folder, clear errors."""

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labeltree.errors import DataError
from labeltree.models import (
    Encoder,
    build_encoder,
    check_encoder,
    encoder_modality,
    encoder_with_absolute_path,
    set_trainable,
    usual_images,
    usually_pretrained,
)
from labeltree.training.recipe import Recipe
from labeltree.training.tokens_and_views import open_views
from tiny_checkpoints import MEAN, OPEN_CLIP, SIZE, STD, write_open_clip, write_timm, write_transformers

pytestmark = pytest.mark.slow

WRITERS = {"transformers": write_transformers, "open_clip": write_open_clip, "timm": write_timm}


def pixels(n: int = 2, size: int = SIZE) -> torch.Tensor:
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(3))


@pytest.fixture(params=list(WRITERS))
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def name(library: str, tmp_path: Path) -> str:
    WRITERS[library](tmp_path / "model")
    return f"{library}:{tmp_path / 'model'}"


def features(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return encoder.eval()(images)


def kept(encoder: Encoder, folder: Path) -> Path:
    folder.mkdir()
    encoder.save_config(folder)
    return folder


POOLED: dict[str, Callable[..., torch.Tensor]] = {
    "vit": lambda model, x: model(x).pooler_output,
    "vit-classifier": lambda model, x: model.vit(x).last_hidden_state[:, 0],
    "dinov2": lambda model, x: model(x).last_hidden_state[:, 0],
    "dinov3": lambda model, x: model(x).last_hidden_state[:, 0],
    "clip": lambda model, x: model.vision_model(x).pooler_output,
    "clip-tower": lambda model, x: model(x).pooler_output,
    "siglip": lambda model, x: model.vision_model(x).pooler_output,
    "resnet": lambda model, x: model.resnet(x).pooler_output.flatten(1),
    "mae": lambda model, x: model.layernorm(_all_layers(model, x))[:, 0],
}


def _all_layers(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    model.config.mask_ratio = 0.0
    vectors = model.embeddings(x)[0]
    for layer in model.layers:
        found = layer(vectors)
        vectors = found[0] if isinstance(found, tuple) else found
    return vectors


@pytest.mark.parametrize("kind", list(POOLED))
def test_transformers_give_what_their_authors_pool(tmp_path: Path, kind: str) -> None:
    model = write_transformers(tmp_path / "model", kind)
    encoder = build_encoder(f"transformers:{tmp_path / 'model'}", image_size=SIZE)
    with torch.no_grad():
        expected = POOLED[kind](model, pixels())
    torch.testing.assert_close(features(encoder, pixels()), expected, rtol=1e-4, atol=1e-5)
    assert encoder.feature_dim == expected.shape[1]
    in_stages = {id(p) for stage in encoder.stages for p in stage.parameters()}
    assert in_stages == {id(p) for p in encoder.parameters()}
    assert len(encoder.stages) == 3
    again = build_encoder(encoder.name, image_size=SIZE, config=kept(encoder, tmp_path / "config"))
    again.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(features(again, pixels()), expected, rtol=1e-4, atol=1e-5)
    encoder.train()(pixels()).sum().backward()  # several devices need that all weights are used
    unused = [n for n, p in encoder.named_parameters() if p.grad is None and "mask_token" not in n]
    assert unused == []


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
def test_another_pooling(tmp_path: Path, pooling: str) -> None:
    model = write_transformers(tmp_path / "model")
    encoder = build_encoder(f"transformers:{tmp_path / 'model'}", image_size=SIZE, pooling=pooling)
    with torch.no_grad():
        found = model(pixels())
    vectors = found.last_hidden_state
    expected = {"cls": vectors[:, 0], "mean": vectors.mean(1), "pooler": found.pooler_output}[pooling]
    torch.testing.assert_close(features(encoder, pixels()), expected, rtol=1e-4, atol=1e-5)
    again = build_encoder(encoder.name, image_size=SIZE, config=kept(encoder, tmp_path / "config"))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(features(again, pixels()), features(encoder, pixels()))


@pytest.mark.parametrize("pickled", [False, True])
def test_open_clip_gives_its_image_embedding(tmp_path: Path, pickled: bool) -> None:
    model = write_open_clip(tmp_path / "model", pickled=pickled)
    encoder = build_encoder(f"open_clip:{tmp_path / 'model'}", image_size=SIZE)
    with torch.no_grad():
        expected = model.encode_image(pixels())
    torch.testing.assert_close(features(encoder, pixels()), expected, rtol=1e-4, atol=1e-5)
    assert len(encoder.stages) == 3


@pytest.mark.parametrize(
    "tower",
    [
        {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32},
        {"timm_model_name": "resnet10t", "timm_pool": "avg", "image_size": 32},
    ],
)
def test_open_clip_with_other_towers(tmp_path: Path, tower: dict[str, object]) -> None:
    custom = {"custom_text": True} if "timm_model_name" in tower else {}
    model = write_open_clip(tmp_path / "model", OPEN_CLIP | {"vision_cfg": tower} | custom)
    name = f"open_clip:{tmp_path / 'model'}"
    assert (found := usual_images(name)) is not None
    assert (found.channels, found.size) == (3, 32)
    encoder = build_encoder(name, image_size=32)
    with torch.no_grad():
        expected = model.encode_image(pixels(size=32))
    torch.testing.assert_close(features(encoder, pixels(size=32)), expected, rtol=1e-4, atol=1e-5)
    assert len(encoder.stages) == 5
    again = build_encoder(name, image_size=32, config=kept(encoder, tmp_path / "config"))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(features(again, pixels(size=32)), features(encoder, pixels(size=32)))


def test_open_clip_from_an_architecture_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip

    model = write_open_clip(tmp_path / "model")
    config = tmp_path / "Tiny-ViT.json"
    config.write_text(json.dumps(OPEN_CLIP))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", [config])
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", {})
    open_clip.add_model_config(config)
    name = f"open_clip:Tiny-ViT@{tmp_path / 'model' / 'open_clip_model.safetensors'}"
    assert (found := usual_images(name)) is not None
    assert (found.channels, found.size) == (3, SIZE)
    encoder = build_encoder(name, image_size=SIZE)
    with torch.no_grad():
        expected = model.encode_image(pixels())
    torch.testing.assert_close(features(encoder, pixels()), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="open_clip has no architecture 'None-Such'"):
        build_encoder(name.replace("Tiny-ViT", "None-Such"))
    with pytest.raises(DataError, match="there is no file"):
        check_encoder(f"{name}x")


def test_timm_gives_what_its_classifier_reads(tmp_path: Path) -> None:
    model = write_timm(tmp_path / "model")
    encoder = build_encoder(f"timm:{tmp_path / 'model'}", image_size=SIZE)
    with torch.no_grad():
        expected = model.forward_head(model.forward_features(pixels()), pre_logits=True)
    torch.testing.assert_close(features(encoder, pixels()), expected, rtol=1e-4, atol=1e-5)
    same = build_encoder(f"timm:local-dir:{tmp_path / 'model'}", image_size=SIZE)
    assert torch.equal(features(same, pixels()), features(encoder, pixels()))


@pytest.mark.parametrize("size", [SIZE, 2 * SIZE])
def test_what_is_kept_rebuilds_the_encoder_without_the_folder(
    name: str, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = build_encoder(name, image_size=size)
    config = kept(encoder, tmp_path / "config")
    shutil.rmtree(tmp_path / "model")
    assert not [file for file in config.rglob("*") if file.suffix not in (".json", "")]
    assert str(tmp_path) not in "".join(file.read_text("utf-8") for file in config.rglob("*.json"))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("nothing may be asked"))
    again = build_encoder(name, image_size=size, config=config)
    assert not torch.equal(features(again, pixels(size=size)), features(encoder, pixels(size=size)))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(features(again, pixels(size=size)), features(encoder, pixels(size=size)))
    for value, expected in ((again.mean, MEAN), (again.std, STD)):
        assert value == pytest.approx(expected)
    with pytest.raises(DataError, match="there is no folder"):
        build_encoder(name, image_size=size)


def test_a_name_with_a_folder(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert encoder_modality(name) == "image"
    assert usually_pretrained(name)
    assert (found := usual_images(name)) is not None
    assert (found.channels, found.size) == (3, SIZE)
    check_encoder(name)
    monkeypatch.chdir(tmp_path)
    assert encoder_with_absolute_path(f"{library}:./model") == name
    fresh = [features(build_encoder(name, image_size=SIZE, pretrained=False), pixels()) for _ in range(2)]
    assert not torch.equal(*fresh)


def test_frozen_parts_do_not_move(name: str) -> None:
    encoder = build_encoder(name, image_size=SIZE)
    set_trainable(encoder, "last:1")
    trained = {key for key, p in encoder.named_parameters() if p.requires_grad}
    assert trained
    assert len(trained) < len(list(encoder.parameters()))
    encoder.train()(pixels()).square().sum().backward()
    assert {key for key, p in encoder.named_parameters() if p.grad is not None} == trained


def test_grey_images_are_refused_with_the_remedy(name: str, library: str) -> None:
    if library == "timm":
        encoder = build_encoder(name, channels=1, image_size=SIZE)
        recipe = Recipe(data="x", encoder=name, pretrained=True, channels=1, views="simclr")
        plain = open_views(recipe, encoder, (1, SIZE, SIZE)).plain
        white = plain(
            torch.full((1, 1, SIZE, SIZE), 255, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
        )
        expected = (1 - sum(MEAN) / 3) / (sum(STD) / 3)
        torch.testing.assert_close(white, torch.full_like(white, expected))
    else:
        with pytest.raises(ValueError, match="reads images of 3 channels, not 1; set channels to 3"):
            build_encoder(name, channels=1, image_size=SIZE)


CONFIGS = {"transformers": "config.json", "open_clip": "open_clip_config.json", "timm": "config.json"}


def test_wrong_folders(name: str, library: str, tmp_path: Path) -> None:
    folder, config = tmp_path / "model", CONFIGS[library]
    (weights,) = folder.glob("*.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=str(folder)):
        build_encoder(name, image_size=SIZE)
    weights.unlink()
    with pytest.raises(DataError, match=rf"there (is no file of safetensors|are no weights) in '{folder}'"):
        check_encoder(name)
    weights.write_bytes(whole)
    (folder / config).write_text("{")
    with pytest.raises(DataError, match=str(folder)):
        build_encoder(name, image_size=SIZE)
    (folder / config).unlink()
    with pytest.raises(DataError, match=rf"there is no {config} in '{folder}'"):
        check_encoder(name)
    with pytest.raises(DataError, match="there is no folder"):
        check_encoder(f"{library}:./nowhere")


def test_damaged_configurations_of_a_run(name: str, library: str, tmp_path: Path) -> None:
    config = kept(build_encoder(name, image_size=SIZE), tmp_path / "config")
    for file in list(config.iterdir()):
        content = file.read_text("utf-8")
        file.write_text("{}", "utf-8")
        with pytest.raises(DataError, match=r"cannot be (read as|loaded)|has no|names no"):
            build_encoder(name, image_size=SIZE, config=config)
        file.write_text(content, "utf-8")
    build_encoder(name, image_size=SIZE, config=config)


def test_a_text_model_is_no_image_encoder(tmp_path: Path) -> None:
    from tiny_transformer import write_tiny_transformer

    write_tiny_transformer(tmp_path / "texts")
    with pytest.raises(ValueError, match=r"does not read images; a text model is 'text:FOLDER'"):
        build_encoder(f"transformers:{tmp_path / 'texts'}")


def test_code_in_a_folder_is_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_transformers(folder)
    mark = tmp_path / "was-run"
    (folder / "harm.py").write_text(f"open({str(mark)!r}, 'w')\nclass Model: pass\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "harm", "auto_map": {"AutoModel": "harm.Model", "AutoConfig": "harm.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="cannot be loaded"):
        build_encoder(f"transformers:{folder}", image_size=SIZE)
    assert not mark.exists()


def test_a_pickle_with_code_is_not_read(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return open, (str(tmp_path / "was-run"), "w")

    write_open_clip(tmp_path / "model", pickled=True)
    torch.save({"state_dict": Harm()}, tmp_path / "model" / "epoch_3.pt")
    with pytest.raises(DataError, match=r"epoch_3\.pt"):
        build_encoder(f"open_clip:{tmp_path / 'model'}", image_size=SIZE)
    assert not (tmp_path / "was-run").exists()


def test_without_an_image_processor_a_warning_says_what_is_assumed(tmp_path: Path) -> None:
    write_transformers(tmp_path / "model")
    (tmp_path / "model" / "preprocessor_config.json").unlink()
    name = f"transformers:{tmp_path / 'model'}"
    assert (found := usual_images(name)) is not None
    assert (found.channels, found.size) == (3, SIZE)
    with pytest.warns(UserWarning, match=r"has no preprocessor_config\.json"):
        encoder = build_encoder(name, image_size=SIZE)
    assert encoder.mean is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_encoder(name, image_size=SIZE, config=kept(encoder, tmp_path / "config"))


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("transformers:./x", "transformers", "encoders"),
        ("open_clip:./x", "open_clip", "encoders"),
        ("timm:./x", "timm", "timm"),
    ],
)
def test_without_the_library_the_error_names_the_extra(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'labeltree\[{extra}\]'"):
        check_encoder(name)


def test_a_pooling_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has its own; leave it at 'auto'"):
        build_encoder("small-conv", pooling="cls")
    write_transformers(tmp_path / "model", "vit-classifier")
    with pytest.raises(ValueError, match="has no weights for it; use 'cls' or 'mean'"):
        build_encoder(f"transformers:{tmp_path / 'model'}", image_size=SIZE, pooling="pooler")
