"""What the terminal says in short of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from math import nan

import torch
from report_inputs import SMALL, random_table

from labeltree.evaluation import EvaluationSettings, MethodResult, evaluate
from labeltree.report.tables.main_numbers import main_numbers_table, short_table
from labeltree.taxonomy import Taxonomy


def test_the_classifier_that_answers_is_named_where_it_is_not_the_run_s_own() -> None:
    tree = Taxonomy.from_paths(SMALL)
    found = evaluate(random_table(tree, 10), tree, settings=EvaluationSettings(resamples=0))

    def said(kind: str, accuracies: dict[str, float], asked: str = "auto") -> str:
        main = found.main
        chosen = replace(
            main.classifier, name=kind, accuracies=accuracies, asked=asked, hierarchical_f1={}, samples=1234
        )
        return short_table(replace(found, methods={found.name: replace(main, classifier=chosen)}))

    both = {"own": 0.8, "lda": 0.9}
    assert "Answers come from a linear discriminant analysis on the features; with --c" in said("lda", both)
    assert "with --classifier own, from the run's own classifier." in said("lda", both)
    assert "Answers come from" not in said("lda", both, asked="lda")
    assert "Answers come from" not in said("own", {"own": 0.9, "lda": 0.8})
    assert "Answers come from" not in said("lda", {"lda": 0.9})  # the run has no classifier of its own
    level = said("lda", {"own": 0.9, "lda": 0.9, "probe": 0.8})
    assert "features; 2 classifiers are equally good on 1,234 validation samples, too few to tell" in level
    assert "equally good" not in said("lda", {"own": 0.9, "lda": 0.9}, asked="lda")


def test_every_number_of_the_full_table_says_what_it_is_read_from() -> None:
    tree = Taxonomy.from_paths(SMALL)
    found = evaluate(random_table(tree, 10), tree, settings=EvaluationSettings(resamples=0))
    cells = [re.split(r"  +", line) for line in main_numbers_table(found).splitlines()]
    numbers = {row[0]: row[1] for row in cells if len(row) > 1}
    titles = list(numbers)
    assert [title for title in titles if "recall" in title] == ["recall@1", "recall@1, features"]
    assert "top-1 accuracy, linear probe" in titles
    assert "top-1 accuracy, prototypes" in titles
    for title, role in (("", "embeddings"), (", features", "features")):
        assert numbers[f"MAP@R{title}"] == f"{found.main.score('map_at_r', role):.4f}"


def test_groups_of_one_sample_each_are_not_shown() -> None:
    tree = Taxonomy.from_paths(SMALL)
    table = random_table(tree, 10)
    alone, pairs = torch.arange(len(table)), torch.arange(len(table)) // 2
    shown = [
        short_table(evaluate(replace(table, groups=groups), tree, settings=EvaluationSettings(resamples=20)))
        for groups in (alone, pairs)
    ]
    assert "groups" not in shown[0].split("in brackets")[0]
    assert "over these samples" in shown[0]
    assert "groups" in shown[1]


def test_a_number_that_one_method_has_is_shown() -> None:
    tree = Taxonomy.from_paths(SMALL)
    table = random_table(tree, 10)
    found = evaluate(table, tree, baselines={"other": table}, settings=EvaluationSettings(resamples=0))
    name, metrics = found.name, ("recall_at_1", "map_at_r")

    def without(method: MethodResult, gone: tuple[str, ...]) -> MethodResult:
        scores = method.scores["embeddings"] | dict.fromkeys(gone, nan)
        return replace(method, scores=method.scores | {"embeddings": scores})

    one, other = found.main, found.methods["other"]
    methods = {name: without(one, metrics), "other": without(other, metrics[1:])}
    said = short_table(replace(found, methods=methods))
    assert re.search(rf"^recall@1 +– +{other.score('recall_at_1', 'embeddings'):.4f}", said, re.MULTILINE)
    assert "MAP@R" not in said
