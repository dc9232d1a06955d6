"""Which samples of several runs are the same: by ids where there are some, by rows otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.data.corrections import Correction, Corrections
from labeltree.errors import DataError
from labeltree.evaluation import EvaluationSettings, compare, evaluate, load_outcomes, save_outcomes
from labeltree.evaluation.comparing.compare_runs import Compared, compare_paths
from labeltree.options.comparison_options import CompareOptions
from labeltree.runs import EmbeddingTable, RunFolder, SampleRecord
from labeltree.runs.model_description import ModelDescription
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from sweeps import long_unless, some_now

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "elm")])
N = 80
ORDER = np.random.default_rng(3).permutation(N)


def _evaluated(
    place: Path,
    *,
    noise: float,
    ids: Sequence[str] | None,
    order: np.ndarray | None = None,
    recorded: bool = True,
    **columns: object,
) -> Path:
    """A folder with the outcomes of a run on vectors: the same samples, in some order, at some noise."""
    order = np.arange(N) if order is None else order
    nodes = TREE.leaves.repeat(N // 4)
    generator = torch.Generator().manual_seed(int(noise * 10))
    points = torch.eye(TREE.num_nodes)[nodes] + noise * torch.randn(N, TREE.num_nodes, generator=generator)
    split = np.where(np.arange(N) // 4 % 2 == 0, "train", "test")
    points, nodes, split = points[order], nodes[order], split[order]
    named = None if ids is None else np.array(ids)[order]
    table = EmbeddingTable(points, nodes, split, ids=None if recorded else named)
    outcomes = evaluate(table, TREE, name="run", settings=EvaluationSettings(resamples=0)).outcomes
    folder = RunFolder(place)
    folder.path.mkdir()
    save_outcomes(folder.outcomes, outcomes)
    names = [f"row {row + 1}" for row in range(N)] if named is None else named.tolist()
    if recorded:
        SampleRecord(
            instances=np.arange(N),
            nodes=nodes.numpy(),
            split=split,
            names=names,
            digests=points.numpy().view(np.uint8)[:, :16].copy(),
            given_split=split,
            **{"data": place.name, "num_data": N, "modalities": ("vector",), **columns},  # type: ignore[arg-type]
        ).save(folder.samples)
    return place


def _compare(*places: Path) -> Compared:
    methods = {place.name: [place] for place in places}
    options = CompareOptions(methods, out=places[0].parent / "compared", resamples=99, permutations=99)
    return compare_paths(methods, options)


IDS = [f"img{number:03d}" for number in range(N)]


def test_vectors_of_two_encoders_are_the_same_samples_if_their_ids_are(tmp_path: Path) -> None:
    first = _evaluated(tmp_path / "a", noise=0.9, ids=IDS)
    other = _evaluated(tmp_path / "b", noise=0.3, ids=IDS)
    done = _compare(first, other)
    assert done.result.samples == N // 2
    assert any("paired by their ids" in note for note in done.result.notes)


@pytest.mark.parametrize("recorded", some_now([True, False]))
def test_ids_are_found_in_any_order(tmp_path: Path, recorded: bool) -> None:
    """By rows, samples of other classes would be compared."""
    first = _evaluated(tmp_path / "a", noise=0.9, ids=IDS, recorded=recorded)
    there = _evaluated(tmp_path / "b", noise=0.3, ids=IDS, recorded=recorded)
    moved = _evaluated(tmp_path / "c", noise=0.3, ids=IDS, recorded=recorded, order=ORDER)
    metrics = [_compare(first, other).result.metric("prototype_top1") for other in (there, moved)]
    pairs = [metric.differences[name] for metric, name in zip(metrics, "bc", strict=True)]
    assert pairs[0].value == pytest.approx(pairs[1].value)
    assert pairs[0].p == pytest.approx(pairs[1].p)


def test_outcomes_in_memory_are_paired_by_their_ids(tmp_path: Path) -> None:
    within = np.arange(N).reshape(-1, 8)[::-1].ravel()  # each row keeps its class and its split
    places = [
        _evaluated(tmp_path / name, noise=noise, ids=IDS, recorded=False, order=order)
        for name, noise, order in (("a", 0.9, None), ("b", 0.8, None), ("c", 0.8, within))
    ]
    first, there, moved = (load_outcomes(RunFolder(place).outcomes)["run"] for place in places)
    pairs = [
        compare({"a": first, "other": other}, resamples=99).metric("prototype_top1").differences["other"]
        for other in (there, moved)
    ]
    assert (pairs[0].low, pairs[0].high) == pytest.approx((pairs[1].low, pairs[1].high))


@pytest.mark.parametrize("recorded", [True, False])
def test_searches_in_another_order_are_tested_or_it_is_said(tmp_path: Path, recorded: bool) -> None:
    """Tables with ids leave out the same blocks in any order; runs know their samples by rows."""
    first = _evaluated(tmp_path / "a", noise=0.9, ids=IDS, recorded=recorded)
    there = _evaluated(tmp_path / "b", noise=0.3, ids=IDS, recorded=recorded)
    moved = _evaluated(tmp_path / "c", noise=0.3, ids=IDS, recorded=recorded, order=ORDER)
    done = [_compare(first, other).result for other in (there, moved)]
    pairs = [result.metric("recall_at_1").differences[name] for result, name in zip(done, "bc", strict=True)]
    said = [any("neither intervals nor p-values" in note for note in result.notes) for result in done]
    assert pairs[0].value == pytest.approx(pairs[1].value)
    assert said == [False, recorded]
    if recorded:
        assert np.isnan(pairs[1].p)
    else:
        assert (pairs[0].low, pairs[0].high, pairs[0].p) == pytest.approx(
            (pairs[1].low, pairs[1].high, pairs[1].p)
        )


@pytest.mark.parametrize("recorded", long_unless([True, False], [False]))
def test_samples_elsewhere_are_found_by_their_ids_too(tmp_path: Path, recorded: bool) -> None:
    """What a protocol measured on other samples of the runs; by rows, others of a class would be paired."""
    pairs = []
    within = np.arange(N).reshape(-1, 8)[::-1].ravel()  # each row keeps its class and its split
    for name, order in (("same", None), ("moved", within)):
        places = [
            _evaluated(tmp_path / f"{name} {number}", noise=noise, ids=IDS, recorded=recorded, order=given)
            for number, (noise, given) in enumerate([(0.9, None), (0.8, order)])
        ]
        for place in places:
            outcomes = load_outcomes(RunFolder(place).outcomes)["run"]
            values = {("other", "top1"): outcomes.values["embeddings", "prototype_top1"]}
            there = replace(
                outcomes, values=values, weights={}, classes={}, folds={}, without={}, protocols=("other",)
            )
            with_there = replace(outcomes, elsewhere={"other": there}, protocols=("other",))
            save_outcomes(RunFolder(place).outcomes, {"run": with_there})
        methods = {str(number): [place] for number, place in enumerate(places)}
        options = CompareOptions(methods, out=tmp_path / "compared", metrics=["other.top1"], resamples=99)
        pairs.append(compare_paths(methods, options).result.metric("top1", "other").differences["1"])
    assert pairs[0].value == pytest.approx(pairs[1].value)
    assert (pairs[0].low, pairs[0].high) == pytest.approx((pairs[1].low, pairs[1].high))
    assert pairs[0].mcnemar == pytest.approx(pairs[1].mcnemar)


@pytest.mark.parametrize("recorded", [True, False])
def test_ids_are_found_where_no_tested_row_is_the_same(tmp_path: Path, recorded: bool) -> None:
    """Test samples at the end of one table and at the beginning of the other."""
    tested = np.arange(N) // 4 % 2 == 1
    ends = [np.concatenate([np.flatnonzero(~part), np.flatnonzero(part)]) for part in (tested, ~tested)]
    last, first = (
        _evaluated(tmp_path / name, noise=noise, ids=IDS, recorded=recorded, order=order)
        for name, noise, order in zip("ab", (0.9, 0.3), ends, strict=True)
    )
    assert _compare(last, first).result.samples == N // 2


def test_another_label_of_an_id_is_named(tmp_path: Path) -> None:
    first = _evaluated(tmp_path / "a", noise=0.9, ids=IDS)
    swapped = [*IDS[:4], IDS[5], IDS[4], *IDS[6:]]
    other = _evaluated(tmp_path / "b", noise=0.3, ids=swapped)
    with pytest.raises(
        DataError, match=r"2 samples .* one of them sample 'img004', which is 'animal/cat' in"
    ):
        _compare(first, other)


def test_a_sample_of_another_label_is_named_as_elsewhere_with_both_labels_and_what_to_type(
    tmp_path: Path,
) -> None:
    """Not by an internal number: by its row in the data of a run, by its line in a table."""
    order = np.arange(N)
    order[[4, 5]] = 5, 4
    first, other = (
        _evaluated(tmp_path / name, noise=0.9, ids=None, order=given)
        for name, given in (("a", None), ("b", order))
    )
    with pytest.raises(DataError) as refused:
        _compare(first, other)
    said = str(refused.value)
    assert said.startswith(
        "2 samples have other labels in 'b' than in 'a', one of them row 5 of the data 'a', which is "
        "'animal/cat' in 'b' and 'animal/dog' in 'a': "
    )
    assert "paired by their rows: if these are in another order, write a column 'id' into both" in said
    assert f"'labeltree evaluate {first} --data FILE.csv' and 'labeltree evaluate {other} --data F" in said
    assert f"then 'labeltree compare {first / 'elsewhere-FILE'} {other / 'elsewhere-FILE'}'" in said


@pytest.mark.parametrize("judge", ["tree", "dag", "unrecorded"])
def test_a_result_on_another_version_is_measured_again_by_its_run(tmp_path: Path, judge: str) -> None:
    """Not by `evaluate RUN/on-FILE`, which is not the folder of a run."""
    run, version = tmp_path / "run", tmp_path / "new.json"
    run.mkdir()
    ModelDescription({}, None).save(RunFolder(run).description)
    there = _evaluated(run / "on-new", noise=0.9, ids=IDS, recorded=False)
    other = _evaluated(tmp_path / "b", noise=0.3, ids=[*IDS[:4], IDS[5], IDS[4], *IDS[6:]], recorded=False)
    if judge == "tree":
        TREE.save(version)
    else:
        TaxonomyDAG(["root", "a", "b", "c"], [[], [0], [0], [1, 2]]).save(version)
    if judge != "unrecorded":
        known = {"digest": "0", "taxonomy": str(version), "mapping": "changes.yaml"}
        RunFolder(there).write_json(RunFolder(there).measured_on, known)
    with pytest.raises(DataError) as refused:
        _compare(there, other)
    said = str(refused.value)
    words = f"--taxonomy {version}" if judge == "tree" else "--taxonomy new-tree.json"
    folder, mapping = "elsewhere-FILE-on-" + ("new" if judge == "tree" else "new-tree"), "changes.yaml"
    if judge == "unrecorded":
        words, folder, mapping = "--taxonomy TREE.json", "elsewhere-FILE-on-TREE", "CHANGES.yaml"
    assert f"'labeltree evaluate {run} --data FILE.csv {words} --mapping {mapping}' and 'lab" in said
    assert f"'labeltree compare {run / folder} {other / 'elsewhere-FILE'}'" in said
    assert (f"'labeltree taxonomy project {version} --out new-tree.json', " in said) == (judge == "dag")


@pytest.mark.parametrize(
    ("given", "called"),
    [("csv", "line 8"), ("numbered.csv", "the one with 5 in the column 'instance'"), ("npz", "row 6")],
)
def test_a_row_of_another_label_is_named_by_its_line(tmp_path: Path, given: str, called: str) -> None:
    draw = np.random.default_rng(0)
    for name, changed in (("a", None), ("b", 5)):
        labels = ["animal/dog", "plant/oak"] * 30
        if changed is not None:
            labels[changed] = "animal/dog"
        points = draw.normal(size=(60, 4)).round(3)
        rows = [f"{label},{','.join(map(str, row))}" for label, row in zip(labels, points, strict=True)]
        head = "label,f0,f1,f2,f3"
        if given == "numbered.csv":
            head, rows = f"instance,{head}", [f"{place},{row}" for place, row in enumerate(rows)]
        file = tmp_path / f"{name}.{given}"
        if given == "npz":
            np.savez(file, embeddings=points, labels=labels)
        else:
            file.write_text("\n".join([head, "", *rows]) + "\n")  # the blank line counts
    pattern = rf"1 sample has another label .*, {called}.*Give them the same labels, then compare again"
    with pytest.raises(DataError, match=pattern):
        _compare(*(tmp_path / f"{name}.{given}" for name in "ab"))


def _learned_from(place: Path, rounds: dict[Path, Corrections]) -> Path:
    """What `_evaluated` has made, as the folder of a run that learned from the labels of these tables."""
    folder, relabelled = RunFolder(place), {}
    TREE.save(folder.taxonomy)
    ModelDescription({"corrections": list(map(str, rounds)) or None}, None).save(folder.description)
    for number, (file, table) in enumerate(rounds.items(), 1):
        table.save(file)
        table.save(folder.correction_file(number))
        relabelled |= {IDS.index(entry.sample): TREE.find(entry.node) for entry in table.entries}
    record, outcomes = folder.load_samples(), load_outcomes(folder.outcomes)["run"]
    for known in (record, outcomes):
        for row in np.flatnonzero(np.isin(known.instances, list(relabelled))):
            known.nodes[row] = relabelled[int(known.instances[row])]
    record.save(folder.samples)
    save_outcomes(folder.outcomes, {"run": outcomes})
    return place


def test_corrections_that_one_run_learned_from_are_named_with_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run and the one trained on its decided suspects were "not the same samples", with no way out."""
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "sus.csv", tmp_path / "my more.csv"
    one = Corrections((Correction(IDS[4], "dog", "accept", "cat"),))
    two = Corrections((Correction(IDS[5], "cat", "accept", "elm"),))
    tables: list[dict[Path, Corrections]] = [{}, {first: one}, {first: one, second: two}]
    plain, corrected, again = (
        _learned_from(_evaluated(tmp_path / name, noise=noise, ids=IDS), rounds)
        for name, noise, rounds in zip(("p2", "p3", "p4"), (0.9, 0.3, 0.5), tables, strict=True)
    )
    evaluation = f"'labeltree evaluate {plain} --corrections sus.csv'"
    with pytest.raises(
        DataError,
        match=r"^1 sample has another label in 'p3' than in 'p2', sample 'img004', which is "
        rf".* {evaluation}, then "
        rf"'labeltree compare {plain}/corrected-sus {corrected}'$",
    ):
        _compare(plain, corrected)
    with pytest.raises(DataError, match=rf"{evaluation}, .* compare {corrected} {plain}/corrected-sus'$"):
        _compare(corrected, plain)
    files = '--corrections sus.csv "my more.csv"'
    with pytest.raises(
        DataError,
        match=rf"evaluate {plain} {files}', 'labeltree evaluate {corrected} {files}', then "
        r"'labeltree compare "
        rf'"{plain}/corrected-sus\+my more" "{corrected}/corrected-sus\+my more" {again}\'$',
    ):
        _compare(plain, corrected, again)

    second.write_text("changed since", "utf-8")
    own = f"{again}/corrections.csv {again}/corrections-2.csv"
    with pytest.raises(DataError, match=rf"evaluate {plain} --corrections {own}'"):
        _compare(plain, again)
    other = _learned_from(_evaluated(tmp_path / "p5", noise=0.2, ids=IDS), {second: two})
    with pytest.raises(DataError, match="not the same samples, or not as labelled"):
        _compare(corrected, other)


def test_vectors_without_ids_are_paired_by_rows_if_there_are_as_many(tmp_path: Path) -> None:
    first = _evaluated(tmp_path / "a", noise=0.9, ids=None)
    other = _evaluated(tmp_path / "b", noise=0.3, ids=IDS)
    done = _compare(first, other)
    assert any("paired by their rows" in note and "column 'id'" in note for note in done.result.notes)
    fewer = _evaluated(tmp_path / "c", noise=0.3, ids=None, num_data=N - 1)
    with pytest.raises(DataError, match=r"80 and 79 rows.*a column 'id'"):
        _compare(first, fewer)


@pytest.mark.parametrize("place", ["line {}", "row {} of the sheet"])
def test_places_in_tables_are_no_ids(place: str, tmp_path: Path) -> None:
    """A title above one of two tables moves its lines; by these, samples would be paired with neighbours."""
    texts = {"modalities": ("text",)}
    lines = [[place.format(row + first) for row in range(N)] for first in (2, 4)]
    first = _evaluated(tmp_path / "a", noise=0.9, ids=lines[0], **texts)
    other = _evaluated(tmp_path / "b", noise=0.3, ids=lines[1])
    done = _compare(first, other)
    assert done.result.samples == N // 2
    assert any("paired by their rows" in note for note in done.result.notes)


def test_other_texts_under_the_same_rows_need_another_column_of_one_table(tmp_path: Path) -> None:
    """Titles and descriptions of one table are forms of its samples; two tables with one column are not."""
    texts = {"modalities": ("text",), "data": "products"}
    first = _evaluated(tmp_path / "a", noise=0.9, ids=None, **texts, columns={"texts": ("title",)})
    other = _evaluated(tmp_path / "b", noise=0.3, ids=None, **texts, columns={"texts": ("description",)})
    assert any("paired by their rows" in note for note in _compare(first, other).result.notes)
    same = _evaluated(tmp_path / "c", noise=0.3, ids=None, **texts, columns={"texts": ("title",)})
    with pytest.raises(DataError, match="different samples under the same ids"):
        _compare(first, same)


@pytest.mark.slow
def test_runs_on_vectors_of_the_same_ids_stand_beside_each_other(tmp_path: Path) -> None:
    labels = np.array(["a/x", "a/y", "b/z", "b/w"])[np.arange(120) % 4]
    for seed, name in enumerate(("one", "two")):
        vectors = np.random.default_rng(seed).normal(size=(120, 5 + seed)).astype(np.float32)
        ids = np.array([f"img{number}" for number in range(120)])
        np.savez(tmp_path / f"{name}.npz", vectors=vectors, label=labels, id=ids)
        lt.train(tmp_path / f"{name}.npz", out=tmp_path / name, progress_bar=False)
    done = lt.evaluate(tmp_path / "one", beside=[tmp_path / "two"])
    assert "tree-ridge (two)" in done.result.methods
