"""Studies: equal trials, choices on validation alone, nothing done twice, and a whole table."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from labeltree.evaluation import EvaluationResult
from labeltree.report.pages.document import to_markdown
from labeltree.runs import RunFolder
from labeltree.studies.baselines import measure_baselines
from labeltree.studies.execute import execute
from labeltree.studies.run import is_measured, measured_as
from labeltree.studies.study_file import read_study
from labeltree.studies.study_page import study_blocks
from labeltree.studies.study_plan import Study, StudyError
from labeltree.studies.study_results import Book, list_study
from labeltree.training import registry
from labeltree.training.origins import Origin
from labeltree.training.read_recipes import RecipeError
from labeltree.training.registry import get_objective

pytestmark = pytest.mark.slow


def page_of(file: Path, study: Study, results: list[dict[str, Any]]) -> str:
    return to_markdown(study_blocks(file, study, results, {}))


def write(path: Path, data: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "title": "A small study",
        "shared": {
            "data": str(data),
            "epochs": 1,
            "batch_size": 9,
            "val": 0.2,
            "image_size": 28,
            "head.dim": 8,
            "accelerator": "cpu",
            "hwc.gamma": 0.25,
        },
        "seeds": [0, 1],
        "trial_seed": 7,
        "select": "val_embeddings_ahp",
        "methods": {
            "SupCon": {
                "settings": {"objective": "supcon"},
                "trials": [{"supcon.temperature": 0.1}, {"supcon.temperature": 0.5}],
            },
            "HWC (ball)": {
                "settings": {"objective": "hwc", "geometry": "poincare"},
                "trials": [{}, {"hwc.alpha": 1.0}],
            },
        },
        **changes,
    }
    file = path / "study.yaml"
    file.write_text(yaml.safe_dump(content), "utf-8")
    return file


def test_a_study_from_end_to_end(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, image_folder)
    page = execute(file, jobs=1).tables.read_text("utf-8")
    stored = json.loads((tmp_path / "results.json").read_text())
    rows = [(r["method"], r["seed"]) for r in stored["results"]]
    names = ["SupCon", "HWC (ball)", "raw pixels", "untrained encoder"]
    assert sorted(rows) == sorted((name, seed) for name in names for seed in (0, 1))
    for method in ("SupCon", "HWC (ball)"):
        choice = stored["choices"][method]
        values = [trial["val_embeddings_ahp"] for trial in choice["trials"]]
        assert choice["chosen"] == values.index(max(values))
        assert f"| {method} |" in page
    trained = [p.parent for p in (tmp_path / "runs").glob("*/encoder.safetensors")]
    recipes = [yaml.safe_load((folder / "recipe.yaml").read_text()) for folder in trained]
    assert sorted(r["seed"] for r in recipes) == [0, 0, 1, 1, 7, 7, 7, 7]
    assert {r["hwc"]["gamma"] for r in recipes if "hwc" in r} == {0.25}
    # Trials never see the test split: no metrics are in their folders.
    assert not list((tmp_path / "runs").glob("*trial*/metrics.json"))
    assert not list((tmp_path / "runs").glob("*/checkpoints"))  # of trials neither: they would fill a disk
    # Again: everything is there already, and the page comes out the same.
    monkeypatch.setattr("labeltree.studies.run.embed_source", None)
    monkeypatch.setattr("labeltree.studies.run.evaluate", None)
    assert execute(file, jobs=1).tables.read_text("utf-8") == page


def test_unequal_trials_are_refused(image_folder: Path, tmp_path: Path) -> None:
    methods = {"a": {"trials": [{}, {}]}, "b": {"trials": [{}]}}
    with pytest.raises(StudyError, match=r"equally many trials, got \{'a': 2, 'b': 1\}"):
        read_study(write(tmp_path, image_folder, methods=methods))
    with pytest.raises(StudyError, match=r"it has 'sedes'; did you mean 'seeds'\?"):
        read_study(write(tmp_path, image_folder, sedes=[1]))
    with pytest.raises(StudyError, match="select is 'ahp'; it must be one of val_recall_at_1"):
        read_study(write(tmp_path, image_folder, select="ahp"))
    methods = {"HWC+LAM": {}, "HWC LAM": {}}
    with pytest.raises(StudyError, match="share a folder"):
        read_study(write(tmp_path, image_folder, methods=methods))


@pytest.mark.parametrize("key", ["title", "shared", "methods", "seeds", "trial_seed", "select"])
def test_a_missing_key_is_named_with_the_file(key: str, image_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path, image_folder)
    content = yaml.safe_load(file.read_text("utf-8"))
    del content[key]
    file.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(StudyError, match=rf"study '{file}' .* it has no '{key}', which must be "):
        read_study(file)


def test_what_only_trials_need_may_be_left_out(image_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path, image_folder, methods={"A": {"settings": {"objective": "supcon"}}, "B": None})
    content = yaml.safe_load(file.read_text("utf-8"))
    for key in ("trial_seed", "select"):
        del content[key]
    file.write_text(yaml.safe_dump(content), "utf-8")
    assert "nothing was chosen" in page_of(file, read_study(file), [])
    del content["title"], content["seeds"]
    file.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(StudyError, match="it has no 'title', which must be text; and no 'seeds', which"):
        read_study(file)


def test_the_page_lists_the_settings_of_each_method(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {"A": {"settings": {"objective": "auto"}}, "B": {"trials": [{"optimizer.lr": 0.01}]}}
    file = write(tmp_path, image_folder, methods=methods, grid={"epochs": [1, 2]})
    study = read_study(file)
    rows = [
        {"method": m.name, "seed": 0, "scores": {"features/top1": 0.5}, "objective": f"o{n % 2}"}
        for n, m in enumerate(study.methods)
    ]
    page = page_of(file, study, rows)
    assert "| A | `objective=auto → o0, o1` |\n" in page
    assert "| B | `optimizer.lr=0.01`, `objective=auto → o0, o1` |\n" in page
    assert "Along epochs, the values of `epochs`, where a method has that setting, are 1, 2." in page
    assert "Made by `labeltree study" in page
    entry = dataclasses.replace(get_objective("supcon"), name="mine", origin=Origin("losses.py"))
    monkeypatch.setitem(registry._entries, "mine", entry)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/losses.py", raising=False)
    study = read_study(write(tmp_path, image_folder, methods={"A": {"settings": {"objective": "mine"}}}))
    assert "Made by `python losses.py study" in page_of(file, study, [])


def test_columns_that_are_equal_throughout_are_said_to_be(image_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path, image_folder)
    scores = {"features/hierarchical_f1": 0.5, "features/tree_accuracy": 0.5, "features/ahp": 0.25}
    rows = [
        {"method": "SupCon", "seed": 0, "scores": {**scores, "embeddings/ahp": 0.2500004}},
        {"method": "HWC (ball)", "seed": 0, "scores": {**scores, "embeddings/ahp": 0.3}},
    ]
    page = page_of(file, read_study(file), rows)
    assert "Hierarchical F1 and tree accuracy are the same number in every row" in page
    assert "Features and embeddings are the same for SupCon: " in page
    rows[1]["scores"]["features/tree_accuracy"] = 0.4  # type: ignore[index]
    assert "Hierarchical F1 and tree" not in page_of(file, read_study(file), rows)


def test_unknown_settings_are_not_dropped(image_folder: Path, tmp_path: Path) -> None:
    study = read_study(write(tmp_path, image_folder, shared={"data": "x", "optimzer.lr": 0.1}))
    with pytest.raises(RecipeError, match=r"unknown setting 'optimzer\.lr'; did you mean 'optimizer\.lr'"):
        study.recipe(study.methods[0], {}, 0)


def test_the_table_marks_the_best_and_keeps_every_row(image_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path, image_folder)
    values = [("SupCon", 0.5, 0.2), ("SupCon", 0.7, 0.4), ("HWC (ball)", 0.9, None), ("HWC (ball)", 0.3, 0.1)]
    results = [
        {
            "method": method,
            "seed": number % 2,
            "scores": {"features/top1": top1, "embeddings/parent_violations": violations},
        }
        for number, (method, top1, violations) in enumerate(values)
    ]
    page = page_of(file, read_study(file), results).partition("## Settings")[0]
    rows = [line for line in page.splitlines() if line.startswith(("| SupCon", "| HWC"))]
    assert rows == [
        "| SupCon | **0.6000 ± 0.1414** |",
        "| HWC (ball) | **0.6000 ± 0.4243** |",
        "| SupCon | 0.3000 ± 0.1414 |",
        "| HWC (ball) | **0.1000** (one seed) |",
    ]


def test_the_page_shows_no_folders_above_the_one_that_somebody_works_in(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, image_folder).resolve()
    study = read_study(file)
    monkeypatch.chdir(tmp_path)
    assert "Made by `labeltree study study.yaml`," in page_of(file, study, [])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert f"Made by `labeltree study {tmp_path.name}/study.yaml`," in to_markdown(
        study_blocks(file, study, [], {})
    )
    assert "Made by `labeltree study ../study.yaml`," in to_markdown(
        study_blocks(Path("../study.yaml"), study, [], {})
    )


def test_a_trial_with_the_seed_of_a_run_is_that_run(image_folder: Path, tmp_path: Path) -> None:
    trials = [{"supcon.temperature": 0.1}, {"supcon.temperature": 0.5}]
    methods = {"SupCon": {"settings": {"objective": "supcon"}, "trials": trials}}
    file = write(tmp_path, image_folder, trial_seed=0, methods=methods, baselines=[])
    page = execute(file, jobs=1).tables.read_text("utf-8")
    folders = sorted(p.parent.name for p in (tmp_path / "runs").glob("*/encoder.safetensors"))
    assert not [name for name in folders if name.endswith("-seed0")]
    content = json.loads((tmp_path / "results.json").read_text("utf-8"))
    trained = [r for r in content["results"] if "train_loss" in r]
    assert sorted({r["seed"] for r in trained}) == [0, 1]
    assert all(len(r["train_loss"]) == 1 for r in trained)
    assert "<summary>Training loss</summary>" in page


def test_how_a_study_measures_is_a_choice(image_folder: Path, tmp_path: Path) -> None:
    study = read_study(write(tmp_path, image_folder, evaluation={"max_probe_samples": 12}))
    assert study.evaluation_settings.max_probe_samples == 12
    assert "`max_probe_samples=12`" in page_of(tmp_path / "study.yaml", study, [])
    for wrong, sentence in (
        ({"hp_ks": 1}, r"evaluation has 'hp_ks', .* did you mean 'hp_k'"),
        ({"hp_k": 0}, "hp_k must be at least 1"),
    ):
        with pytest.raises(StudyError, match=sentence):
            read_study(write(tmp_path, image_folder, evaluation=wrong))


def test_baselines_that_are_alike_for_all_seeds_are_measured_once(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import labeltree.studies.run as module

    asked: list[int] = []
    evaluate = module.evaluate
    monkeypatch.setattr(module, "evaluate", lambda *a, **k: asked.append(1) or evaluate(*a, **k))
    file = write(tmp_path, image_folder, baselines=["raw"])
    study = dataclasses.replace(read_study(file), seeds=[0, 0])
    rows = measure_baselines(study, tmp_path / "runs", Book(file, study))
    assert [row["method"] for row in rows] == ["raw pixels", "raw pixels"]
    assert len(asked) == 1
    study = read_study(write(tmp_path, image_folder, seeds=[0, 1]))
    rows = measure_baselines(study, tmp_path / "more", Book(file, study))
    assert len(rows) == 4
    with pytest.raises(StudyError, match="there is no 'pixels'"):
        read_study(write(tmp_path, image_folder, baselines=["pixels"]))


def test_a_run_is_measured_again_when_only_the_evaluation_changes(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {"SupCon": {"settings": {"objective": "supcon"}}}
    choices = {"methods": methods, "seeds": [0], "trial_seed": 0}
    file = write(tmp_path, image_folder, **choices)
    execute(file, jobs=1)
    monkeypatch.setattr("labeltree.training.fit.prepare", None)  # nothing is trained again
    file = write(tmp_path, image_folder, **choices, evaluation={"recall_ks": [3]})
    (result,) = list_study(file).states.values()
    assert result == "trained"
    execute(file, jobs=1)
    rows = json.loads((tmp_path / "results.json").read_text("utf-8"))["results"]
    assert {row["method"] for row in rows} == {"SupCon", "raw pixels", "untrained encoder"}
    assert all("features/recall_at_3" in row["scores"] for row in rows)
    assert not any("features/recall_at_10" in row["scores"] for row in rows)
    for metrics in (tmp_path / "runs").glob("*/metrics.json"):  # is what an evaluation writes, and more
        content = json.loads(metrics.read_text("utf-8"))
        assert EvaluationResult.from_dict(content).settings.recall_ks == (3,)
        digest = content.pop("digest")
        metrics.write_text(json.dumps({**content, "settings": digest}), "utf-8")
        assert measured_as(RunFolder(metrics.parent)) == digest, "as older versions wrote it"


def test_a_run_of_other_settings_is_set_aside_and_done_again(image_folder: Path, tmp_path: Path) -> None:
    choices = {"methods": {"SupCon": {"settings": {"objective": "supcon"}}}, "seeds": [0], "trial_seed": 0}
    execute(write(tmp_path, image_folder, **choices, baselines=[]), jobs=1)
    run = tmp_path / "runs" / "supcon-seed0"
    for epochs in (2, 3):
        before = (run / "recipe.yaml").read_text("utf-8")
        shared = {**yaml.safe_load((tmp_path / "study.yaml").read_text("utf-8"))["shared"], "epochs": epochs}
        file = write(tmp_path, image_folder, **choices, baselines=[], shared=shared)
        assert execute(file, jobs=1).failures == []
        assert (tmp_path / "runs" / "replaced" / "supcon-seed0" / "recipe.yaml").read_text("utf-8") == before
        content = json.loads((tmp_path / "results.json").read_text("utf-8"))
        (row,) = content["results"]
        kept = content["defaults"][content["made_with"][row["settings"]]]
        assert kept["evaluation.confidence"] == 0.95
        assert "epochs" not in kept
        folder = RunFolder(tmp_path / "runs" / "supcon-seed0")
        assert is_measured(folder, row["settings"], kept)
        assert not is_measured(folder, row["settings"], {**kept, "evaluation.confidence": 0.9})
        assert len(row["train_loss"]) == epochs
