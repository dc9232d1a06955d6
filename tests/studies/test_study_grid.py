"""Grids: every method at every point, and the tables and figures that come of it."""

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from labeltree.report.pages.document import Figure, to_html, to_markdown
from labeltree.report.pages.template import svg_file
from labeltree.studies.output import to_csv
from labeltree.studies.run import trial_tasks_of
from labeltree.studies.study_figures import study_figures
from labeltree.studies.study_file import read_study
from labeltree.studies.study_page import study_blocks
from labeltree.studies.study_plan import Study, StudyError
from labeltree.studies.study_results import Book
from labeltree.studies.study_statistics import Summary

pytestmark = pytest.mark.slow

METHODS = {
    "SupCon": {"settings": {"objective": "supcon"}},
    "HWC": {"settings": {"objective": "hwc", "hwc.alpha": 0.0}},
    "SimCLR": {"settings": {"objective": "simclr"}, "grid": False},
}
TAU = {"of": ["supcon.temperature", "hwc.temperature"], "values": [0.1, 0.5]}


def study_of(path: Path, **changes: Any) -> Study:
    content: dict[str, Any] = {
        "title": "A grid",
        "shared": {"data": "nowhere", "epochs": 1},
        "seeds": [0, 1, 2],
        "trial_seed": 0,
        "select": "val_ahp",
        "grid": {"τ": TAU},
        "methods": METHODS,
        "columns": ["features/top1", "embeddings/pair_violations"],
        **changes,
    }
    (path / "study.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), "utf-8")
    return read_study(path / "study.yaml")


def results_of(study: Study) -> list[dict[str, Any]]:
    """Later methods are better by a tenth, seeds differ by a hundredth."""
    return [
        {
            "method": method.name,
            "seed": seed,
            "scores": {
                "features/top1": 0.1 * place + 0.01 * seed,
                "embeddings/pair_violations": 0.1 * place + 0.01 * seed,
            },
            "train_seconds": 1.0,
            "train_loss": [1.0],
        }
        for place, method in enumerate(study.methods)
        for seed in study.seeds
    ]


def test_points_of_one_axis(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    names = ["SupCon, τ = 0.1", "SupCon, τ = 0.5", "HWC, τ = 0.1", "HWC, τ = 0.5", "SimCLR"]
    assert [method.name for method in study.methods] == names
    supcon = study.recipe(study.methods[1], {}, 3)
    assert supcon.options["supcon"]["temperature"] == 0.5
    assert supcon.seed == 3
    hwc = study.recipe(study.methods[2], {}, 3)
    assert (hwc.options["hwc"]["temperature"], hwc.options["hwc"]["alpha"]) == (0.1, 0.0)
    assert study.method_at("SimCLR", {"τ": "0.5"}) is study.methods[4]
    assert study.method_at("HWC", {"τ": "0.5"}) is study.methods[3]
    assert [m.name for m in study.only(["HWC", "*0.1"])] == [names[0], names[2], names[3]]
    with pytest.raises(StudyError, match="no method is called 'HWX'; there are SupCon, HWC, SimCLR"):
        study.only(["HWX"])


def test_axes_of_points_and_two_axes(tmp_path: Path) -> None:
    grid = {"epochs": [1, 2], "samples": {"points": {"few": {"train_limit": 9}, "all": {}}}}
    study = study_of(tmp_path, grid=grid, methods={"SupCon": METHODS["SupCon"]})
    recipes = [study.recipe(method, {}, 0) for method in study.methods]
    assert [(r.epochs, r.train_limit) for r in recipes] == [(1, 9), (1, None), (2, 9), (2, None)]
    assert study.methods[1].name == "SupCon, epochs = 1, samples = all"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"grid": {"τ": [1]}}, "has 1 points; it needs two or more"),
        ({"grid": {"τ": {"values": [1, 2]}}}, r"has values; it must have of and values, or points"),
        ({"grid": {"τ": {**TAU, "values": [0.1, 0.1]}}}, "has a value twice"),
        ({"grid": {"τ": 3}}, "give a list of values"),
        ({"methods": {"A": {"grid": ["γ"]}}}, "varies along 'γ', which is not an axis"),
        ({"methods": {"A": {"setings": {}}}}, "method 'A' has 'setings'"),
        ({"columns": ["top1"]}, "columns are role/metric"),
        ({"columns": ["embeddings/recal_at_1"]}, "not a score; did you mean 'embeddings/recall_at_1'"),
        ({"columns": ["embeddings/recall@3"]}, "not a score; did you mean 'embeddings/recall_at_"),
        ({"columns": ["nonsense/zzz"]}, "not a score; there are features, embeddings"),
        ({"columns": ["knn/features.top1"]}, r"does not run 'knn'; add it: .*\[knn\]"),
        ({"columns": ["transfer features/top1"]}, "has no transfer"),
        ({"grid": {}, "margins": {"features/top": 0.1}}, "margins has 'features/top'.*'features/top1'"),
        ({"transfer": {"limit": 3}}, "it needs data"),
        ({"seeds": [1, 1]}, "one occurs twice"),
        (
            {"paper": [{"source": "x", "data": "y", "column": "c/d", "rows": {"HWX": 1}}]},
            "not a method of the",
        ),
    ],
)
def test_what_is_not_understood(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        study_of(tmp_path, **changes)


def test_methods_may_begin_from_a_recipe(tmp_path: Path) -> None:
    recipe = {"data": "elsewhere", "objective": "supcon", "epochs": 7, "supcon": {"temperature": 0.3}}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    methods = {"A": {"recipe": "r.yaml", "settings": {"epochs": 8}}}
    study = study_of(tmp_path, methods=methods)
    built = study.recipe(study.methods[0], {}, 0)
    assert (built.data, built.epochs) == ("elsewhere", 8)
    assert built.options["supcon"]["temperature"] == 0.1  # the grid comes last
    with pytest.raises(StudyError, match=r"there is no .* to be read as a recipe"):
        study_of(tmp_path, methods={"A": {"recipe": "other.yaml"}})


def test_the_page_of_a_grid(tmp_path: Path) -> None:
    paper = {
        "source": "Table 9",
        "data": "other images",
        "column": "features/top1",
        "rows": {"SupCon, τ = 0.1": 50.0, "HWC, τ = 0.1": 60.0, "SimCLR": 40.0},
    }
    study = study_of(tmp_path, paper=[paper], claim="it holds")
    results = results_of(study)
    path = tmp_path / "study.yaml"
    page = to_markdown(study_blocks(path, study, results, {}, [{"run": "hwc-seed9", "error": "no | disk"}]))
    assert "Claim to test: it holds" in page
    rows = [line for line in page.splitlines() if line.startswith("| HWC |")]
    # Compared at each point: with SupCon and with SimCLR, which is the same at both.
    assert rows[0] == "| HWC | 0.2100 ± 0.0100 | 0.3100 ± 0.0100 |"
    assert "| SimCLR | **0.4100 ± 0.0100** | **0.4100 ± 0.0100** |" in page
    assert "| SupCon | **0.0100 ± 0.0100** | **0.1100 ± 0.0100** |" in page  # fewest violations
    assert "| HWC, τ = 0.1 | **60** | 0.2100 ± 0.0100 |" in page
    # Of the pairs (SupCon, HWC), (SupCon, SimCLR), (HWC, SimCLR) the first alone is in the same order.
    assert "Of the 3 pairs of methods, Kendall's τ of the two orders is -0.33" in page
    assert "| hwc-seed9 | no \\| disk |" in page
    assert "Not finished" not in page
    assert "Not finished: 14 of 15 runs" in to_markdown(study_blocks(path, study, results[1:], {}))


def test_at_may_be_written_as_a_sign(tmp_path: Path) -> None:
    study = study_of(tmp_path, columns=["embeddings/recall@1", "probe/accuracy at depth 7"])
    assert study.columns == ("embeddings/recall_at_1", "probe/accuracy at depth 7")


def test_a_score_of_a_protocol_that_no_result_has_is_named(tmp_path: Path) -> None:
    changes = {"grid": {}, "evaluation": {"protocols": ["image-text"]}}
    study = study_of(tmp_path, **changes, columns=["image-text/a.recall_at_1", "image-text/b.recall@1"])
    results = [{"method": m.name, "seed": 0, "scores": {"image-text/a.recall@1": 0.5}} for m in study.methods]
    page = to_markdown(study_blocks(tmp_path / "study.yaml", study, results, {}))
    said = "no result has the score 'image-text/b.recall@1' of columns; did you mean 'image-text/a.recall@1'?"
    assert said in page
    assert page.count("no result has") == 1


def test_the_claimed_method_is_compared_with_every_other_one(tmp_path: Path) -> None:
    values = {"HWC": [0.8, 0.81, 0.82], "SupCon": [0.5, 0.51, 0.52], "SimCLR": [0.7, 0.81, 0.92]}
    results = [
        {"method": name, "seed": seed, "scores": {"features/top1": v, "embeddings/pair_violations": v}}
        for name, found in values.items()
        for seed, v in enumerate(found)
    ]
    methods = dict.fromkeys(("SupCon", "HWC", "SimCLR"))
    for seeds, better, worse in (
        (
            [0, 1, 2],
            "better than SupCon (+0.3000 ± 0.0082); not decided against SimCLR (+0.0000",
            "worse than",
        ),
        ([0, 1], "not decided against SupCon (+0.3000 ± 0.0071), SimCLR (+0.0500", "nothing can be decided"),
    ):
        changes = {"grid": {}, "methods": methods, "seeds": seeds, "claim": "HWC beats SupCon"}
        study = study_of(tmp_path, **changes)
        kept = [row for row in results if row["seed"] in seeds]
        page = to_markdown(study_blocks(tmp_path / "study.yaml", study, kept, {}))
        assert f"features top-1 accuracy ↑: {better}" in page
        assert worse in page
        assert "HWC against each other method" in page


def test_a_study_without_a_grid_draws_differences_from_supcon(tmp_path: Path) -> None:
    methods = {name: {"settings": {"objective": name.lower()}} for name in ("HWC", "SupCon", "SimCLR")}
    study = study_of(tmp_path, grid={}, methods=methods, claim="HWC beats SupCon")
    (tmp_path / "FINDINGS.md").write_text("## What we found\n\n**Verdict: yes.**\n", "utf-8")
    blocks = study_blocks(tmp_path / "study.yaml", study, results_of(study), {})
    page = to_markdown(blocks)
    order = [page.index(text) for text in ("Verdict", "better than SupCon", "](figures/", "<details>")]
    assert order == sorted(order), "verdict, figures, numbers"
    figures = [block for block in blocks if isinstance(block, Figure)]
    assert [figure.name for figure in figures] == [
        "differences-features-top1",
        "differences-embeddings-pair-violations",
    ]
    said = [re.findall(r"<title>([^<]*)</title>", figure.svg) for figure in figures]
    # HWC is the first method and has the least: the worst top-1, the fewest violations.
    assert said[0] == ["HWC: -0.100 [-0.123, -0.077]", "SimCLR: +0.100 [+0.077, +0.123]"]
    assert said[1] == ["HWC: +0.100 [+0.077, +0.123]", "SimCLR: -0.100 [-0.123, -0.077]"]
    assert 'class="line m0 whisker"' in figures[0].svg
    html = to_html(blocks)
    assert html.count("<details><summary>") == html.count("</details>") >= 4
    two = study_of(tmp_path, grid={}, methods=methods, seeds=[0, 1])
    blocks = study_blocks(tmp_path / "study.yaml", two, results_of(two), {})
    assert "fewer than three seeds there are no intervals" in to_markdown(blocks)
    assert not [block for block in blocks if isinstance(block, Figure) and "whisker" in block.svg]


def test_named_protocols_show_the_columns_that_the_study_names(tmp_path: Path) -> None:
    changes = {"grid": {}, "evaluation": {"protocols": ["knn"]}}
    scores = {"features/top1": 0.5, "knn/features.top1": 0.6, "knn/features.recall": 0.7}
    for columns, shown in (([], True), (["knn/features.top1"], False)):
        study = study_of(tmp_path, **changes, columns=columns)
        results = [{"method": m.name, "seed": 0, "scores": scores} for m in study.methods]
        page = to_markdown(study_blocks(tmp_path / "study.yaml", study, results, {}))
        assert ("share of the true path that is answered, features" in page) is shown
        assert ("All numbers of knn: `table.csv`" in page) is not shown
        assert "top-1 accuracy, features" in page
        assert "<summary>Features</summary>" in page


def test_figures_are_svg_that_hold_every_value(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    blocks = study_blocks(tmp_path / "study.yaml", study, results_of(study), {})
    html = to_html(blocks)
    assert html.count("<svg ") == 2
    assert "light-dark(" in html
    figures = [block.svg for block in blocks if hasattr(block, "svg")]
    for svg in figures:
        root = ElementTree.fromstring(svg_file(svg))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme:dark" in "".join(root.itertext())
        bands = [e for e in root.iter() if (e.get("class") or "").startswith("band")]
        assert len(bands) == 3
        texts = ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("text")]
        assert {"SupCon", "HWC", "SimCLR", "0.1", "0.5", "τ"} <= set(texts)
    two = study_of(
        tmp_path,
        grid={"hwc.alpha": [0.0, 1.0], "hwc.gamma": [0.0, 1.0]},
        methods={"HWC": {"settings": {"objective": "hwc"}}},
    )
    blocks = study_blocks(tmp_path / "study.yaml", two, results_of(two), {})
    svg = next(block.svg for block in blocks if hasattr(block, "svg"))
    texts = ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert {"0.0100", "0.1100", "0.2100", "0.3100", "best"} <= set(texts)
    page = to_markdown(blocks)
    assert "The best mean of each table is bold" in page
    rows = [line for line in page.splitlines() if line.startswith("| HWC, hwc.alpha = ")]
    assert rows[0] == "| HWC, hwc.alpha = 0 | 0.0100 ± 0.0100 | 0.1100 ± 0.0100 |"
    assert rows[1] == "| HWC, hwc.alpha = 1 | 0.2100 ± 0.0100 | **0.3100 ± 0.0100** |"
    empty = study_blocks(tmp_path / "study.yaml", two, [], {})
    assert "Not finished: 0 of 12 runs" in to_markdown(empty)


def test_the_csv_has_a_line_a_method_and_metric(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    results = results_of(study)
    lines = list(csv.DictReader(io.StringIO(to_csv(study, Summary(results)))))
    assert len(lines) == 10
    line = next(row for row in lines if row["method"] == "HWC, τ = 0.5" and row["metric"] == "features/top1")
    assert (line["family"], line["τ"], line["seeds"], line["mean"]) == ("HWC", "0.5", "3", "0.3100")
    assert math.isclose(float(line["sd"]), 0.01)
    assert [row["best"] for row in lines if row["metric"] == "features/top1"] == ["0", "0", "0", "0", "1"]


@pytest.mark.parametrize("values", [[0.0] * 4, [math.nan, 0.1, 0.2, 0.1]])
def test_a_map_marks_nothing_undefined_and_not_all_alike(tmp_path: Path, values: list[float]) -> None:
    lr = {"of": ["lr"], "values": [0.1, 0.2]}
    methods = {"SupCon": METHODS["SupCon"]}
    tau = {"of": ["supcon.temperature"], "values": [0.1, 0.5]}
    study = study_of(tmp_path, grid={"τ": tau, "lr": lr}, methods=methods, columns=["features/top1"])
    rows = [
        {"method": method.name, "seed": 0, "scores": {"features/top1": value}}
        for method, value in zip(study.methods, values, strict=True)
    ]
    svg = study_figures(study, Summary(rows), ["features/top1"])[0].svg
    known = [value for value in values if not math.isnan(value)]
    assert svg.count(">best<") == (1 if len(set(known)) > 1 else 0)
    assert svg.count(">–<") == len(values) - len(known)
    assert "nan" not in svg


def test_a_trial_without_a_value_is_chosen_only_where_none_has_one(tmp_path: Path) -> None:
    methods = {"A": {"settings": {"objective": "supcon"}, "trials": [{}, {"lr": 0.1}, {"lr": 0.2}]}}
    study = study_of(tmp_path, methods=methods, grid={})
    tasks = trial_tasks_of(study, study.methods)
    for values, chosen in (([math.nan, 0.2, 0.3], 2), ([0.2, math.nan, 0.1], 0), ([math.nan] * 3, 0)):
        book = Book(tmp_path / "study.yaml", study)
        for task, value in zip(tasks, values, strict=True):
            book.add_trial(task, value)
        assert book.choose(tasks) == chosen
        book.write()


def test_what_is_undefined_is_null_in_the_results_and_nan_when_read(tmp_path: Path) -> None:
    """Strict readers of JSON, such as that of browsers, refuse the bare NaN that was written before."""
    methods = {"A": {"settings": {"objective": "supcon"}, "trials": [{}, {"lr": 0.1}]}}
    study = study_of(tmp_path, methods=methods, grid={})
    first, second = trial_tasks_of(study, study.methods)
    book = Book(tmp_path / "study.yaml", study)
    book.add_trial(first, math.nan)
    book.add_trial(second, 0.5)
    assert book.choose([first, second]) == 1
    row = {"scores": {"features/top1": None}, "train_loss": [1.0, math.inf, math.nan], "settings": "x"}
    book.add("A", 0, row)
    book.write()

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = book.path.read_text("utf-8")
    content = json.loads(text, parse_constant=refuse)
    assert content["results"][0]["train_loss"] == [1.0, None, None]
    for stored in (
        text,
        text.replace("null", "NaN").replace('"features/top1": NaN', '"features/top1": null'),
    ):
        book.path.write_text(stored, "utf-8")
        again = Book(tmp_path / "study.yaml", study)
        assert again.known(first)
        assert again.choose([first, second]) == 1
        losses = again.results[0]["train_loss"]
        assert losses[0] == 1.0
        assert all(math.isnan(loss) for loss in losses[1:])
        found = again.choices["A"]["trials"]
        assert [math.isnan(trial[study.select]) for trial in found] == [True, False]


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        ({"protocols": ["knnn"]}, "there is no protocol 'knnn'; did you mean 'knn'?"),
        ({"protocols": ["knn"], "options": {"knn": {"kz": [1]}}}, "protocol 'knn' has no option 'kz'"),
        ({"feature_geometry": "sphre"}, "expected 'sphere' or 'euclidean'"),
        ({"leave_group_out": "alwys"}, "expected one of 'auto', 'always', 'never'"),
        (
            {"classifier": "prob"},
            "expected one of 'auto', 'feature-means', 'prototypes', 'lda', 'probe', 'own'",
        ),
    ],
    ids=str,
)
def test_a_wrong_word_of_the_evaluation_is_refused_before_anything_is_trained(
    evaluation: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=re.escape(words)):
        study_of(tmp_path, evaluation=evaluation)
