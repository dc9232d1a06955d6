"""``labeltree extend --names``: classes by their names, from which later samples take over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions.prototypes_from_names import weigh_names
from labeltree.errors import DataError
from labeltree.inference.by_name.named_classes import check_reads_names, read_names
from labeltree.inference.extend import extensions_of, undo_extension
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_texts
from labeltree.inference.reference import load_reference
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import embed_source
from labeltree.taxonomy.name_texts import TEXT_TEMPLATE, name_texts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]
WORDS = {
    "animal,dog": "barks fetches buries wags howls",
    "animal,cat": "purrs chases sharpens drinks naps",
    "plant,oak": "acorns trunk centuries bark branches",
    "plant,rose": "petals thorns scent bush garden",
}
HEN = ["lays eggs", "scratches the yard", "clucks at dawn"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on texts of four classes, and samples of a fifth."""
    home = tmp_path_factory.mktemp("home")
    rows = [
        f"the {label.split(',')[1]} {one} {other},{label}"
        for label, words in WORDS.items()
        for one in words.split()
        for other in words.split()
    ]
    (home / "notes.csv").write_text("\n".join(["text,depth1,depth2", *rows]))
    (home / "hens.csv").write_text("\n".join(["text,depth1,depth2", *(f"{text},animal,hen" for text in HEN)]))
    settings = {"encoder": "small-text", "epochs": 2, "val": 0.4, "accelerator": "cpu"}
    lt.train(home / "notes.csv", out=home / "run", progress_bar=False, **settings)
    return home


@pytest.fixture
def run(home: Path) -> Iterator[Path]:
    yield home / "run"
    shutil.rmtree(home / "run" / "extensions", ignore_errors=True)


def embedded(folder: Path, texts: list[str]) -> torch.Tensor:
    model = load_run(folder, own_data=False)
    source = open_texts(model, texts).source
    assert source is not None
    return normalize(embed_source(model.network, source, keep=False).embeddings.double(), dim=1)


def test_a_class_has_the_prototype_of_its_name_and_samples_take_over(
    home: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "names.txt").write_text("animal/hen\tchicken\n\nplant/elm\n")
    assert main(["extend", str(run), "--names", str(home / "names.txt")]) == 0
    said = capsys.readouterr().out
    assert "new   animal/hen: by its name alone: nothing is promised for it" in said
    assert "as 4 classes with samples say: known by its name alone" in said

    model = load_run(run, own_data=False)
    tree, table = model.taxonomy, load_reference(model)
    assert table is not None
    train = table.rows(torch.tensor([each == "train" for each in table.split]))
    known = torch.unique(train.nodes).tolist()
    names = embedded(run, [text for (text,) in name_texts(tree, known, TEXT_TEMPLATE)])
    labels = torch.searchsorted(torch.tensor(known), train.nodes)
    evidence = weigh_names(names, normalize(train.embeddings.double(), dim=1), labels)
    hen = normalize(embedded(run, ["hen: animal", "chicken: animal"]).mean(0), dim=0) + evidence.shift
    prototypes = run_classifiers(model).prototypes

    def prototype() -> torch.Tensor:
        return prototypes.prototypes[prototypes.classes == tree.find("hen")][0]

    assert torch.allclose(prototype(), normalize(hen, dim=0), atol=1e-5)
    assert extensions_of(run)[-1].record["name_weight"] == pytest.approx(evidence.weight, rel=1e-5)

    lt.extend(run, home / "hens.csv")
    newest = extensions_of(run)[-1]
    assert newest.added[0] == {**newest.added[0], "class": "animal/hen", "samples": 3, "name": True}
    prototypes = run_classifiers(load_run(run, own_data=False)).prototypes
    m, samples = evidence.weight, embedded(run, HEN)
    expected = (m * hen + samples.sum(0)) / (m + 3)
    assert torch.allclose(prototype(), normalize(expected, dim=0), atol=1e-5)

    lt.extend(run, retire=["plant/elm"])
    assert [each["class"] for each in extensions_of(run)[-1].record["names"]] == [["animal", "hen"]]
    for _ in range(3):
        undo_extension(run)
    assert "hen" not in lt.load(run).taxonomy.names


def test_names_and_samples_at_once_are_as_one_after_the_other(home: Path, run: Path) -> None:
    lt.extend(run, names=["hen"], under="animal")
    lt.extend(run, home / "hens.csv")
    after = run_classifiers(load_run(run, own_data=False)).prototypes
    for _ in range(2):
        undo_extension(run)
    lt.extend(run, home / "hens.csv", names=["animal/hen"])
    at_once = run_classifiers(load_run(run, own_data=False)).prototypes
    assert torch.equal(after.classes, at_once.classes)
    assert torch.allclose(after.prototypes, at_once.prototypes, atol=1e-6)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["animal/dog"], "'animal/dog' answers already"),
        (["animal"], "or has classes below it"),
        (["animal/A01.1"], "is a code"),
        (["missing.txt"], "to be read as a list of names"),
        (["/"], "names no class"),
    ],
)
def test_names_that_cannot_be_added_are_refused(run: Path, names: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        lt.extend(run, names=names)
    assert not extensions_of(run)


def test_a_run_that_reads_no_texts_is_refused(image_folder: Path, tmp_path: Path) -> None:
    settings = {"encoder": "small-conv", "epochs": 1, "image_size": 28, "accelerator": "cpu"}
    run = lt.train(image_folder, "supcon", out=tmp_path / "run", progress_bar=False, **settings).path
    with pytest.raises(DataError, match=r"reads images, so a name says nothing to it; give samples"):
        check_reads_names(load_run(run, own_data=False))


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("animal/bird/hoopoe\thoopoes\n", "utf-8-sig")
    assert read_names([str(tmp_path / "names.txt")]) == {("animal", "bird", "hoopoe"): ("hoopoes",)}
