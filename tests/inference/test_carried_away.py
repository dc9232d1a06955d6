"""A run folder that was carried away: the data are gone, and it answers, embeds and calibrates as before."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError
from labeltree.inference.load_run import load_run
from labeltree.inference.model import Model
from labeltree.inference.reference import load_reference
from labeltree.runs import RunFolder
from sweeps import long_unless

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "accelerator": "cpu"}


def train(data: Path, out: Path, objective: str = "hwc+lam", **settings: object) -> Path:
    chosen = {**SETTINGS, "val": 0.3, **settings}
    return lt.train(data, objective, out=out, progress_bar=False, **chosen).path


@pytest.fixture(scope="module")
def carried(
    tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]
) -> tuple[Path, Path, dict[str, torch.Tensor]]:
    """A run at another place, new images, and what the run said of them when its data were there."""
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos")
    run = train(photos, home / "run")
    new = make_image_folder(tmp_path_factory.mktemp("new") / "photos", per_leaf=4, seed=1)
    before = answers(run, new)
    away = tmp_path_factory.mktemp("away") / "model"
    shutil.copytree(run, away)
    shutil.rmtree(home)
    return away, new, before


def answers(run: Path, new: Path) -> dict[str, torch.Tensor]:
    model = lt.load(run)
    table = model.embed(data=new)
    found = model.predict(data=new, coverage=0.8).answers
    return {
        "features": table.features,
        "embeddings": table.embeddings,
        "nodes": found.nodes,
        "probabilities": found.probabilities,
    }


def test_predicts_and_embeds_as_before(carried: tuple[Path, Path, dict[str, torch.Tensor]]) -> None:
    away, new, before = carried
    for name, value in answers(away, new).items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, msg=name)


def test_commands_work(
    carried: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away, new, _ = carried
    run = tmp_path / "run"
    shutil.copytree(away, run)
    image = next(iter(sorted(new.rglob("*.png"))))
    assert main(["predict", str(run), str(image), "--format", "json", "--coverage", "0.8"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["about"]["model"] == lt.load(run).digest
    assert content["answers"][0]["sample"] == str(image)
    assert main(["embed", str(run), "--data", str(new), "--out", str(tmp_path / "new.npz")]) == 0
    assert main(["calibrate", str(run)]) == 0
    assert main(["calibrate", str(run), "--data", str(new), "--calibration", "none"]) == 0
    assert json.loads((run / "decisions.json").read_text())["calibrated_on"] == "photos"
    assert main(["calibrate", str(run), "--classifier", "prototypes", "--descent", "leaf"]) == 0
    assert lt.load(run).decider.chosen.name == "prototypes"
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 2
    assert "are no longer at" in capsys.readouterr().err


def test_it_is_exported_and_served(
    carried: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fastapi.testclient import TestClient

    from labeltree.serving import ServiceSettings
    from labeltree.serving.app import create_app
    from labeltree.serving.engine import Engine

    away, new, _ = carried
    image = min(new.rglob("*.png"))
    expected = json.loads(lt.load(away).predict(image, coverage=0.8).text("json"))["answers"][0]
    words = ["--format", "safetensors", "--with-reference"]
    assert main(["export", str(away), "--out", str(tmp_path / "model"), *words]) == 0
    assert (
        main(["predict", str(tmp_path / "model"), str(image), "--coverage", "0.8", "--format", "json"]) == 0
    )
    printed = capsys.readouterr().out
    assert json.loads(printed[printed.index("{\n") :])["answers"][0] == expected
    assert 0 < expected["p_known"] <= 1
    # without reference samples it answers as with none called unknown, and says so
    plain = json.loads(lt.load(away).predict(image, coverage=0.8, unknown=0).text("json"))["answers"][0]
    assert main(["export", str(away), "--out", str(tmp_path / "bare"), "--format", "safetensors"]) == 0
    found = lt.load(tmp_path / "bare").predict(image, coverage=0.8)
    assert found.warning is not None
    assert "unknown classes are named like known ones: the folder has no reference" in found.warning
    row = json.loads(found.text("json"))["answers"][0]
    assert row == {key: plain[key] for key in row}
    for folder in (away, tmp_path / "model"):
        engine = Engine(folder, ServiceSettings(), threads=1)
        with TestClient(create_app(engine)) as client:
            files = [("files", (image.name, image.read_bytes(), "image/png"))]
            reply = client.post("/predict", params={"coverage": 0.8}, files=files).json()
        assert reply["about"]["model"] == lt.load(folder).digest
        assert reply["answers"][0]["answer"] == expected["answer"]
        assert reply["answers"][0]["probability"] == pytest.approx(expected["probability"], abs=1e-4)


def test_a_new_calibration_is_another_model(
    carried: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    away, new, _ = carried
    run = tmp_path / "run"
    shutil.copytree(away, run)
    before = lt.load(run).digest
    assert lt.load(run).digest == before == lt.load(away).digest
    assert main(["calibrate", str(run), "--data", str(new), "--calibration", "none"]) == 0
    assert lt.load(run).digest != before
    chosen = RunFolder(run).chosen_classifier.read_bytes()
    with pytest.raises(
        RunError, match=r"were calibrated on 'photos' for .* another classifier than 'prototypes'"
    ):
        lt.load(run, classifier="prototypes").answer_batch([Image.new("RGB", (28, 28))])
    assert RunFolder(run).chosen_classifier.read_bytes() == chosen, "nothing is changed by what is refused"
    assert lt.load(run).digest != before


def test_files_images_and_arrays_get_the_same_answers(
    carried: tuple[Path, Path, dict[str, torch.Tensor]],
) -> None:
    away, new, _ = carried
    model = lt.load(away)
    files = sorted(new.rglob("*.png"))[:6]
    images = [Image.open(file).convert("RGB") for file in files]
    arrays = [np.asarray(image) for image in images]
    expected = model.predict(files, coverage=0.8)
    for samples in (images, arrays, [images[0], *arrays[1:]]):
        found = model.predict(samples, coverage=0.8).answers
        assert torch.equal(found.nodes, expected.answers.nodes)
        assert torch.equal(found.probabilities, expected.answers.probabilities)
        torch.testing.assert_close(model.embed(samples).embeddings, model.embed(files).embeddings)
    batch = model.answer_batch(images, coverage=0.8)
    assert torch.equal(batch.nodes, expected.answers.nodes)
    torch.testing.assert_close(batch.probabilities, expected.answers.probabilities, rtol=1e-4, atol=1e-4)
    features, embeddings = model.embed_batch(arrays)
    torch.testing.assert_close(embeddings, model.embed(files).embeddings)
    assert features.shape == (6, model.encoder.feature_dim)
    assert model.predict(images[0]).samples == ["sample 0"]
    assert model.embed(files[0]).embeddings.shape == (1, embeddings.shape[1])


def test_wrong_samples_are_named(carried: tuple[Path, Path, dict[str, torch.Tensor]]) -> None:
    model = lt.load(carried[0])
    good = Image.new("RGB", (30, 20))
    found = model.predict(
        [good, np.zeros((4, 4, 2), np.uint8), np.zeros((4, 4)), good, np.zeros((0, 3), np.uint8)]
    )
    assert sorted(found.skipped) == [1, 2, 4]
    assert "expected uint8" in found.skipped[2]
    assert len(found.answers) == 2
    with pytest.raises(DataError, match=r"sample 1 is an array float64 \(2, 2\)"):
        model.answer_batch([good, np.zeros((2, 2))])
    with pytest.raises(DataError, match="sample 0 is a str; expected a PIL image"):
        model.embed_batch(["x.png"])
    with pytest.raises(ValueError, match="in one way"):
        model.predict([good], texts=["a"])
    with pytest.raises(ValueError, match="in one way"):
        model.predict([])
    assert len(model.answer_batch([])) == 0
    assert [len(part) for part in model.embed_batch([])] == [0, 0]


def test_threads_share_a_model(carried: tuple[Path, Path, dict[str, torch.Tensor]]) -> None:
    model = lt.load(carried[0])
    images = [Image.open(file) for file in sorted(carried[1].rglob("*.png"))]
    expected = lt.load(carried[0]).answer_batch(images)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda image: model.answer_batch([image]), images))
    assert [int(one.nodes) for one in found] == expected.nodes.tolist()
    alone = torch.cat([one.probabilities for one in found])
    torch.testing.assert_close(alone, expected.probabilities, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_what_only_training_needs_is_not_imported(
    carried: tuple[Path, Path, dict[str, torch.Tensor]],
) -> None:
    away, new, _ = carried
    image = str(next(iter(sorted(new.rglob("*.png")))))
    code = (
        "import sys; from labeltree.cli.main import main; code = main(sys.argv[1:]);"
        "slow = ('lightning', 'torchvision', 'sklearn', 'pandas', 'timm', 'transformers', 'jsonargparse');"
        "print(code, [name for name in slow if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", str(away), image], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("objective", long_unless(["ce", "hwc+lam"], ["hwc+lam"]))
def test_other_training_labels_are_in_the_folder(
    tmp_path: Path, objective: str, make_image_folder: Callable[..., Path]
) -> None:
    """A coarser or another taxonomy of training is not read from where it came from."""
    photos = make_image_folder(tmp_path / "photos")
    leaves = ["poodle", "beagle", "tabby", "rose", "fern"]
    other = tmp_path / "other.json"
    lt.Taxonomy.from_paths([("x" if n % 2 else "y", leaf) for n, leaf in enumerate(leaves)]).save(other)
    runs = {
        "other": train(photos, tmp_path / "a", objective, train_taxonomy=str(other)),
        "coarse": train(photos, tmp_path / "b", objective, coarsen=1),
        "noise": train(photos, tmp_path / "c", objective, taxonomy_noise=0.5),
    }
    images = [Image.open(file) for file in sorted(photos.rglob("*.png"))[::7]]
    before = {name: lt.load(run).answer_batch(images) for name, run in runs.items()}
    other.unlink()
    shutil.rmtree(photos)
    for name, run in runs.items():
        found = lt.load(run).answer_batch(images)
        assert torch.equal(found.nodes, before[name].nodes), name
        assert torch.equal(found.probabilities, before[name].probabilities), name


def test_word_vectors_are_in_the_folder(tmp_path: Path, make_image_folder: Callable[..., Path]) -> None:
    photos, vectors = make_image_folder(tmp_path / "photos"), tmp_path / "vectors.txt"
    words = ["poodle", "beagle", "tabby", "rose", "fern"]
    lines = [f"{word} {' '.join(str((7 * i + j) % 5 - 2) for j in range(8))}" for i, word in enumerate(words)]
    vectors.write_text("\n".join(lines))
    run = train(photos, tmp_path / "run", "devise", devise={"vectors": str(vectors)})
    image = Image.open(min(photos.rglob("*.png")))
    before = lt.load(run).answer_batch([image])
    vectors.unlink()
    shutil.rmtree(photos)
    assert torch.equal(lt.load(run).answer_batch([image]).probabilities, before.probabilities)


@pytest.mark.usefixtures("few_words")
def test_texts(tmp_path: Path) -> None:
    words = {
        "animal,dog": "barks bone kennel",
        "animal,cat": "purrs mouse sofa",
        "plant,oak": "acorn trunk leaf",
    }
    rows = [f"{a} {b},{label}" for label, said in words.items() for a in said.split() for b in said.split()]
    (tmp_path / "notes.csv").write_text("\n".join(["text,depth1,depth2", *(3 * rows)]))
    run = train(
        tmp_path / "notes.csv", tmp_path / "run", "ce", encoder="small-text", image_size=None, val=0.4
    )
    (tmp_path / "notes.csv").unlink()
    model = lt.load(run)
    found = model.predict(["barks bone", "acorn leaf"])
    assert found.samples == ["barks bone", "acorn leaf"]
    assert torch.equal(found.answers.nodes, model.predict(texts=["barks bone", "acorn leaf"]).answers.nodes)
    batch = model.answer_batch(["barks bone", "acorn leaf"])
    torch.testing.assert_close(batch.probabilities, found.answers.probabilities, rtol=1e-4, atol=1e-4)
    with pytest.raises(DataError, match="sample 1 is an empty text"):
        model.answer_batch(["barks", " "])
    with pytest.raises(DataError, match="reads texts"):
        model.predict([Image.new("L", (3, 3))])


def test_a_run_of_an_earlier_version_needs_its_data_once(
    tmp_path: Path, make_image_folder: Callable[..., Path]
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    run = RunFolder(train(photos, tmp_path / "run", "ce", coarsen=1))
    image = Image.open(min(photos.rglob("*.png"))).copy()
    expected = lt.load(run).answer_batch([image])
    later = (run.description, run.reference, run.decisions, run.classifier, run.chosen_classifier)
    for file in (*later, run.training_taxonomy):
        file.unlink()
    shutil.rmtree(run.path / "embeddings")
    shutil.copytree(run.path, tmp_path / "alone")
    found = lt.load(run).answer_batch([image])
    assert torch.equal(found.probabilities, expected.probabilities)
    assert run.description.is_file(), "from now on it is like a run of this version"
    assert run.training_taxonomy.is_file()
    shutil.rmtree(photos)
    assert torch.equal(lt.load(run).answer_batch([image]).probabilities, expected.probabilities)
    alone = lt.load(tmp_path / "alone")
    torch.testing.assert_close(alone.embed_batch([image])[1], lt.load(run).embed_batch([image])[1])
    with pytest.raises(RunError, match="no longer at"):
        alone.answer_batch([image])


def test_damaged_files_are_named(carried: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    image = Image.new("RGB", (28, 28))
    damages: dict[str, Callable[[str], str]] = {
        "cut": lambda text: text[: len(text) // 2],
        "of a later version": lambda text: text.replace('"version": 1', '"version": 99'),
        "a wrong size": lambda text: text.replace("28", "0"),
        "a setting": lambda text: text.replace('"epochs": 1', '"epochs": "x"'),
        "an encoder": lambda text: text.replace("small-conv", "nothing"),
        "another encoder": lambda text: text.replace("small-conv", "small-resnet"),
    }
    for number, (kind, damage) in enumerate(damages.items()):
        run = RunFolder(tmp_path / str(number))
        shutil.copytree(carried[0], run.path)
        run.description.write_text(damage(run.description.read_text("utf-8")), "utf-8")
        with pytest.raises((RunError, ValueError)) as caught:
            lt.load(run)
        assert str(run.path) in str(caught.value) or kind == "an encoder", kind
    run = RunFolder(tmp_path / "reference")
    shutil.copytree(carried[0], run.path)
    run.reference.write_bytes(run.reference.read_bytes()[:-100])
    assert len(lt.load(run).answer_batch([image])) == 1, "answers do not need it"
    assert "cannot be read as the reference samples" in (lt.load(run).predict(image).warning or "")
    with pytest.raises(RunError, match="cannot be read as the reference samples of a run"):
        main_raising("calibrate", run.path)


def main_raising(*words: object) -> None:
    main([*(str(word) for word in words), "--debug"])


def test_models_say_what_they_are(carried: tuple[Path, Path, dict[str, torch.Tensor]]) -> None:
    model = lt.load(carried[0])
    assert isinstance(model, Model)
    assert repr(model).endswith("hwc+lam, 5 classes)")
    assert len(model.digest) == 64
    assert model.recipe.encoder == "small-conv"
    assert model.network.device.type == "cpu"


def test_of_many_samples_some_are_embedded_to_learn_from(
    tmp_path: Path, make_image_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    for name, value in (("_ALL", 20), ("MOST_LEARNED", 10), ("MOST_CALIBRATED", 8)):
        monkeypatch.setattr(f"labeltree.inference.run_embeddings.{name}", value)
    run = RunFolder(train(photos, tmp_path / "run"))
    assert not run.embeddings().exists()
    reference = load_reference(load_run(run.path, own_data=False))
    assert reference is not None
    counts = {split: int((reference.split == split).sum()) for split in ("train", "val")}
    assert counts == {"train": 10, "val": 8}
    assert len(torch.unique(reference.nodes)) == 5, "every class is there"
    assert reference.paths is None
    assert reference.group_names is None
    shutil.rmtree(photos)
    assert len(lt.load(run).answer_batch([Image.new("RGB", (28, 28))], coverage=0.5)) == 1


def test_predictions_leave_nothing_in_the_cache(
    tmp_path: Path,
    make_image_folder: Callable[..., Path],
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    run = train(photos, tmp_path / "run", "ce", trainable="head", views="identity", flip=True)
    before = {file for file in cache_folder.rglob("*") if file.is_file()}
    files = [str(file) for file in sorted(photos.rglob("*.png"))[:3]]
    assert main(["predict", str(run), *files]) == 0
    assert lt.load(run).embed(files).features is not None
    assert {file for file in cache_folder.rglob("*") if file.is_file()} == before


def test_an_exported_model_is_not_trained_into(
    carried: tuple[Path, Path, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    out = lt.load(carried[0]).export(tmp_path / "model", ["safetensors"])
    with pytest.raises(RunError, match="holds an exported model, not a run to continue"):
        train(carried[1], out)
