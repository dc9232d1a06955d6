"""The program as a user meets it: the whole way on a folder, and what it says when something is wrong."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import command_summaries, main
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "photos"
    code = run(
        "train", "--data", image_folder, "--objective", "hwc+lam", "--geometry", "poincare", "--out", out,
        "--epochs=2", "--batch-size=10", "--image-size", 28, "--accelerator=cpu", "--quiet",
    )  # fmt: skip
    assert code == 0
    return out


def test_train_evaluate_embed_a_nested_folder(
    trained: Path, tmp_path: Path, image_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(trained)
    for file in (
        folder.recipe,
        folder.taxonomy,
        folder.samples,
        folder.last_checkpoint,
        folder.encoder,
        folder.history,
    ):
        assert file.is_file(), file
    assert run("evaluate", trained) == 0
    said = capsys.readouterr()
    printed = said.out
    assert "%" not in said.err  # no bars where there is no terminal
    assert all(word in printed for word in ("hwc+lam", "raw pixels", "untrained encoder", "report.html"))
    assert "test images, " in printed.splitlines()[0]
    assert f"  labeltree predict {trained} SAMPLES" in printed
    assert f"  labeltree compare {trained} OTHER" in printed
    report = folder.report.read_text("utf-8")
    assert "Versions that trained the model" in report
    assert "Pairs in the wrong order" in report
    metrics = json.loads(folder.metrics.read_text())
    assert list(metrics["methods"]) == ["hwc+lam", "untrained encoder", "raw pixels"]
    assert "poodle" in folder.report.read_text("utf-8")
    assert run("embed", trained, "--out", tmp_path / "table.parquet") == 0
    table = EmbeddingTable.load(tmp_path / "table.parquet")
    assert len(table) == 60
    assert table.geometry == "poincare"
    assert float(table.embeddings.norm(dim=1).max()) < 1
    assert run("embed", trained, "--data", image_folder / "animal", "--out", tmp_path / "animals.npz") == 0
    assert len(EmbeddingTable.load(tmp_path / "animals.npz")) == 36


def test_the_same_command_again_does_nothing_more(trained: Path, image_folder: Path) -> None:
    before = RunFolder(trained).encoder.stat().st_mtime_ns
    words = ["train", "--config", trained / "recipe.yaml", "--out", trained, "--quiet"]
    assert run(*words) == 0
    assert RunFolder(trained).encoder.stat().st_mtime_ns == before


def test_a_run_beside_another(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    words = ["train", "--config", trained / "recipe.yaml", "--out", other, "--lam.eta", "0.5"]
    assert run(*words) == 0
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if line.startswith("epoch ")]
    assert [line.split(", ")[0] for line in lines] == ["epoch 1 of 2", "epoch 2 of 2"], "no terminal, no bar"
    assert all(", loss " in line for line in lines)
    assert "%|" not in printed.out + printed.err
    assert run("evaluate", trained, "--beside", other, "--out", tmp_path / "both") == 0
    assert "hwc+lam (other)" in capsys.readouterr().out
    assert (tmp_path / "both" / "report.html").is_file()


def test_a_folder_in_place_of_images(
    trained: Path, image_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers() -> list[dict[str, str]]:
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        return [{name: value for name, value in row.items() if name != "date"} for row in rows]

    leaf = min(file.parent for file in image_folder.rglob("*.png"))
    assert run("predict", trained, leaf, "--coverage", "0.5", "--format", "csv") == 0
    named_first = answers()
    assert run("predict", trained, "--data", leaf, "--coverage", "0.5", "--format", "csv") == 0
    assert answers() == named_first
    assert len(named_first) == len([*leaf.iterdir()])
    assert run("predict", trained, leaf, leaf) == 2
    refused = capsys.readouterr().err
    assert f"'{leaf}' is a folder; answer for it alone" in refused
    assert "promise" not in refused


def test_answers_are_summed_up_before_what_limits_them(
    trained: Path, image_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = min(image_folder.rglob("*.png"))
    assert run("predict", trained, file, "--coverage", 0.5) == 0
    short = capsys.readouterr()
    assert run("predict", trained, file, "--coverage", 0.5, "--full") == 0
    full = capsys.readouterr()
    assert full.out == short.out
    assert short.err.startswith("1 answer (")
    assert "Answers come from" not in short.err
    assert set(short.err.splitlines()) < set(full.err.splitlines())
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    assert run("predict", trained, broken, "--coverage", 0.5) == 2
    assert (
        len(capsys.readouterr().err.splitlines()) == 1
    )  # nothing was answered, so there is nothing to limit


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_somebody_elses_embeddings(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taxonomy = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")])
    taxonomy.save(tmp_path / "tree.yaml")
    labels = [taxonomy.path_name(int(node)) for node in taxonomy.leaves.repeat(10)]
    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    if suffix == ".npz":
        patients = np.arange(40) % 13
        split = np.array(["Train", "valid", "Test"])[np.arange(40) % 3]
        columns = {"labels": np.array(labels), "patient": patients, "split": split}
        np.savez(tmp_path / "theirs.npz", embeddings=vectors, **columns)
    else:
        import pandas as pd

        pd.DataFrame({"embedding": list(vectors), "label": labels}).to_parquet(tmp_path / "theirs.parquet")
    file = tmp_path / f"theirs{suffix}"
    assert run("evaluate", "--embeddings", file, "--taxonomy", tmp_path / "tree.yaml", "--full") == 0
    printed = capsys.readouterr().out
    assert "theirs" in printed
    assert f"  labeltree compare {tmp_path / 'theirs'} OTHER" in printed
    assert "labeltree predict" not in printed  # calibrating needs a run
    assert (tmp_path / "theirs" / "metrics.json").is_file()
    assert (tmp_path / "theirs" / "report.html").is_file()
    assert "linear probe on the embeddings" in printed  # there are no features
    assert ("of 13 validation samples" in printed) == (suffix == ".npz")
    words = ["evaluate", file, "--taxonomy", tmp_path / "tree.yaml"]  # without --embeddings, too
    if suffix == ".parquet":
        assert run(*words, "--group-column", "patient") == 2
        assert "no column 'patient' to take the groups from" in capsys.readouterr().err
        return
    assert run(*words, "--group-column", "patient") == 0
    printed = capsys.readouterr().out
    assert "over these samples" in printed  # each is a patient by itself
    assert "of 13 patients" in (tmp_path / "theirs" / "report.html").read_text("utf-8")
    assert "  labeltree compare" in printed
    for wrong in (tmp_path / "theirs", tmp_path / "none.npy"):
        assert run("evaluate", "--embeddings", wrong, "--taxonomy", tmp_path / "tree.yaml") == 2
        assert f"--embeddings: there is no file '{wrong}'" in capsys.readouterr().err


def test_a_protocol_that_does_not_apply_costs_no_other(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", trained, "--out", tmp_path, "--protocols", "per-group", "knn"]
    assert run(*words) == 2
    captured = capsys.readouterr()
    assert "protocol 'per-group': no two test samples are in one group" in captured.err
    assert "All else was measured and written" in captured.err
    protocols = json.loads((tmp_path / "metrics.json").read_text("utf-8"))["methods"].popitem()[1][
        "protocols"
    ]
    assert protocols["knn"]["scores"]
    assert (tmp_path / "report.html").is_file()


def test_taxonomy_commands(image_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("taxonomy", "show", image_folder) == 0
    assert "poodle" in capsys.readouterr().out
    assert run("taxonomy", "convert", image_folder, tmp_path / "tree.json") == 0
    assert run("taxonomy", "convert", tmp_path / "tree.json", tmp_path / "tree.csv") == 0
    assert Taxonomy.from_file(tmp_path / "tree.csv").num_leaves == 5
    assert run("taxonomy", "check", tmp_path / "tree.csv") == 0
    assert "depth" in capsys.readouterr().out


def test_a_run_on_another_taxonomy(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = Taxonomy.from_file(RunFolder(trained).taxonomy)
    leaves = [tree.names[leaf] for leaf in tree.leaves.tolist()]
    edges = [(leaf, "even" if i % 2 else "odd") for i, leaf in enumerate(leaves)]
    edges += [("even", "numbers"), ("odd", "numbers"), (leaves[0], "even")]
    (tmp_path / "dag.csv").write_text("child,parent\n" + "".join(f"{c},{p}\n" for c, p in edges))
    assert run("evaluate", trained, "--taxonomy", tmp_path / "dag.csv") == 0
    printed = capsys.readouterr().out
    metrics = json.loads((trained / "on-dag" / "metrics.json").read_text())
    assert str(trained / "on-dag") in printed
    assert any("The taxonomy is a DAG" in note for note in metrics["notes"])
    assert "measured on dag" in (trained / "on-dag" / "report.html").read_text("utf-8")
    (tmp_path / "less.csv").write_text("child,parent\nx,y\n")
    assert run("evaluate", trained, "--taxonomy", tmp_path / "less.csv") == 2
    assert "none of the 5 labels is in" in capsys.readouterr().err


def test_dags_are_shown_checked_and_projected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dag.csv").write_text("child,parent\na,r\nb,r\nx,a\nx,b\ny,b\n")
    assert run("taxonomy", "show", tmp_path / "dag.csv") == 0
    assert "x  (see a/x)" in capsys.readouterr().out
    assert run("taxonomy", "check", tmp_path / "dag.csv") == 0
    assert "1 node has several parents" in capsys.readouterr().out
    assert run("taxonomy", "project", tmp_path / "dag.csv", "--out", tmp_path / "tree.nwk") == 0
    assert Taxonomy.from_file(tmp_path / "tree.nwk").path_name(3) == "b"
    words = [
        "taxonomy",
        "project",
        tmp_path / "dag.csv",
        "--rule",
        "yolo9000",
        "--out",
        tmp_path / "tree.csv",
    ]
    assert run(*words) == 0
    assert "1 node on no chosen path fell out" in capsys.readouterr().out
    assert Taxonomy.from_file(tmp_path / "tree.csv").names == ["r", "b", "x", "y"]
    assert run("taxonomy", "project", tmp_path / "tree.csv", "--out", tmp_path / "same.json") == 0
    assert "a tree already" in capsys.readouterr().out
    assert run("taxonomy", "convert", tmp_path / "dag.csv", tmp_path / "dag.yaml") == 2
    assert "cannot save a DAG" in capsys.readouterr().err


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--list-objectives") == 0
    assert "HWC" in capsys.readouterr().out.upper()
    assert run("data", "list") == 0
    assert "fashion-mnist" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *command_summaries()])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command.split(), "--help") == 0
    text = capsys.readouterr().out
    assert "usage" in text.lower()
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (
            ["train", "--data", "x", "--objective", "supcom"],
            "unknown objective 'supcom'; did you mean 'supcon' or",
        ),
        (["train", "--data", "x", "--epocs", "3"], "unknown setting 'epocs'; did you mean 'epochs'?"),
        (["train", "--data", "no/such/folder"], "no/such/folder"),
        (["train", "--data", "x", "--curvature=1"], "curvature is 1.0; it must be below 0"),
        (["evaluate", "no/such/run"], "no run at 'no/such/run'"),
        (["embed", "no/such/run"], "no run at 'no/such/run'"),
        (["data", "get", "fashion-mnits"], "fashion-mnist"),
        (["taxonomy", "show", "no-such.yaml"], "no-such.yaml"),
    ],
)
def test_errors_are_one_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    printed = capsys.readouterr().err.strip()
    assert printed.startswith("labeltree: ")
    assert message in printed
    assert len(printed.splitlines()) == 1


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(ValueError, match="unknown objective"):
        run("--debug", "train", "--data", "x", "--objective", "supcom")


def test_unfinished_run_says_how_to_finish(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recipe.yaml").write_bytes((trained / "recipe.yaml").read_bytes())
    for more in ([], ["--taxonomy", trained / "taxonomy.json"]):
        assert run("evaluate", tmp_path, *more) == 2
        assert "has not finished" in capsys.readouterr().err


def test_changed_samples_are_noticed(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("recipe.yaml", "taxonomy.json"):
        (folder / name).write_bytes((trained / name).read_bytes())
    with np.load(trained / "samples.npz") as known:
        columns = dict(known)
    columns["nodes"] = np.roll(columns["nodes"], 1)
    np.savez(folder / "samples.npz", **columns)
    assert run("train", "--config", folder / "recipe.yaml", "--out", folder, "--quiet") == 2
    assert "have changed" in capsys.readouterr().err


def test_run_folder_is_complete_enough_to_repeat(trained: Path) -> None:
    weights = RunFolder(trained).load_weights()
    assert any(name.startswith("encoder.") for name in weights)
    assert all(
        bool(torch.isfinite(w).all())
        for name, w in weights.items()
        if w.is_floating_point() and "proto" not in name
    )
