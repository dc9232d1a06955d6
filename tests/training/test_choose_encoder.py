"""The encoder of a recipe that leaves it open: by a look at the images, once, and written into the recipe."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch import Tensor, nn

from labeltree.data import open_source
from labeltree.errors import DataError
from labeltree.inference.model import Model
from labeltree.models import Encoder
from labeltree.models import encoder_registry as registry
from labeltree.preprocessing import ImageInput, ImageLook, Preprocessing
from labeltree.runs import ModelDescription, RunFolder
from labeltree.training.choosing import choose_encoder as module
from labeltree.training.choosing.choose_encoder import IMAGE_ENCODER, choose_encoder, choose_text_encoder
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of
from labeltree.training.recipe import Recipe

NAME = "tiny-pretrained"
SIDE = 40
PHOTOGRAPHS = ImageLook(640, 480, None, False)


class Tiny(Encoder):
    def __init__(self, channels: int) -> None:
        super().__init__(NAME, 12)
        self.body = nn.Conv2d(channels, 12, 8, 8)

    @property
    def stages(self) -> list[nn.Module]:
        return [self.body]

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.body(images)
        return maps.abs().mean(dim=(2, 3))


def pretrained(channels: int, image_size: int) -> Tiny:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return Tiny(channels)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A pretrained encoder for photographs that needs no file."""
    registry.register_encoder(
        NAME,
        summary="for tests",
        pretrained=pretrained,
        images=ImageInput(3, SIDE, Preprocessing(crop=0.8)),
    )(lambda channels, image_size: Tiny(channels))
    monkeypatch.setenv(IMAGE_ENCODER, NAME)
    module._missing_weights.cache_clear()
    yield NAME
    registry._ENTRIES.pop(NAME)
    module._missing_weights.cache_clear()


@pytest.fixture(scope="session")
def photographs(make_image_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("large") / "photos", size=100)


def recipe(data: object = "photos", **settings: Any) -> Recipe:
    given = [f"--{key}={value}" for key, value in settings.items()]
    return parser_of("supcon").recipe(["--data", str(data), "--objective", "supcon", *given])


def test_photographs_get_the_pretrained_encoder_at_its_own_size(tiny: str) -> None:
    choice = choose_encoder(recipe(), PHOTOGRAPHS)
    assert (choice.encoder, choice.pretrained, choice.kind) == (NAME, True, "photographs")
    assert choice.images == ImageInput(3, SIDE, Preprocessing(crop=0.8))
    assert choice.warning is None
    assert str(choice) == (
        "tiny-pretrained at 40 × 40 pixels, pretrained and frozen: images of 640 × 480 pixels (the median), "
        "in colour, are photographs"
    )


@pytest.mark.parametrize(
    ("look", "kind", "encoder", "size"),
    [
        (ImageLook(28, 28, 28, True), "small", "small-conv", 28),
        (ImageLook(64, 64, 64, False), "small", "small-conv", 64),
        (ImageLook(300, 50, None, False), "small", "small-conv", 48),
        (ImageLook(65, 65, 65, False), "between", NAME, SIDE),
        (ImageLook(95, 400, None, False), "between", NAME, SIDE),
        (ImageLook(512, 512, 512, True), "between", NAME, SIDE),
        (ImageLook(512, 512, 512, False, drawn=True), "between", NAME, SIDE),
        (ImageLook(96, 96, 96, False), "photographs", NAME, SIDE),
    ],
)
def test_by_size_and_colour(look: ImageLook, kind: str, encoder: str, size: int, tiny: str) -> None:
    choice = choose_encoder(recipe(), look)
    assert (choice.kind, choice.encoder, choice.images.size) == (kind, encoder, size)


def test_what_the_user_names_counts(tiny: str) -> None:
    assert choose_encoder(recipe(pretrained="false"), PHOTOGRAPHS).encoder == "small-conv"
    assert choose_encoder(recipe(weights="any.safetensors"), PHOTOGRAPHS).encoder == "small-conv"
    small = choose_encoder(recipe(image_size=19), PHOTOGRAPHS)
    assert (small.encoder, small.images.size) == ("small-conv", 19)
    assert "image_size is 19, too small for tiny-pretrained (40 pixels)" in small.why
    assert choose_encoder(recipe(image_size=20), PHOTOGRAPHS).images.size == 20


def test_a_text_encoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGE_ENCODER, "small-text")
    with pytest.raises(ValueError, match="LABELTREE_IMAGE_ENCODER is 'small-text', which reads no images"):
        choose_encoder(recipe(), PHOTOGRAPHS)


class TestWeightsThatAreNotThere:
    @pytest.fixture(autouse=True)
    def _nowhere(self, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(IMAGE_ENCODER, raising=False)
        module._missing_weights.cache_clear()

    def test_nothing_is_fetched_offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "fetch", lambda *_, **__: pytest.fail("fetched"))
        choice = choose_encoder(recipe(), PHOTOGRAPHS)
        assert (choice.encoder, choice.images.size) == ("small-conv", 64)
        assert choice.warning is not None
        assert "nothing may be fetched (offline); 'labeltree data get efficientnet-lite0'" in choice.warning

    def test_they_are_fetched_with_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, cache_folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.delenv("LABELTREE_OFFLINE")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        given = {}

        def fetch(name: str, **how: object) -> None:
            given.update(how, name=name)
            (cache_folder / name / "weights").mkdir(parents=True)

        monkeypatch.setattr(module, "fetch", fetch)
        assert choose_encoder(recipe(), PHOTOGRAPHS).encoder == "efficientnet-lite0"
        assert choose_encoder(recipe(), PHOTOGRAPHS).images.size == 224
        assert given == {"name": "efficientnet-lite0", "seconds": 10}
        (said,) = [one.getMessage() for one in caplog.records]
        assert "17 MB to download" in said
        assert "licence: Apache-2.0" in said

    def test_texts_follow_the_same_rule(
        self, monkeypatch: pytest.MonkeyPatch, cache_folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        chosen, warning = choose_text_encoder(recipe())
        assert (chosen.encoder, chosen.pretrained) == ("small-text", False)
        assert warning is not None
        assert "nothing may be fetched (offline); 'labeltree data get minilm' fetches it elsewhere" in warning
        assert choose_text_encoder(recipe(pretrained="false"))[1] is None
        monkeypatch.delenv("LABELTREE_OFFLINE")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

        def fetch(name: str, **_: object) -> None:
            (cache_folder / name / "weights").mkdir(parents=True)

        monkeypatch.setattr(module, "fetch", fetch)
        chosen, warning = choose_text_encoder(recipe())
        assert (chosen.encoder, warning) == ("minilm", None)
        (said,) = [one.getMessage() for one in caplog.records]
        assert "84 MB to download" in said
        assert "LABELTREE_OFFLINE=1 or --offline does without" in said

    def test_a_failure_is_said_and_tried_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LABELTREE_OFFLINE")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        tried = []

        def fail(name: str, **_: object) -> None:
            tried.append(name)
            raise DataError("there is no connection")

        monkeypatch.setattr(module, "fetch", fail)
        for _ in range(2):
            choice = choose_encoder(recipe(), PHOTOGRAPHS)
        assert tried == ["efficientnet-lite0"]
        assert choice.warning is not None
        assert (
            "there is no connection. On photographs such an encoder often answers half as well"
            in choice.warning
        )


@pytest.mark.slow
class TestRuns:
    @pytest.fixture(autouse=True)
    def _without_warnings(self, cache_folder: Path) -> None:
        pass

    def test_the_choice_is_made_once(
        self, tiny: str, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = {"epochs": 2, "batch_size": 9, "accelerator": "cpu"}
        notes: list[str] = []
        folder = train(
            recipe(photographs, **settings), tmp_path / "run", on_data=lambda found: notes.extend(found.notes)
        )
        (said,) = [note for note in notes if note.startswith("encoder: ")]
        assert "pretrained and frozen" in said
        written = yaml.safe_load(folder.recipe.read_text())
        assert written["encoder"] == NAME
        assert (written["trainable"], written["views"], written["image_size"]) == ("head", "identity", SIDE)
        assert written["monitor"] == "embeddings_map_at_r"
        description = ModelDescription.load(folder.description)
        assert description.preprocessing == Preprocessing(crop=0.8)
        assert description.image_shape == (3, SIDE, SIDE)
        # the same command continues, and other commands open the run, whatever would be chosen now
        monkeypatch.setenv(IMAGE_ENCODER, "small-conv")
        history = folder.history.read_text()
        again = train(recipe(photographs, **settings), tmp_path / "run", verify=True)
        assert again.history.read_text() == history
        self.check_answers(folder, photographs)

    def check_answers(self, folder: RunFolder, photographs: Path) -> None:
        """Files are cut in the same way in training, by a model, and by hand."""
        model = Model(folder.path)
        files = sorted(photographs.rglob("*.png"))[:4]
        assert model.network.preprocessing == Preprocessing(crop=0.8)
        images = [Image.open(file) for file in files]
        read = ImageInput(3, SIDE, Preprocessing(crop=0.8))
        source = open_source(photographs, image_size=SIDE, channels=3, preprocessing=read.preprocessing)
        inputs = model.inputs(images)
        assert torch.equal(inputs, source.load(range(4)))
        middle = np.asarray(images[0].resize((50, 50), Image.Resampling.BICUBIC, reducing_gap=3.0))[
            5:45, 5:45
        ]
        assert np.array_equal(inputs[0].permute(1, 2, 0).numpy(), middle)

    def test_without_weights_a_warning_stands_last(
        self, photographs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from labeltree.cli.main import main

        module._missing_weights.cache_clear()
        command = [
            "train",
            "--data",
            str(photographs),
            "--out",
            str(tmp_path / "run"),
            "--offline",
            "--epochs",
            "1",
        ]
        assert main([*command, "--objective", "supcon", "--batch_size", "30", "--image_size", "16"]) == 0
        assert "is not to be had" not in capsys.readouterr().err  # as the user wanted such small images
        command[4] = str(tmp_path / "other")
        assert main([*command, "--objective", "supcon", "--batch_size", "30"]) == 0
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("warning: small-conv is trained from scratch, because the pretrained encoder")
        assert json.loads((tmp_path / "other" / "data.json").read_text())["closing"] in last

    @pytest.mark.parametrize("better", ["small-conv", NAME])
    def test_between_the_two_validation_decides(
        self,
        better: str,
        tiny: str,
        make_image_folder: Callable[..., Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from labeltree.training import encoder_candidates

        data = make_image_folder(tmp_path / "photos", size=70)
        scored = encoder_candidates._score

        def score(place: RunFolder) -> float:
            encoder = yaml.safe_load(place.recipe.read_text())["encoder"]
            assert 0 <= scored(place) <= 1
            return 0.9 if encoder == better else 0.1

        monkeypatch.setattr(encoder_candidates, "_score", score)
        notes: list[str] = []
        settings = {"epochs": 1, "batch_size": 9, "accelerator": "cpu"}
        folder = train(
            recipe(data, **settings), tmp_path / "run", on_data=lambda found: notes.extend(found.notes)
        )
        (said,) = [note for note in notes if note.startswith("encoder: ")]
        assert said.startswith(f"encoder: {better} at ")
        assert f"validation prefers it (MAP@R of the embeddings: {NAME} " in said
        written = yaml.safe_load(folder.recipe.read_text())
        assert written["encoder"] == better
        side = 64 if better == "small-conv" else SIDE
        assert ModelDescription.load(folder.description).image_shape == (3, side, side)
        assert len(folder.read_history()) == 1
        assert not (folder.path / "candidates").exists()
        assert folder.encoder.is_file()

    def test_a_frozen_encoder_has_wide_embeddings_and_goes_on_with_them(
        self, tiny: str, photographs: Path, tmp_path: Path
    ) -> None:
        plain = parser_of("auto").recipe(
            ["--data", str(photographs), "--accelerator", "cpu", "--batch_size", "9"]
        )
        folder = train(dataclasses.replace(plain, epochs=1), tmp_path / "run")
        settings = ModelDescription.load(folder.description).settings
        assert settings["objective"] == "pairs-proxies-means"
        assert settings["head"]["dim"] == 256
        assert Model(folder.path).network.objective.dim == 256
        folder.encoder.unlink()
        train(dataclasses.replace(plain, epochs=1), folder.path)
        assert folder.encoder.is_file()
        named = train(
            dataclasses.replace(plain, epochs=1, head=dataclasses.replace(plain.head, dim=8)),
            tmp_path / "other",
        )
        assert ModelDescription.load(named.description).settings["head"]["dim"] == 8
