"""An exported model answers in onnxruntime as the run does, and names nothing of what it was trained on."""

import dataclasses
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from PIL import Image

import labeltree as lt
from exported_script import load_exported_script
from labeltree.cli.main import main
from labeltree.decisions import Calibrator, Promise
from labeltree.decisions.rule import Fitted
from labeltree.errors import DataError, RunError
from labeltree.inference.decider import Decider
from labeltree.inference.export.export_folder import export_model
from labeltree.inference.export.export_labels import labels
from labeltree.inference.load_run import load_run
from labeltree.inference.model import Model
from labeltree.inference.reference import load_reference
from sweeps import long_unless, some_now
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 32, "encoder": "small-conv", "accelerator": "cpu", "val": 0.4}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "probe": ("hwc+lam", {"classifier": "probe", "image_size": 28}),
    "own": ("ce", {"classifier": "own", "image_size": 24, "channels": 1, "coarsen": 2}),
    "sphere": ("hwc", {"classifier": "prototypes", "image_size": 20, "encoder": "small-resnet"}),
    "euclidean": (
        "hwc",
        {"classifier": "prototypes", "image_size": 32, "encoder": "timm:test_vit", "geometry": "euclidean"},
    ),
    "poincare": ("hwc", {"classifier": "prototypes", "image_size": 28, "geometry": "poincare"}),
    "guided": ("guided", {"classifier": "own", "image_size": 28, "geometry": "poincare", "adapter": 24}),
    "corr+cls": ("corr+cls", {"classifier": "own", "image_size": 28}),
}
RULES = {  # how probabilities are calibrated, and how an answer is chosen
    "own": ("none", "child"),
    "sphere": ("none", "leaf"),
    "euclidean": ("temperature", "leaf"),
    "poincare": ("vector", "child"),
    "guided": ("depth", "leaf"),
    "corr+cls": ("vector", "leaf"),
}
COVERAGES = (0.5, 0.8, 0.9)
TEXTS = [
    "barks bone", "acorn", "PURRS, mouse!", "?!", "sofa " * 900, "été 犬 🐕 trunk\n", "bone\tbone leaf", "x",
]  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> list[Path]:
    """New files of the classes, then of many kinds: sizes, modes, turned, with transparency, broken.

    For samples that a run was calibrated on, thresholds are equal to probabilities, and rounding decides.
    """
    new = sorted(make_image_folder(tmp_path_factory.mktemp("new") / "new", 2, seed=9).rglob("*.png"))
    folder, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(5)
    noise = rng.integers(0, 256, (31, 45, 3), dtype=np.uint8)
    smooth = np.kron(rng.integers(0, 256, (15, 11, 3), dtype=np.uint8), np.ones((100, 120, 1), np.uint8))
    colour = Image.fromarray(noise)
    turned = Image.Exif()
    turned[0x0112] = 6
    transparent = colour.convert("P")
    transparent.info["transparency"] = 3
    deep = noise[:, :, 0].astype(np.uint16) * 257
    made: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "colour.png": (colour, {}),
        "gray.png": (colour.convert("L"), {}),
        "bits.png": (colour.convert("1"), {}),
        "palette.png": (transparent, {"transparency": 3}),
        "alpha.png": (Image.fromarray(np.dstack([noise, noise[:, :, 1]])), {}),
        "gray alpha.png": (Image.fromarray(noise[:, :, :2]), {}),
        "deep.png": (Image.fromarray(deep), {}),
        "deep.tif": (Image.fromarray(deep), {}),
        "real.tif": (Image.fromarray(noise[:, :, 0].astype(np.float32) / 255), {}),
        "cmyk.jpg": (colour.convert("CMYK"), {}),
        "turned.jpg": (colour, {"exif": turned}),
        "large.jpg": (Image.fromarray(smooth), {"quality": 80}),
        "tiny.bmp": (colour.resize((3, 5)), {}),
        "exact.webp": (colour.resize((28, 28)), {"lossless": True}),
    }
    files = []
    for name, (image, options) in made.items():
        image.save(folder / name, **options)
        files.append(folder / name)
    (folder / "broken.jpg").write_bytes((folder / "large.jpg").read_bytes()[:900])
    (folder / "text.png").write_text("no image")
    return [*files, *new, folder / "broken.jpg", folder / "text.png", folder / "missing.png"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("photos") / "photos", per_leaf=30)


@pytest.fixture(scope="module")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(photos, tmp_path_factory.mktemp("run") / "run", *RUNS["probe"])


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lt.load(run).export(tmp_path_factory.mktemp("model") / "model", ["onnx", "safetensors", "torch"])


def train(data: Path, out: Path, objective: str, settings: dict[str, Any]) -> Path:
    return lt.train(data, objective, out=out, progress_bar=False, **{**SETTINGS, **settings}).path


def write_notes(path: Path) -> Path:
    words = {
        "animal,dog": "barks bone kennel",
        "animal,cat": "purrs mouse sofa",
        "plant,oak": "acorn trunk leaf",
    }
    rows = [f"{a} {b},{label}" for label, said in words.items() for a in said.split() for b in said.split()]
    path.write_text("\n".join(["text,depth1,depth2", *(4 * rows)]))
    return path


def rows_of(model: Model, samples: list[Any], coverage: float = 0.9) -> list[dict[str, Any]]:
    """The rows of a run without what needs its reference samples, which a graph does not have."""
    rows = json.loads(model.predict(samples, coverage=coverage, unknown=0).text("json"))["answers"]
    return [{key: row[key] for key in row if key not in ("unknown", "p_known")} for row in rows]


def check_same(model: Model, folder: Path, samples: list[Any]) -> None:
    """Answers are equal, and probabilities within 1e-4, at several coverages."""
    theirs = load_exported_script(folder)
    for coverage in COVERAGES:
        ours = rows_of(model, samples, coverage)
        same_rows(theirs.predict([str(sample) for sample in samples], coverage), ours, model, coverage)


def same_rows(found: list[dict[str, Any]], ours: list[dict[str, Any]], model: Model, coverage: float) -> None:
    """Rows are the same, unless the threshold is the probability of the finer answer to four digits.

    The threshold is the probability of a calibration sample, which a sample with the same content has, too.
    """
    assert len(found) == len(ours)
    bar = float(model.decider.rule.bars(Promise(coverage))[0])
    for theirs, mine in zip(found, ours, strict=True):
        assert theirs["sample"] == mine["sample"]
        assert (theirs["problem"] is None) == (mine["problem"] is None), (theirs, mine)
        if mine["problem"] is not None:
            continue
        finer = max(theirs, mine, key=lambda row: (row["answer"] != "/", len(row["answer"])))
        if theirs["answer"] != mine["answer"] and abs(finer["probability"] - bar) <= 1e-4:
            continue
        assert theirs["answer"] == mine["answer"], (theirs, mine, bar)
        assert theirs["cut"] == mine["cut"]
        assert theirs["probability"] == pytest.approx(mine["probability"], abs=1e-4)
        for one, other in zip(theirs["guesses"], mine["guesses"], strict=True):
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-4)


def with_rule(decider: Decider, calibration: str, descent: Literal["child", "leaf"]) -> Decider:
    """The same model with another calibration, and thresholds that decide something."""
    count, depth = len(decider.rule.classes), decider.run.taxonomy.max_depth
    calibrator = {
        "none": Calibrator(),
        "temperature": Calibrator("temperature", (4.5,)),
        "vector": Calibrator(
            "vector", slopes=tuple(0.2 + 0.1 * k for k in range(count)), offsets=tuple(range(count))
        ),
        "depth": Calibrator("depth", tuple(3.0 + 0.5 * k for k in range(depth + 1))),
    }[calibration]
    scores = torch.linspace(0, 0.9, len(decider.rule.fitted), dtype=torch.float64)
    fitted = dataclasses.replace(decider.rule.fitted, scores=scores.flip(0))
    rule = dataclasses.replace(decider.rule, calibrator=calibrator, descent=descent, fitted=fitted)
    return dataclasses.replace(decider, rule=rule)


@pytest.mark.long
def test_onnxruntime_answers_as_the_run(run: Path, exported: Path, images: list[Path]) -> None:
    check_numbers(lt.load(run), exported, images)


@pytest.mark.parametrize("name", long_unless(list(RULES), ["own", "poincare"]))
@pytest.mark.long
def test_every_classifier_and_calibration(
    name: str, photos: Path, images: list[Path], tmp_path: Path
) -> None:
    model = lt.load(train(photos, tmp_path / "run", *RUNS[name]))
    assert model.decider.chosen.name == RUNS[name][1]["classifier"]
    model._opened = with_rule(model.decider, *RULES[name])
    folder = export_model(model.decider, tmp_path / "model", ["onnx"])
    check_numbers(model, folder, images)
    cuts = [
        row["cut"] for row in load_exported_script(folder).predict([str(file) for file in images[:14]], 0.9)
    ]
    assert any(cuts), "the thresholds decide something"


def check_numbers(model: Model, folder: Path, images: list[Path]) -> None:
    """Answers are the same, and what the graph computes on the way."""
    check_same(model, folder, images)
    pixels = [Image.open(file) for file in images[:3]]
    features, embeddings = model.embed_batch(pixels)
    theirs = load_exported_script(folder)
    inputs = np.stack([theirs.read(image) for image in pixels])
    found = theirs.SESSION.run(["features", "embeddings"], {"inputs": inputs})
    np.testing.assert_allclose(found[0], features, atol=1e-4)
    np.testing.assert_allclose(found[1], embeddings, atol=1e-4)


@pytest.fixture(scope="module", params=some_now(["small-text", "transformer"]))
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run on texts, and what is exported of it."""
    home = tmp_path_factory.mktemp("texts-of-ward-7")
    name = request.param
    if name == "transformer":
        name = f"text:{write_tiny_transformer(home / 'secret')}"
    run = train(write_notes(home / "notes.csv"), home / "run", "ce", {"encoder": name, "classifier": "own"})
    return run, lt.load(run).export(home / "model", ["onnx", "safetensors", "torch"])


@pytest.mark.long
def test_texts(texts: tuple[Path, Path]) -> None:
    run, folder = texts
    model = lt.load(run)
    check_same(model, folder, TEXTS)
    check_same(model, folder, TEXTS[:1])
    theirs = load_exported_script(folder)
    for empty in ("", " \n"):
        assert theirs.predict([empty])[0]["problem"] == "the text is empty"
    again = lt.load(folder)
    assert again.digest == model.digest
    assert torch.equal(again.predict(TEXTS).answers.nodes, model.predict(TEXTS).answers.nodes)
    assert not places_in(folder, [str(folder.parent), "secret", "notes", "ward-7"])


def test_thresholds_of_every_coverage(run: Path, exported: Path, tmp_path: Path) -> None:
    """The table of thresholds gives the thresholds of the run, with groups and without."""
    decider, theirs = lt.load(run).decider, load_exported_script(exported)
    generator = torch.Generator().manual_seed(1)
    for size in (1, 9, 40, 333):
        scores = torch.rand(size, generator=generator, dtype=torch.float64).round(decimals=2)
        groups = torch.randint(-1, max(size // 3, 1), (size,), generator=generator)
        for given in (None, groups):
            fitted = Fitted(scores, decider.rule.classes.nodes[:1].expand(size), given)
            rule = dataclasses.replace(decider.rule, fitted=fitted)
            theirs.LABELS = json.loads(json.dumps(labels(dataclasses.replace(decider, rule=rule))))
            for coverage in (0.01, 0.1, 1 / 3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999):
                try:
                    expected = float(rule.bars(Promise(coverage))[0])
                except DataError as error:
                    needed = re.findall(r"needs at least \d+ ", str(error))
                    with pytest.raises(ValueError, match=needed[0]) as told:
                        theirs.bar(coverage)
                    most = float(str(told.value).split()[-1])
                    assert theirs.bar(most) == float(rule.bars(Promise(most))[0])
                else:
                    assert theirs.bar(coverage) == expected, (size, given is None, coverage)


def test_exported_folder_works_as_the_run(
    run: Path, exported: Path, images: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, again = lt.load(run), lt.load(exported)
    assert again.digest == model.digest
    good = [str(file) for file in images[:6]]
    assert torch.equal(again.embed(good).embeddings, model.embed(good).embeddings)
    rows = [rows_of(one, images) for one in (model, again)]
    assert rows[0] == rows[1]
    assert main(["predict", str(exported), good[0], "--coverage", "0.8"]) == 0
    assert main(["embed", str(exported), "--data", str(images[0].parent), "--unlabelled", "--out",
                 str(tmp_path / "x.npz")]) == 0  # fmt: skip
    assert main(["export", str(exported), "--out", str(tmp_path / "again")]) == 0
    assert lt.load(tmp_path / "again").digest == model.digest
    assert main(["calibrate", str(exported)]) == 2, "it has neither data nor reference samples"
    assert main(["evaluate", str(exported)]) == 2
    assert "answers for other samples only" in capsys.readouterr().err


def test_an_export_that_cannot_tell_unknown_samples_says_so(
    run: Path, exported: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it says of a sample is what `predict` does with it: there is no column `unknown`."""
    said = "cannot tell samples of unknown classes, as the run can"
    lt.export(run, tmp_path / "bare", formats=["safetensors"])
    assert said in caplog.text
    assert lt.load(tmp_path / "bare").decider.novelty is None
    caplog.clear()
    lt.export(run, tmp_path / "whole", formats=["safetensors"], with_reference=True)
    assert lt.load(tmp_path / "whole").decider.novelty is not None
    lt.export(exported, tmp_path / "again", formats=["safetensors"])
    assert said not in caplog.text, "nor can the model that is exported"


def test_program_of_torch(run: Path, exported: Path) -> None:
    program = torch.export.load(exported / "model.pt2").module()
    pixels = torch.randint(0, 256, (5, 3, 28, 28), dtype=torch.uint8, generator=torch.manual_seed(0))
    features, embeddings, scores = program(pixels)
    expected = lt.load(run).network
    with torch.no_grad():
        mine = expected(expected.plain(pixels))
    torch.testing.assert_close(features, mine[0])
    torch.testing.assert_close(embeddings, mine[1])
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(5))


def test_reference_samples_are_exported_only_if_asked_for(run: Path, exported: Path, tmp_path: Path) -> None:
    assert not (exported / "reference.safetensors").exists()
    folder = lt.load(run).export(tmp_path / "model", ["safetensors"], with_reference=True)
    own, theirs = (load_reference(load_run(one, own_data=False)) for one in (run, folder))
    assert own is not None
    assert theirs is not None
    assert not torch.equal(own.embeddings, theirs.embeddings), "the order of the data does not leave"
    for one in (own, theirs):
        assert sorted(map(tuple, own.embeddings.tolist())) == sorted(map(tuple, one.embeddings.tolist()))
    assert main(["calibrate", str(folder), "--calibration", "none"]) == 0
    with pytest.raises(ValueError, match="go with the format 'safetensors'"):
        lt.load(run).export(tmp_path / "other", ["onnx"], with_reference=True)


def test_targets(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, words = tmp_path / "model", ["--format", "safetensors"]
    out.mkdir()
    assert main(["export", str(run), "--out", str(out), *words]) == 0, "an empty folder is taken"
    (out / "mark").touch()
    assert main(["export", str(run), "--out", str(out), *words]) == 2
    assert "--replace it" in capsys.readouterr().err
    assert main(["export", str(run), "--out", str(out), *words, "--replace", "--name", "Zoo"]) == 0
    assert not (out / "mark").exists()
    assert "# Zoo" in (out / "README.md").read_text()
    assert main(["export", str(run), "--out", str(run), *words, "--replace"]) == 2
    assert "holds no exported model" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(ValueError, match="format is 'tflite'"):
        lt.load(run).export(tmp_path / "x", ["tflite"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no format"):
        lt.load(run).export(tmp_path / "x", [])


def test_a_failed_export_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from labeltree.inference.export import export_folder as folder

    def fail(*_: object) -> None:
        raise RunError("an encoder that cannot be exported")

    monkeypatch.setattr(folder, "write_onnx", fail)
    with pytest.raises(RunError, match="cannot be exported"):
        lt.load(run).export(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_says_so(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lt.load(run)
    forward = model.encoder.forward

    def branches(images: torch.Tensor) -> torch.Tensor:
        return forward(images) if float(images.sum()) > 0 else forward(-images)

    monkeypatch.setattr(model.encoder, "forward", branches)
    with pytest.raises(RunError, match=r"'small-conv' with objective .* cannot be written as ONNX"):
        model.export(tmp_path / "model", ["onnx"])


def test_weights_of_a_large_model_lie_beside_its_graph(
    run: Path, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labeltree.inference.export import graph_files

    monkeypatch.setattr(graph_files, "_LARGEST", 0)
    model = lt.load(run)
    folder = model.export(tmp_path / "model", ["onnx"])
    assert (folder / "model.onnx.data").stat().st_size > (folder / "model.onnx").stat().st_size
    check_same(model, folder, images[:4])


def test_missing_library_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from labeltree.inference.export import graph_files

    monkeypatch.setattr(graph_files, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'labeltree\[export\]'"):
        lt.load(run).export(tmp_path / "model")


def test_information_on_one_screen(
    run: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    copy = tmp_path / "evaluated"
    shutil.copytree(run, copy)
    assert main(["info", str(copy)]) == 0
    assert "not evaluated" in capsys.readouterr().out
    lt.evaluate(copy, resamples=200)
    assert main(["info", str(copy)]) == 0
    said = capsys.readouterr().out
    assert "top-1" in said
    assert "[" in said
    assert lt.load(copy).info() == said
    assert repr(lt.load(copy).info()) == said.rstrip("\n"), "the last line of a cell of a notebook"
    folder = lt.load(copy).export(tmp_path / "model", ["safetensors"])
    card = (folder / "README.md").read_text()
    assert "| top-1 accuracy |" in card
    assert card.startswith("---\nlibrary_name: labeltree\n")
    for path in (copy, exported, folder):
        assert main(["info", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 100
        assert "Answers come from a linear probe" in " ".join(" ".join(lines).split())
    assert "not defined" not in card
    content = json.loads((folder / "config.json").read_text())
    assert content["label2id"] == {name: int(number) for number, name in content["id2label"].items()}


def places_in(folder: Path, planted: list[str]) -> list[tuple[str, str]]:
    """Where planted words are found: in the bytes of any file, and in the members of archives."""
    import zipfile

    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts = [(file.name, file.read_bytes())]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                parts += [(f"{file.name}/{name}", archive.read(name)) for name in archive.namelist()]
        for name, content in parts:
            for word in planted:
                forms = (word.encode(), json.dumps(word).strip('"').encode(), word.encode("utf-16-le"))
                found += [(name, word)] * any(form in content for form in forms)
    return found


def test_nothing_of_the_training_samples_leaves(
    tmp_path: Path, make_image_folder: Callable[..., Path]
) -> None:
    """Ids, file names, folders, groups and places are in no byte of an export, but the groups' column is."""
    home = tmp_path / "ward-7-confidential"
    photos = make_image_folder(home / "photographs", per_leaf=14)
    rows = ["picture,depth1,depth2,who_it_is,site"]
    for number, file in enumerate(sorted(photos.rglob("*.png"))):
        secret = file.with_name(f"scan_of_mueller_{number}.png")
        file.rename(secret)
        parts = secret.relative_to(photos).parts
        rows.append(f"{secret.relative_to(home)},{parts[0]},{parts[1]},PAT-{7000 + number // 2},Ärztehaus")
    table = home / "patients-of-2026.csv"
    table.write_text("\n".join(rows))
    columns = {"image_column": "picture", "label_columns": ["depth1", "depth2"], "group_column": "who_it_is"}
    settings = {"image_size": 28, "table": columns, "taxonomy": None}
    run = train(table, home / "run-of-dr-x", "hwc+lam", settings)
    assert {word for _, word in places_in(run, ["patients-of", "who_it_is", "ward-7"])} == {
        "patients-of",
        "who_it_is",
        "ward-7",
    }, "the run itself has them, and the search finds them"
    lt.evaluate(run, resamples=20)
    folder = tmp_path / "out"
    assert main(["export", str(run), "--out", str(folder), "--format", "onnx", "safetensors", "torch",
                 "--with-reference"]) == 0  # fmt: skip
    import getpass
    import platform

    planted = ["PAT-70", "mueller", "scan_of", "ward-7", "photographs", "Ärztehaus", "run-of-dr"]
    planted += ["patients-of", str(tmp_path), str(Path.home()) + "/", str(Path(lt.__file__).parents[2])]
    planted += [sys.prefix, "site-packages"]
    planted += [name for name in (platform.node(), getpass.getuser()) if len(name) > 5]
    assert places_in(folder, planted) == []
    assert {file.name for file in folder.iterdir()} == {
        "README.md", "classifier.json", "classifier.safetensors", "config.json", "decisions.json",
        "encoder.safetensors", "labels.json", "model.json", "model.onnx", "model.pt2", "predict.py",
        "preprocess.json", "reference.safetensors", "taxonomy.json",
    }  # fmt: skip
    images = sorted(make_image_folder(tmp_path / "new", 2, seed=3).rglob("*.png"))
    check_same(lt.load(run), folder, images)
    rows = (json.loads(lt.load(one).predict(images).text("json"))["answers"] for one in (run, folder))
    assert next(rows) == next(rows)


def test_places_in_settings_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from labeltree.inference.public_settings import public_description, public_encoder, public_json
    from labeltree.runs import ModelDescription

    settings = {
        "data": "/home/x/scans", "encoder": "transformers:/home/x/dino", "weights": "/home/x/w.safetensors",
        "train_taxonomy": "tree.json", "devise": {"vectors": "~/vectors.txt", "margin": 0.1},
        "table": {"group_column": "patient", "label_columns": ["a"]}, "missing_labels": ["n/a"],
    }  # fmt: skip
    found = public_description(
        ModelDescription(settings, None, {"groups": ("patient",), "labels": ("a",), "texts": ("t",)})
    )
    text = json.dumps(found.settings)
    assert not any(word in text for word in ("home", "tree.json", "vectors.txt", "patient"))
    placed = ModelDescription(settings, None, {"groups": ("/home/x/patients",), "labels": ("a",)})
    assert public_description(placed).columns == {"labels": ("a",)}
    assert found.settings["missing_labels"] == ["n/a"]
    assert found.settings["devise"]["margin"] == 0.1
    assert found.columns == {"groups": ("patient",), "labels": ("a",), "texts": ("t",)}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet18").mkdir()
    assert public_encoder("timm:resnet18") == "timm:resnet18", "whatever lies in the folder"
    assert public_encoder(f"text:{tmp_path}") == "text:./encoder"
    assert public_encoder("open_clip:ViT-B-32@/x/w.safetensors") == "open_clip:./encoder"
    assert json.loads(public_json('{"_name_or_path": "/x", "a": [{"name_or_path": "/y", "b": 1}]}')) == {
        "a": [{"b": 1}]
    }


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the four libraries that an exported model needs."""
    place = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    wanted, done = ["onnxruntime", "numpy", "pillow", "tokenizers"], set()
    while wanted:
        if (name := wanted.pop()) in done:
            continue
        done.add(name)
        found = importlib.metadata.distribution(name)
        needs = [Requirement(line) for line in found.requires or ()]
        wanted += [one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})]
        for part in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / part).exists():
                (site / part).symlink_to(found.locate_file(part))
    return place / "bin" / "python"


def in_bare(python: Path, folder: Path, samples: list[str], coverage: float) -> list[dict[str, Any]]:
    words = [str(python), "predict.py", *samples, "--coverage", str(coverage)]
    done = subprocess.run(words, cwd=folder, env={}, capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == any(row["problem"] for row in found), done.stderr
    return found


def test_images_in_a_bare_environment(
    bare_python: Path, run: Path, exported: Path, images: list[Path]
) -> None:
    absent = subprocess.run([bare_python, "-c", "import torch"], capture_output=True, env={})
    assert absent.returncode == 1
    model = lt.load(run)
    ours = rows_of(model, images, 0.8)
    same_rows(in_bare(bare_python, exported, [str(file) for file in images], 0.8), ours, lt.load(run), 0.8)
    words = [str(bare_python), "predict.py", "none.png", "--coverage", "0.9999"]
    refused = subprocess.run(words, cwd=exported, env={}, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "predict.py: error: coverage 0.9999 needs at least 9999 calibration samples" in refused.stderr


@pytest.mark.long
def test_texts_in_a_bare_environment(bare_python: Path, texts: tuple[Path, Path]) -> None:
    run, folder = texts
    model = lt.load(run)
    ours = rows_of(model, TEXTS, 0.7)
    same_rows(in_bare(bare_python, folder, TEXTS, 0.7), ours, model, 0.7)
