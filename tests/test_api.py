"""What the package exports to do what the commands do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import escape

import labeltree as lt
from labeltree.errors import LabeltreeError
from labeltree.evaluation import EvaluationResult
from labeltree.options.schema import OptionError
from labeltree.report.evaluation_case import Evaluated
from labeltree.training.read_recipes import make_recipe

pytestmark = pytest.mark.slow

DOTTED: dict[str, Any] = {"hwc.gamma": 0.25, "optimizer.lr": 0.01}
SMALL: dict[str, Any] = {"encoder": "small-conv", "epochs": 1, "batch_size": 16, "image_size": 16}


@pytest.fixture(scope="module")
def runs(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two evaluated runs."""
    place = tmp_path_factory.mktemp("runs")
    found = {}
    for name, seed in (("first", 0), ("second", 1)):
        run = lt.train(
            image_folder, "hwc", out=place / name, progress_bar=False, seed=seed, val=0.3, test=0.3,
            head={"dim": 8}, accelerator="cpu", **SMALL, **DOTTED,
        )  # fmt: skip
        assert lt.evaluate(run, resamples=50, protocols=["knn"]).report == run.report
        found[name] = run.path
    return found


def test_settings_reach_the_recipe(runs: dict[str, Path], image_folder: Path) -> None:
    recipe = lt.load(runs["first"]).recipe
    assert (recipe.objective, recipe.data, recipe.head.dim) == ("hwc", str(image_folder.resolve()), 8)
    assert recipe.optimizer.lr == 0.01
    assert recipe.options["hwc"]["gamma"] == 0.25
    result = json.loads((runs["first"] / "metrics.json").read_text("utf-8"))
    assert "knn" in json.dumps(result["settings"]["protocols"])


def test_a_recipe_is_a_start(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("objective: hwc\nhwc: {gamma: 0.1, alpha: 0.2}\noptimizer: {lr: 0.5}\nepochs: 7\n")
    recipe = make_recipe({"data": "x", "hwc.gamma": 0.3, "optimizer": {"weight_decay": 0.25}}, file)
    assert (recipe.epochs, recipe.optimizer.lr, recipe.optimizer.weight_decay) == (7, 0.5, 0.25)
    assert recipe.options["hwc"] | {"gamma": 0.3, "alpha": 0.2} == recipe.options["hwc"]
    with pytest.raises(lt.LabeltreeError, match=r"did you mean table=\{'group_column': …\}\?") as error:
        lt.train("data", group_column="patient")
    assert error.value.__suppress_context__, "what the parser of recipes says is of no use to the caller"
    with pytest.raises(lt.LabeltreeError, match="did you mean 'epochs'"):
        lt.train("x", epohcs=3)
    with pytest.raises(ValueError, match=r"'hwc\.gamma' is set beside 'hwc' itself"):
        make_recipe({"hwc": 3, "hwc.gamma": 1})


def test_a_run_is_a_model(runs: dict[str, Path], image_folder: Path) -> None:
    model = lt.load(runs["first"])
    files = sorted(image_folder.rglob("*.png"))[:5]
    table = model.embed(files)
    assert table.embeddings.shape == (5, 8)
    assert table.instances is not None
    assert table.instances.tolist() == [0, 1, 2, 3, 4]
    torch.testing.assert_close(model.embed(files[2]).embeddings[0], table.embeddings[2], rtol=1e-4, atol=1e-4)
    answers = model.predict(files, coverage=0.8, top=1)
    assert len(answers.answers) == 5
    assert answers.taxonomy == model.taxonomy
    assert "coverage 0.8" in answers.sentence()
    assert len(model.embed(data=image_folder)) == len(list(image_folder.rglob("*.png")))
    assert "hwc" in repr(model)
    assert isinstance(model.encoder, torch.nn.Module)


def test_a_notebook_shows_answers_and_numbers(
    runs: dict[str, Path], image_folder: Path, tmp_path: Path
) -> None:
    file = min(image_folder.rglob("*.png"))
    (tmp_path / "<b>.png").write_bytes(b"no image")
    answers = lt.load(runs["first"]).predict([file, tmp_path / "<b>.png"], top=2)
    frame = answers.to_pandas()
    assert frame["sample"].tolist() == answers.samples
    assert frame["problem"].notna().tolist() == [False, True]
    assert {"answer", "probability", "cut", "guess_2", "guess_2_probability"} <= set(frame.columns)
    shown = answers._repr_html_()
    assert repr(answers).splitlines()[0].startswith("sample ")
    assert answers.sentence() in repr(answers).splitlines()
    assert repr(answers).splitlines()[-1] == answers.caveats()[-1]
    assert all(str(escape(sentence)) in shown for sentence in answers.caveats())
    many = lt.load(runs["first"]).predict([file] * 30)
    assert repr(many).splitlines()[21:23] == ["… 10 more", many.sentence()]
    assert shown.count("data:image/png;base64,") == 1
    assert "<b>" not in shown
    result = EvaluationResult.load(runs["first"] / "metrics.json")
    numbers = result.to_pandas()
    (top1,) = numbers.query("method == 'hwc' and protocol == 'probe' and metric == 'top1'").itertuples()
    assert top1.value == result.main.score("top1")
    assert (top1.low, top1.high) == result.main.interval("top1")
    classifiers = set(result.main.by_depth)
    assert set(numbers["protocol"]) == {"answers", "retrieval", "structure", "knn", *classifiers}
    for method, answers in numbers.query("protocol == 'answers'").groupby("method"):
        each, by_name = result.methods[method], answers.set_index("metric")["value"]
        assert by_name["top1"] == each.answer_score("top1"), "as the headline has it"
        assert by_name["hierarchical_f1"] == each.answer_score("hierarchical_f1")
        deep = answers.dropna(subset="depth")
        assert deep["value"].tolist() == each.answer_by_depth
        assert deep["depth"].tolist() == list(range(1, len(deep) + 1))
    assert not numbers.duplicated(["method", "protocol", "role", "metric"]).any()
    assert numbers.query("metric.str.contains('at_depth')")["depth"].notna().all()
    done = Evaluated(result, "", runs["first"] / "metrics.json", runs["first"] / "report.html")
    assert done.to_pandas().equals(numbers)
    assert done._repr_html_().endswith(result._repr_html_())
    assert "top-1 accuracy" in result._repr_html_()
    assert f"top-1 accuracy {result.main.answer_score('top1'):.4f}" in repr(result)
    assert len(repr(result)) < 1000
    assert str(done).endswith(f"report: {runs['first'] / 'report.html'}")
    assert len(str(done)) < 1000


def test_what_cannot_be_read_is_named(runs: dict[str, Path], tmp_path: Path) -> None:
    model = lt.load(runs["first"])
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(lt.DataError, match=r"bad\.png' cannot be embedded: "):
        model.embed(tmp_path / "bad.png")
    assert list(model.predict([tmp_path / "bad.png"]).skipped) == [0]
    with pytest.raises(lt.DataError, match="reads images"):
        model.embed(texts="words")
    for nothing in (model.embed, lambda: model.embed([]), lambda: model.predict([])):
        with pytest.raises(ValueError, match=r"no samples are named, or an empty list .* samples in one way"):
            nothing()
    with pytest.raises(ValueError, match="no samples are named, or an empty list of them; name what to answ"):
        lt.predict(runs["first"], [])
    with pytest.raises(ValueError, match="name samples in one way"):
        model.predict("a.png", data="b")
    with pytest.raises(lt.RunError):
        lt.load(tmp_path)


def test_runs_are_compared(runs: dict[str, Path], tmp_path: Path) -> None:
    found = lt.compare(
        {"first": runs["first"], "second": [runs["second"]]}, out=tmp_path / "comparison", resamples=50,
        permutations=50, metrics=["top1"],
    )  # fmt: skip
    assert repr(found).startswith("\n".join(found.verdict))
    assert len(repr(found)) < 10_000
    assert {metric.metric for metric in found.result.metrics} == {"answer_top1", "top1"}
    assert sorted(path.suffix for path in (tmp_path / "comparison").iterdir() if path.name[0] != ".") == [
        ".csv",
        ".html",
        ".json",
        ".md",
    ]


def test_anybodys_embeddings(runs: dict[str, Path], tmp_path: Path) -> None:
    model = lt.load(runs["first"])
    table = model.embed(data=model.recipe.data)
    table.save(tmp_path / "table.npz")
    with pytest.raises(lt.DataError, match="--taxonomy FILE says what its numbers of nodes mean"):
        lt.evaluate(tmp_path / "table.npz")
    model.taxonomy.save(tmp_path / "tree.json")
    with pytest.raises(lt.DataError, match=r"missing\.npz"):
        lt.evaluate(tmp_path / "missing.npz", tmp_path / "tree.json")
    with pytest.raises(ValueError, match="does not go with the embeddings"):
        lt.evaluate(tmp_path / "table.npz", "tree.json", beside=["a"])


@pytest.mark.parametrize(
    "ask",
    [
        lt.evaluate,
        lt.open_data,
        lt.open_taxonomy,
        lt.open_table,
        lt.Taxonomy.from_file,
        lt.make_index,
        lt.suspects,
        lt.train,
        lambda frame: lt.compare([frame, frame]),
    ],
)
def test_a_data_frame_is_to_be_written_to_a_file(ask: Callable[[Any], object]) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "label": ["x", "y"], "f0": [1.0, 2.0]})
    with pytest.raises((LabeltreeError, OptionError, TypeError), match=r"DataFrame.*frame\.to_parquet"):
        ask(frame)


def test_an_array_is_to_be_written_with_its_labels() -> None:
    with pytest.raises(LabeltreeError, match=r"ndarray.*numpy\.savez\('data\.npz'") as raised:
        lt.train(np.zeros((3, 4)), "hwc")  # type: ignore[arg-type]
    assert "frame" not in str(raised.value)
