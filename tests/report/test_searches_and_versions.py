"""Searches and other taxonomies in words: which samples were searched, and what a change did to which."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult
from labeltree.evaluation.outcomes import Outcomes
from labeltree.index.hits import Hits
from labeltree.index.search_results import Answer
from labeltree.options.search import SearchOptions
from labeltree.report import other_taxonomy
from labeltree.report.charts.map_projection import _label_places
from labeltree.report.charts.tree_colours import TreeColours, main_branches
from labeltree.report.corrected_labels import _both
from labeltree.report.evaluate_embeddings import _folder_beside, _say_made_of_labels, _suspects_steps
from labeltree.report.evaluate_run import _are_usual, _same_samples
from labeltree.report.other_taxonomy import OtherTaxonomy, compare_with_before, name_version
from labeltree.report.pages.report_page import _flat
from labeltree.report.search_index import Searched, search_index
from labeltree.report.tables.metric_table import _searched
from labeltree.runs import EmbeddingTable, PartFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
X, Y, Z = (int(TREE.find(name)) for name in "xyz")


class FakeIndex:
    """An index of a thousand samples and more, of which a few fit each condition."""

    where, model, geometry, schema = "here", "m0del", "euclidean", None

    def __len__(self) -> int:
        return 1234

    def count(self, **chosen: Any) -> int:
        assert list(chosen) == ["within", "not_within", "where"]
        return 5678 if all(each is None or not each for each in chosen.values()) else 57


def searched(answers: list[Answer], **options: Any) -> Searched:
    index: Any = FakeIndex()
    return Searched(answers, index, TREE, SearchOptions("here", texts=["q"], **options))


def hits(count: int, **rows: Any) -> Hits:
    nodes = np.array([X, Y, Z] * count)[:count]
    return Hits([f"s{n}" for n in range(count)], np.arange(count) / 8, np.zeros(count), nodes, rows)


def test_a_page_says_which_samples_were_searched() -> None:
    assert searched([])._among() == "Among 1,234 samples"
    assert searched([], within=["a", "b/z"], not_within=["a/x"], diverse=2)._among() == (
        "Among 57 of 1,234 samples (labelled at or below a or b/z; not at or below a/x; at most one of each "
        "node at depth 2)"
    )


def test_pictures_that_are_gone_are_counted_among_those_of_files(tmp_path: Path) -> None:
    (tmp_path / "there.png").write_bytes(b"")
    places = [str(tmp_path / "there.png"), "gone/1.png", "", "gone/2.png", "drawn/3.png"]
    found = searched([Answer("q", "text", hits(5, path=places)), Answer("p", "text", None)])
    found.__dict__["_pictures"] = {"s4": "data:"}
    assert found.pictures_gone == (
        "2 images of 4 that were found, such as 'gone/1.png', are no longer there: the page goes without. "
        "Put them back there, or make the index again where they are now"
    )
    found.__dict__["_pictures"] = {"s1": "data:", "s4": "data:"}
    assert found.pictures_gone.startswith("1 image of 4 that were found, such as 'gone/2.png', is no longer")
    found.__dict__["_pictures"] = {"s1": "data:", "s3": "data:", "s4": "data:"}
    assert found.pictures_gone == ""
    assert found.unread == [found.answers[1]]


def test_a_notebook_shows_the_first_answers_and_counts_the_rest() -> None:
    answers = [Answer(f"query {n}", "text", hits(12), X, "results" if n else "query") for n in range(7)]
    answers[1] = Answer("query 1", "image", None, problem="it is broken")
    found = searched(answers)
    html = found._repr_html_()
    assert "query 0: a/x<" in html.replace("</", "<")
    assert "query 1: no answer, it is broken" in html
    assert "query 2: a/x (likely, from the results)" in html
    assert "query 4" in html
    assert "query 5" not in html
    assert "distance (Euclidean)" in html
    assert "… 2 more searches" in html
    assert html.count("… 2 more<") == 4, "ten results of twelve"
    assert ("s9" in html, "s10" in html) == (True, False)
    assert [html.count(f">{place / 8:.4f}<") for place in (0, 1, 9, 10)] == [4, 4, 4, 0]
    whole = searched([Answer("q", "text", hits(count)) for count in (1, 9, 10)])._repr_html_()
    assert " more" not in whole
    assert repr(found).endswith("\n… 2 more searches")
    assert "more searches" not in repr(replace(found, answers=answers[:5]))
    assert "more searches" not in replace(found, answers=answers[:5])._repr_html_()


# Other taxonomies


def test_a_change_is_told_of_the_samples_that_were_measured() -> None:
    class Change:
        guesses = 0

        def sentence(self, nodes: torch.Tensor, name: str, samples: str) -> str:
            return f"{nodes.tolist()} of {name}, {samples}."

        def split_advice(self, nodes: torch.Tensor) -> str:
            return f"Advice on {len(nodes)}." if len(nodes) == 2 else ""

        def counts(self, nodes: torch.Tensor) -> dict[str, Any]:
            return {}

    change: Any = Change()
    other = OtherTaxonomy(TREE, TREE, "trees/new.json", change)
    table = EmbeddingTable(torch.eye(3), torch.tensor([X, Y, Z]), split=np.array(["test", "val", "test"]))
    result = EvaluationResult("mine", "test", {}, {}, [])

    def told(result: EvaluationResult, table: EmbeddingTable) -> tuple[list[str], list[str]]:
        said = other.remark(result, table)
        return said.notes, said.cautions

    sentence = f"[{X}, {Z}] of new.json, test samples. Advice on 2."
    assert told(result, table) == ([sentence], [])
    every = f"[{X}, {Y}, {Z}] of new.json, "
    assert told(replace(result, split="half"), table)[0] == [f"{every}half samples."]
    assert told(result, replace(table, split=None))[0] == [f"{every}samples."]
    change.guesses = 3
    assert told(result, table)[1] == [sentence]
    assert OtherTaxonomy(TREE, TREE, "new.json", None).remark(result, table) is result


def test_before_and_after_are_of_the_samples_that_count_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes(ids: list[int], right: list[float]) -> Outcomes:
        values = {("decisions", "top1"): np.zeros(len(ids)), ("features", "top1"): np.array(right)}
        nodes = np.full(len(ids), X)
        return Outcomes(np.array(ids), nodes, TREE, values, protocols=frozenset({"decisions"}))

    def result(split: str = "test") -> Any:
        main = SimpleNamespace(classifier=SimpleNamespace(name="probe"))
        return SimpleNamespace(name="ce", split=split, main=main)

    own = outcomes([1, 2, 3, 4, 5, 6], [1.0, 0.0, 0.0, nan, 1.0, 1.0])
    here = outcomes([6, 5, 4, 3, 2, 7], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0])  # 2, 3, 5 and 6 count in both

    def said(own: Outcomes, here: Outcomes, split: str = "test") -> str | None:
        now = result()
        now.outcomes = {"ce": here}
        loaded = SimpleNamespace(load=lambda file: result(split))
        monkeypatch.setattr(other_taxonomy, "EvaluationResult", loaded)
        monkeypatch.setattr(other_taxonomy, "load_outcomes", lambda file: {"ce": own})
        return compare_with_before(SimpleNamespace(metrics="", outcomes=""), now)  # type: ignore[arg-type]

    anew = (
        "Here classifiers learned the mapped labels anew; 'predict' answers with the run's own, so its "
        "answers may differ."
    )
    assert said(own, here) == (
        "Before and after, on the same samples: of the 4 whose label is a class on both taxonomies, the "
        "answers were right for 50.0% on the run's own and are right for 75.0% here. Fewer classes are "
        f"easier to tell apart. {anew}"
    )
    worse = said(here, own)
    assert worse is not None
    assert worse.endswith("were right for 75.0% on the run's own and are right for 50.0% here. " + anew)
    assert said(own, here, "val") is None
    assert said(own, outcomes([8], [1.0])) is None

    def fail(file: Any) -> Any:
        raise DataError("not evaluated")

    monkeypatch.setattr(other_taxonomy, "EvaluationResult", SimpleNamespace(load=fail))
    assert compare_with_before(SimpleNamespace(metrics="", outcomes=""), result()) is None  # type: ignore[arg-type]


def test_the_files_of_a_version_are_told() -> None:
    options: Any = SimpleNamespace(taxonomy=Path("a/t.json"), mapping=None)
    assert name_version(options) == {"taxonomy": "a/t.json"}
    options.mapping = "m.yaml"
    assert name_version(options) == {"taxonomy": "a/t.json", "mapping": "m.yaml"}


def test_the_numbers_with_corrections_stand_before_those_without() -> None:
    def result(top1: float, f1: float) -> Any:
        scores = {"top1": top1, "hierarchical_f1": f1}
        return SimpleNamespace(main=SimpleNamespace(answer_score=scores.__getitem__))

    start = "With and without the corrections of labels that are measured on: "
    assert _both(result(0.75, 0.875), result(0.5, 0.625)) == (
        f"{start}top1 0.7500 with, 0.5000 without; hierarchical f1 0.8750 with, 0.6250 without."
    )
    assert _both(result(nan, 0.875), result(0.5, 0.625)) == (
        f"{start}hierarchical f1 0.8750 with, 0.6250 without."
    )
    assert _both(result(nan, nan), result(0.5, 0.6)) == f"{start}its answers were not measured."


# Tables of embeddings and runs


def test_an_evaluation_of_a_table_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.v2.npz"
    assert _folder_beside(file, corrected=False) == tmp_path / "mine.v2"
    assert _folder_beside(file, corrected=True) == tmp_path / "mine.v2-corrected"
    monkeypatch.setattr(PartFolder, "exists", lambda self: True)
    assert _folder_beside(tmp_path / "parts.d", corrected=False) == tmp_path / "parts.d-evaluation"


def test_a_taxonomy_that_was_made_of_labels_is_told() -> None:
    assert _say_made_of_labels(TREE).startswith("The taxonomy is the tree of the labels")
    assert _say_made_of_labels(Taxonomy.from_paths(["x", "y"])).startswith("The labels are names without")
    file, other = Path("t.npz"), Taxonomy.from_paths(["a/x", "c/y"])

    def said(own: Taxonomy | None, judge: Taxonomy, named: str | None) -> list[str]:
        return [step.command for step in _suspects_steps(file, own, judge, named)]

    plain = ["labeltree suspects --embeddings t.npz"]
    assert said(TREE, other, "other.json") == said(None, TREE, None) == said(TREE, TREE, None) == plain
    assert said(None, TREE, "tree.json") == [f"{plain[0]} --taxonomy tree.json"]


def test_only_runs_on_the_same_samples_stand_beside_each_other() -> None:
    class Source:
        taxonomy, nodes, modalities, names = TREE, torch.tensor([X, Y]), ("image",), None

        def __init__(self, digests: list[str], **given: Any) -> None:
            self.digests = np.array(digests)
            vars(self).update(given)

        def sample_digests(self) -> Any:
            return self.digests

        def sample_names(self) -> Any:
            return self.names

    def table(split: list[str], ids: list[int]) -> EmbeddingTable:
        nodes = torch.tensor([X, Y])
        return EmbeddingTable(torch.eye(2), nodes, split=np.array(split), instances=torch.tensor(ids))

    def same(first: Any, second: Any, ours: Any = None, theirs: Any = None) -> bool:
        usual = table(["train", "test"], [1, 2])
        return _same_samples(first, second, ours or usual, theirs or usual)

    one, other = Source(["p", "q"]), Source(["p", "r"])
    assert same(one, one)
    assert not same(one, other)
    assert not same(one, one, theirs=table(["train", "test"], [1, 3]))
    assert not same(one, Source(["p", "q"], taxonomy=Taxonomy.from_paths(["a/x"])))
    vectors, images = Source(["v", "w"], modalities=("vector",), names=["n"]), Source(["p", "q"], names=["n"])
    assert same(images, vectors), "vectors of the same samples, by their names"
    assert not same(Source(["p", "q"], names=["m"]), vectors)
    assert not same(images, vectors, theirs=table(["test", "test"], [1, 2]))
    assert not same(
        images, Source(["v", "w"], modalities=("vector",), names=["n"], nodes=torch.tensor([X, X]))
    )
    assert not same(images, Source(["p", "r"], names=["n"])), "other images of the same names"


def test_settings_that_change_classifiers_are_not_the_usual_ones() -> None:
    usual: Any = SimpleNamespace(standardize=True, max_probe_samples=0, seed=0)
    from labeltree.evaluation import EvaluationSettings

    given = EvaluationSettings()
    for name in vars(usual):
        setattr(usual, name, getattr(given, name))
    assert _are_usual(usual)
    for name in ("standardize", "max_probe_samples", "seed"):
        changed = SimpleNamespace(**vars(usual) | {name: "another"})
        assert not _are_usual(changed)  # type: ignore[arg-type]


# Pages


def test_what_was_searched_is_said_with_the_own_group() -> None:
    def said(**search: str) -> str:
        return _searched(SimpleNamespace(search=search), "images")  # type: ignore[arg-type]

    assert said() == "all other images"
    assert said(searched="train") == "all training images"
    assert said(own_group="left out") == "all other images except those of its own group"


def test_nested_settings_are_listed_without_open_ones() -> None:
    content = {"a": {"b": 1, "c": None, "d": {"e": [1, "x"]}}, "f": {}, "g": [], "h": False, "i": 0, "j": ""}
    assert list(_flat(content)) == [("a.b", "1"), ("a.d.e", "1, x"), ("h", "False"), ("i", "0"), ("j", "")]


def test_a_map_names_the_finest_nodes_that_are_few_enough() -> None:
    deep = Taxonomy.from_paths([f"g{n % 4}/c{n}" for n in range(25)])
    x = np.concatenate([np.arange(25.0), [100.0]])
    nodes = torch.cat([deep.leaves, deep.leaves[:1]])
    assert set(_label_places(nodes, x, x, deep)) == set(deep.children(0)), "25 classes are too many"
    leaves = set(deep.leaves[1:].tolist())
    assert set(_label_places(deep.leaves[1:], x[1:25], x[1:25], deep)) == leaves
    tree = Taxonomy.from_paths(["x", "y"])
    places = _label_places(tree.leaves[[0, 0, 0, 1]], np.array([0.0, 1.0, 50.0, 7.0]), np.zeros(4), tree)
    assert list(places.values()) == [(1.0, 0.0), (7.0, 0.0)], "at the sample in the middle"


def test_of_many_branches_the_largest_have_hues() -> None:
    tree = Taxonomy.from_paths([f"b{n:02d}" for n in range(12)])
    counts = [1, 9, 8, 7, 6, 5, 4, 3, 2, 10, 11, 12]
    nodes = tree.leaves.repeat_interleave(torch.tensor(counts))
    colours = TreeColours(tree, nodes)
    assert [branch.name for branch in colours.branches] == [
        f"b{n:02d}" for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11)
    ]
    assert colours.others == 2
    few = TreeColours(tree, tree.leaves[[3, 5, 5]])
    assert ([branch.name for branch in few.branches], few.others) == (["b03", "b05"], 0)
    below = Taxonomy.from_paths(["all/a/x", "all/b"])
    assert main_branches(below) == [below.find("all/a"), below.find("all/b")]
    assert main_branches(Taxonomy.from_paths(["one/two"])) == [2]


def test_a_search_is_asked_all_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    index: Any = SimpleNamespace(taxonomy=TREE, schema="schema")

    def run(index: Any, queries: list[Any], **options: Any) -> list[Answer]:
        asked.update(options, queries=[(query.kind, query.value) for query in queries])
        return []

    module = "labeltree.report.search_index"
    monkeypatch.setattr(f"{module}.Index", SimpleNamespace(open=lambda place: index))
    monkeypatch.setattr(f"{module}.parse_where", lambda conditions, schema: (list(conditions), schema))
    monkeypatch.setattr(f"{module}.run_queries", run)
    options = SearchOptions(
        "here", texts=["t"], ids=["i"], nodes=["n"], k=7, within=["a"], not_within=["a/x"], where=["c=1"],
        diverse=2, label="b", exact=True,
    )  # fmt: skip
    found = search_index(options)
    assert asked == {
        "queries": [("text", "t"), ("id", "i"), ("node", "n")], "k": 7, "within": ["a"],
        "not_within": ["a/x"],
        "where": (["c=1"], "schema"), "diverse": 2, "label": "b", "exact": True, "taxonomy": None,
        "mapping": None,
    }  # fmt: skip
    assert found.taxonomy is TREE
    search_index(SearchOptions("here", texts=["t"]))
    assert (asked["within"], asked["not_within"], asked["exact"]) == (None, None, None)


def test_answers_of_the_own_classifier_are_carried_to_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []

    def carried(table: Any, change: Any, name: str, own_scores: Any) -> Any:
        told.append((table, change, name, own_scores))
        return table

    monkeypatch.setattr(other_taxonomy, "carry_over", carried)
    old, new = Taxonomy.from_paths(["a/x", "b"]), Taxonomy.from_paths(["a/x", "c"])
    step = OtherTaxonomy.between(old, new, None, "new.json")
    table = EmbeddingTable(torch.zeros(2, 3), torch.tensor([1, 2]))
    scores: Any = object()
    step.table(table, scores)
    assert told == [(table, step.change, "'new.json'", scores)]
