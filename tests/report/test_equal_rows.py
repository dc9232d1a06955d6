"""Equal rows of a table are copies of a sample: one group, counted and named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from labeltree.api import compare, evaluate
from labeltree.evaluation.statistics.sampling_units import group_equal_rows, share_units
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "fir")])


def twice(count: int = 100) -> EmbeddingTable:
    """Vectors of noise, each of which occurs twice."""
    vectors = torch.randn(count, 8, generator=torch.Generator().manual_seed(0))
    nodes = TREE.leaves.repeat_interleave(count // 4)
    return EmbeddingTable(vectors.repeat(2, 1), nodes.repeat(2))


def test_copies_are_no_results_of_each_other(tmp_path: Path) -> None:
    """recall@1 of noise was 1.0000 [0.991, 1.000]."""
    twice().save(tmp_path / "twice.npz")
    TREE.save(tmp_path / "tree.json")
    done = evaluate(tmp_path / "twice.npz", tmp_path / "tree.json", out=tmp_path / "out")
    assert done.result.main.score("recall_at_1") < 0.6
    assert any(
        note.startswith("200 rows, 100 different: equal rows are one group") for note in done.result.notes
    )
    split = np.asarray(done.result.samples.test)
    assert set(split % 100) & set(np.setdiff1d(np.arange(200), split) % 100) == set()


def test_equal_rows_join_groups_and_need_equal_features() -> None:
    table = replace(twice(), groups=torch.arange(200) // 2)
    grouped, told = group_equal_rows(table, "test")
    assert told.startswith("200 rows, 100 different")
    assert grouped.groups[0] == grouped.groups[1] == grouped.groups[100] == grouped.groups[101]
    features = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    features[150] = features[50]
    grouped, told = group_equal_rows(replace(twice(), features=features), "test")
    assert told.startswith("200 rows, 199 different")
    assert (grouped.groups >= 0).nonzero()[:, 0].tolist() == [50, 150]


def test_copies_across_the_tables_own_splits_are_counted() -> None:
    table = replace(twice(), split=np.array(["train"] * 110 + ["test"] * 90))
    _, told = group_equal_rows(table, "test")
    assert "90 of 90 rows of test equal a training row" in told


def test_collapsed_and_different_rows_keep_their_groups() -> None:
    collapsed = replace(twice(), embeddings=torch.ones(200, 8))
    table, told = group_equal_rows(collapsed, "test")
    assert table is collapsed
    assert told == "200 rows, 1 different: the embeddings have collapsed, or samples occur many times"
    different = twice().rows(torch.arange(100))
    assert group_equal_rows(different, "test") == (different, "")


def saved_twice(folder: Path, *, noise: float = 0.0, ids: bool = False) -> tuple[Path, Path]:
    """Two encoders' files of the same samples, each twice; with noise, nearly so in the second."""
    TREE.save(folder / "tree.json")
    files = folder / "one.npz", folder / "other.npz"
    table = replace(twice(), ids=np.array([f"s{row}" for row in range(200)]) if ids else None)
    table.save(files[0])
    drawn = torch.randn(200, 8, generator=torch.Generator().manual_seed(3))
    other = replace(table, embeddings=table.embeddings.flip(1) + noise * drawn)
    (other.rows(torch.arange(199, -1, -1)) if ids else other).save(files[1])
    return files


def test_a_comparison_has_the_units_of_an_evaluation(tmp_path: Path) -> None:
    """Here recall@1 of noise was 1.0000, of 200 samples; `evaluate` of the same file said 0.25, of groups."""
    one, other = saved_twice(tmp_path)
    alone = evaluate(one, tmp_path / "tree.json", out=tmp_path / "out")
    done = compare([one, other], taxonomy=tmp_path / "tree.json", out=tmp_path / "both", resamples=200)
    assert (done.result.groups, done.result.grouped) == (100, True)
    assert done.results["one"][0].main.score("recall_at_1") == alone.result.main.score("recall_at_1") < 0.6
    said = [note for note in done.result.notes if "200 rows, 100 different: equal rows are one group" in note]
    assert len(said) == 1


def test_copies_in_one_table_are_copies_in_the_other(tmp_path: Path) -> None:
    """The second encoder makes nearly equal vectors of copies: they count as one for both, in any order."""
    one, other = saved_twice(tmp_path, noise=1e-6, ids=True)
    done = compare([other, one], taxonomy=tmp_path / "tree.json", out=tmp_path / "both", resamples=200)
    assert done.result.groups == 100
    assert all(of_run[0].main.score("recall_at_1") < 0.6 for of_run in done.results.values())
    assert not any("Retrieval is not compared" in note for note in done.result.notes)


def test_units_of_tables_without_copies_stay() -> None:
    table = twice().rows(torch.arange(100))
    shared = share_units([("one", table), ("other", table)], "test")
    assert shared.put_into(table) is table
    assert shared.notes == ()
    grouped = replace(table, groups=torch.arange(100) // 2)
    shared = share_units([("one", table), ("other", grouped)], "test")
    assert torch.equal(torch.as_tensor(shared.put_into(table).groups), torch.arange(100) // 2)
