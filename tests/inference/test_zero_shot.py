"""Answers by the names of classes: the command and the function, promises, and refusals."""

import json
from pathlib import Path

import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, TaxonomyError
from labeltree.models.name_space import open_name_space
from labeltree.options.schema import OptionError
from labeltree.taxonomy.name_texts import TEXT_TEMPLATE, name_texts
from tiny_checkpoints import OPEN_CLIP, write_open_clip
from tiny_transformer import write_tiny_transformer

PATHS = ["animal/small", "animal/dog", "sound/bark", "sound/barking"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text encoder, the tower pair of CLIP, a taxonomy, and tables of its names as samples."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("open_clip")
    home = tmp_path_factory.mktemp("zero")
    write_tiny_transformer(home / "texts")
    write_open_clip(home / "clip", OPEN_CLIP | {"text_cfg": OPEN_CLIP["text_cfg"] | {"vocab_size": 49408}})
    tree = lt.Taxonomy.from_paths(PATHS)
    tree.save(home / "tree.json")
    rows = [(text, *PATHS[i].split("/")) for i, (text,) in enumerate(name_texts(tree, tree.leaves.tolist()))]
    labels = {text: tree.path_name(leaf) for (text, *_), leaf in zip(rows, tree.leaves.tolist(), strict=True)}
    lines = [f'"{text}",{labels[text].replace("/", ",")}' for text, *_ in rows]
    (home / "few.csv").write_text("\n".join(["text,depth1,depth2", *lines]))
    (home / "many.csv").write_text("\n".join(["text,depth1,depth2", *lines * 10]))
    return home


def words(home: Path, *rest: str) -> list[str]:
    named = ["--taxonomy", str(home / "tree.json"), "--encoder", f"text:{home / 'texts'}"]
    return ["predict", "--zero-shot", *named, *rest]


def test_guesses_are_softmaxes_of_cosines_and_nothing_is_promised(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--text", "a dog", "--text", " ", "--text", "barks", "--top", "4", "--format", "json"]
    assert main(words(home, *given)) == 1  # an empty text has no answer
    out, err = capsys.readouterr()
    content = json.loads(out)
    assert "Nothing is promised" in err
    assert content["about"]["asked"] == "guesses by names alone"
    tree, space = lt.load_taxonomy(home / "tree.json"), open_name_space(f"text:{home / 'texts'}")
    for row, text in ((0, "a dog"), (2, "barks")):
        answer = content["answers"][row]
        assert (answer["answer"], answer["probability"], answer["cut"]) == ("/", 1.0, True)
        (sample,) = space.embed_texts([text]).double()
        logits = {}
        for leaf in tree.leaves.tolist():
            (name,) = space.embed_texts([*name_texts(tree, [leaf], TEXT_TEMPLATE)[0]]).double()
            logits[tree.path_name(leaf)] = float(sample @ name) / 0.05
        expected = dict(zip(logits, torch.tensor(list(logits.values())).softmax(0).tolist(), strict=True))
        assert {each["class"]: each["probability"] for each in answer["guesses"]} == pytest.approx(
            expected, abs=2e-6
        )
    assert content["answers"][1]["problem"] == "the text is empty"


def test_with_samples_to_calibrate_on_answers_are_promised(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [str(home / "few.csv"), "--labelled", "--calibrate", str(home / "many.csv")]
    assert main(words(home, "--data", *table, "--coverage", "0.8", "--full")) == 0
    out, err = capsys.readouterr()
    assert "he first guess is right for 100.0% of the labelled samples (100.0% at depth 1" in err
    assert "coverage 0.8" in err
    assert "Coverage is calibrated on" in err
    done = lt.zero_shot(
        taxonomy=home / "tree.json",
        encoder=f"text:{home / 'texts'}",
        data=home / "few.csv",
        labelled=True,
        calibrate=home / "many.csv",
        coverage=0.8,
        out=home / "a.csv",
    )
    assert done.text("table") == out
    assert (home / "a.csv").read_text() == done.text("csv")
    assert done.labels is not None
    assert done.answers.nodes.tolist() == done.labels.tolist()
    same = [str(home / "many.csv"), "--labelled", "--calibrate", str(home / "many.csv")]
    assert main(words(home, "--data", *same, "--coverage", "0.8", "--full")) == 0
    said = capsys.readouterr().err
    assert "all are of samples of training or calibration, so nothing can be measured" in said


def test_images_are_answered_by_both_towers(home: Path, image_folder: Path) -> None:
    files = sorted(image_folder.rglob("*.png"))[:3]
    clip = f"open_clip:{home / 'clip'}"
    tree = home / "tree.json"
    one = lt.zero_shot(files, taxonomy=tree, encoder=clip)
    folder = lt.zero_shot(taxonomy=tree, encoder=clip, data=image_folder)
    assert one.answers.guesses.shape == (3, 3)
    assert len(folder.samples) > 3
    own = lt.zero_shot([image_folder], taxonomy=image_folder, encoder=clip, labelled=True)
    assert own.taxonomy.num_leaves > 1
    assert "he first guess is right for" in own.classifier
    with pytest.raises(DataError, match="give image files, or a folder of them as data"):
        lt.zero_shot(taxonomy=tree, encoder=clip, texts=["a dog"])
    with pytest.raises(DataError, match=r"reads images, but the samples of .* are texts"):
        lt.zero_shot(taxonomy=tree, encoder=clip, data=home / "few.csv")


def test_what_cannot_be_asked_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = f"text:{home / 'texts'}"
    lt.Taxonomy.from_paths(["A00/A00.1", "A00/A00.2"]).save(home / "codes.json")
    with pytest.raises(TaxonomyError, match="have codes for names"):
        lt.zero_shot(taxonomy=home / "codes.json", encoder=texts, texts=["a"])
    (home / "empty.json").write_text('{"animal": {}}')
    with pytest.raises(TaxonomyError, match="the taxonomy has one class, and nothing to choose from"):
        lt.zero_shot(taxonomy=home / "empty.json", encoder=texts, texts=["a"])
    with pytest.raises(DataError, match="calibration samples"):
        lt.zero_shot(taxonomy=home / "tree.json", encoder=texts, texts=["a"], calibrate=home / "few.csv")
    with pytest.raises(OptionError, match="one of them only"):
        lt.zero_shot(taxonomy=home / "tree.json", encoder=texts)
    assert main(words(home, "--text", "a", "--coverage", "0.8")) == 2
    assert "--coverage is calibrated on the samples of --calibrate" in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["predict", "--zero-shot", "--text", "a"]) == 2
    assert "--taxonomy, --encoder" in capsys.readouterr().err
