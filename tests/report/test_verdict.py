"""The verdict of an evaluation and of a comparison is the same on every surface, and so is what follows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from html_page import Page
from report_inputs import SMALL, random_table

from labeltree.api import evaluate as evaluate_file
from labeltree.evaluation import EvaluationResult, EvaluationSettings, compare, evaluate, tree_errors
from labeltree.evaluation.comparing.comparison import Comparison
from labeltree.evaluation.outcomes import Outcomes
from labeltree.report.comparison_words import comparison_verdict, short_comparison, short_rows
from labeltree.report.evaluation_case import EvaluationCase, evaluate_case
from labeltree.report.next_steps import NextStep, steps_text
from labeltree.report.pages.comparison_page import comparison_page
from labeltree.report.pages.report_page import render_report
from labeltree.report.verdict import evaluation_verdict
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy, TaxonomyDAG
from labeltree.taxonomy.naming import last_names

TREE = Taxonomy.from_paths(SMALL)
NONE = EvaluationSettings(resamples=0)


def answered(answers: dict[str, list[str]], tree: Taxonomy = TREE) -> EvaluationResult:
    """A result in which the answers for the samples of each class are these."""
    table = replace(random_table(tree, 4), features=None)
    result = evaluate(table, tree, name="mine", settings=NONE)
    pairs = [(tree.find(true), tree.find(said)) for true, several in answers.items() for said in several]
    true, said = (torch.tensor(nodes) for nodes in zip(*pairs, strict=True))
    errors = tree_errors(said, true, tree)
    top1 = 1 - errors.errors / errors.samples
    kind = {"probe": "top1", "prototypes": "prototype_top1"}[result.main.classifier.name]
    scores = {role: of | {kind: top1} if kind in of else of for role, of in result.main.scores.items()}
    main = replace(result.main, errors=errors, scores=scores)
    return replace(result, methods={"mine": main}, outcomes={})


def test_the_most_frequent_pair_counts_both_directions() -> None:
    said = evaluation_verdict(
        answered({"shirt": ["shirt"] * 20 + ["dress"] * 3, "dress": ["shirt"] * 4, "boot": ["sneaker"] * 3}),
        "images",
    )
    assert said[0].startswith("Of 30 test images, 66.7\u202f% get exactly the right class (give or take ")
    a, b = sorted(("shirt", "dress"), key=TREE.find)
    assert said[1] == (
        f"7 of 10 mistakes are {a} ↔ {b}; 100\u202f% of all mistakes stay in the right main branch."
    )


def test_the_margin_is_that_of_the_confidence_that_was_set() -> None:
    found = answered({"shirt": ["shirt"] * 20 + ["dress"] * 10})
    usual, wide = (
        evaluation_verdict(replace(found, settings=replace(found.settings, confidence=confidence)))[0]
        for confidence in (0.95, 0.99)
    )
    assert "give or take 16.0 points at 95" in usual
    assert "give or take 20.3 points at 99" in wide


def test_samples_of_few_groups_are_not_taken_for_independent() -> None:
    table = replace(random_table(TREE, 8), features=None)
    few = replace(table, groups=torch.arange(len(table)) % 4)
    settings = EvaluationSettings(resamples=50, leave_group_out="never")
    said = [
        evaluation_verdict(evaluate(each, TREE, name="mine", settings=settings))[0] for each in (table, few)
    ]
    assert "interval " in said[0]
    assert "exactly the right class (no interval: too few groups)" in said[1]


def test_long_names_are_shortened_in_the_middle_of_a_sentence() -> None:
    long = "a shirt of " + "very " * 40 + "fine cloth"
    tree = Taxonomy.from_paths([("worn", long), ("worn", "dress"), ("feet", "boot"), ("feet", "sneaker")])
    answers = {long: [long] * 20 + ["dress"] * 7, "boot": ["boot"] * 9}
    said = evaluation_verdict(answered(answers, tree))[1]
    assert "a shirt of very very very ver…very very very very fine cloth" in said
    alike = [f"{'x' * 90}{middle}{'y' * 90}" for middle in "ab"]
    assert last_names(*alike) == (alike[0], alike[1])  # they would look the same


def test_one_sample_and_one_mistake_of_a_kind_are_singular() -> None:
    said = evaluation_verdict(answered({"boot": ["boot"]}))
    assert said[0].startswith("Of 1 test sample, 100.0\u202f% gets exactly the right class (")
    assert " Only 1 sample: " in said[0]


def test_pairs_are_counted_whatever_the_list_of_them_keeps() -> None:
    """`--confusions` says how many pairs the report lists, and may be none."""
    table = replace(random_table(TREE, 40, noise=5.0), features=None)
    said = {
        evaluation_verdict(evaluate(table, TREE, settings=EvaluationSettings(resamples=0, confusions=most)))[
            -1
        ]
        for most in (0, 1, 50)
    }
    assert len(said) == 1
    assert " mistakes are " in said.pop()
    alone = replace(answered({"shirt": ["dress"] * 9}), outcomes={})
    errors = replace(alone.main.errors, confusions=[])
    unknown = replace(alone, methods={"mine": replace(alone.main, errors=errors)})
    assert evaluation_verdict(unknown)[1].startswith("9 of 9 mistakes confuse classes of ")


def test_a_pair_that_is_as_frequent_as_others_is_named_as_the_table_does() -> None:
    answers = {"shirt": ["dress"], "dress": ["shirt"], "sandal": ["boot"] * 2, "boot": ["sneaker"] * 2}
    result = answered(answers)
    first = result.main.errors.confusions[0]
    assert (first.true, first.predicted) == ("footwear/sandal", "footwear/closed/boot")
    assert evaluation_verdict(result)[1].startswith(
        "2 of 6 mistakes are sandal ↔ boot (2 other pairs are as frequent); "
    )
    said = evaluation_verdict(answered({"shirt": ["dress"], "dress": ["shirt"], "boot": ["sneaker"] * 3}))[1]
    assert said.startswith("3 of 5 mistakes are boot ↔ sneaker; ")
    said = evaluation_verdict(answered({"shirt": ["dress"] * 3, "boot": ["sneaker"] * 3}))[1]
    assert "shirt ↔ dress (1 other pair is as frequent); " in said


def test_a_report_that_lists_no_confusions(tmp_path: Path) -> None:
    table = replace(random_table(TREE, 8, noise=5.0), features=None)
    result = evaluate(table, TREE, settings=EvaluationSettings(resamples=0, confusions=0))
    html = render_report(result, table, TREE, title="Mine", projection="PCA")
    assert "Most frequent confusions" not in html
    assert "Most frequent confusions" in render_report(
        evaluate(table, TREE, settings=NONE), table, TREE, title="Mine", projection="PCA"
    )


def test_samples_of_coarse_labels_make_no_pair() -> None:
    """Whether the answer for one is right is not known, and it is not counted as a mistake."""
    table = replace(random_table(TREE, 40, noise=5.0), features=None)
    before = evaluate(table, TREE, settings=NONE)
    nodes = table.nodes.clone()
    coarse = TREE.find("footwear/closed")
    table = replace(
        table,
        embeddings=torch.cat([table.embeddings, table.embeddings[:200]]),
        nodes=torch.cat([nodes, torch.full((200,), coarse)]),
        split=None if table.split is None else np.concatenate([table.split, np.full(200, "test")]),
        instances=None,
    )
    after = evaluate(table, TREE, settings=NONE)
    assert after.main.errors.errors == before.main.errors.errors
    assert evaluation_verdict(after)[-1] == evaluation_verdict(before)[-1]


def test_a_flat_taxonomy_has_no_branch_to_stay_in() -> None:
    flat = Taxonomy.from_paths([("shirt",), ("dress",), ("boot",)])
    said = evaluation_verdict(answered({"shirt": ["dress"] * 7, "dress": ["dress"] * 20}, flat))
    assert said[1] == "7 of 7 mistakes are shirt ↔ dress."
    said = evaluation_verdict(answered({"shirt": ["dress"] * 6 + ["boot"] * 4}, flat))
    assert said[1] == "6 of 10 mistakes are shirt ↔ dress."


def test_a_pair_that_is_all_mistakes_says_where_they_stay_and_no_answer_is_no_class() -> None:
    assert evaluation_verdict(answered({"shirt": ["dress"] * 6}))[1] == "6 of 6 mistakes are shirt ↔ dress."
    said = evaluation_verdict(answered({"shirt": ["/"] * 6 + ["dress"]}))[1]
    assert said == "6 of 7 mistakes are in the wrong main branch."


def test_shares_of_mistakes_are_not_rounded_to_all_or_none() -> None:
    """What is not all is not 100 %."""
    near = {"shirt": ["dress"] * 300, "boot": ["shirt"]}
    assert "; more than 99\u202f% of all mistakes stay in" in evaluation_verdict(answered(near))[1]
    far = {"shirt": ["boot"] * 300, "boot": ["sneaker"]}
    assert "; less than 1\u202f% of all mistakes stay in" in evaluation_verdict(answered(far))[1]
    assert "; 0\u202f% of all" in evaluation_verdict(answered({"shirt": ["boot"] * 6 + ["sneaker"]}))[1]


def test_below_a_single_node_are_the_main_branches() -> None:
    """All classes lie below `things`: no mistake leaves it, and that says nothing."""
    under_one = Taxonomy.from_paths([("things", *path) for path in SMALL])
    far = evaluation_verdict(answered({"shirt": ["boot"] * 6 + ["sneaker"]}, under_one))
    assert "; 0\u202f% of all mistakes stay in the right main branch" in far[1]
    near = evaluation_verdict(answered({"shirt": ["dress"] * 6 + ["boot"] * 2}, under_one))
    assert "; 75\u202f% of all" in near[1]


def test_a_flat_taxonomy_has_no_branch_to_leave() -> None:
    names = [f"class {number}" for number in range(12)]
    flat = Taxonomy.from_paths([(name,) for name in names])
    every = {true: [said for said in names if said != true] for true in names}
    said = evaluation_verdict(answered(every, flat))
    assert said[1] == "It made 132 mistakes, and no two classes are confused often."


def test_mistakes_without_a_pair_have_a_branch() -> None:
    leaves = [TREE.path_name(int(node)) for node in TREE.leaves]
    every = {true: [said for said in leaves if said != true] for true in leaves}
    said = evaluation_verdict(answered(every))
    assert said[1] == "18 of 30 mistakes are in the wrong main branch."


def test_few_samples_and_few_mistakes_are_said() -> None:
    said = evaluation_verdict(answered({"boot": ["boot"] * 9 + ["sneaker"]}))
    assert "Only 10 samples: this is a rough figure." in said[0]
    assert said[1:] == ["It made 1 mistake, too few to show a pattern."]
    assert evaluation_verdict(answered({"boot": ["boot"] * 40}))[1:] == ["It made no mistake."]


@pytest.mark.slow
def test_the_report_says_what_the_terminal_says(tmp_path: Path) -> None:
    table = replace(random_table(TREE, 30), features=None)
    case = EvaluationCase(
        name="mine",
        table=table,
        taxonomy=TREE,
        settings=EvaluationSettings(resamples=50),
        title="Mine",
        references={"pretrained encoder": replace(table, embeddings=table.embeddings.flip(0))},
        steps=[NextStep("labeltree suspects <mine>", "labels that look wrong")],
        shown={"projection": "PCA"},
    )
    done = evaluate_case(lambda: case, RunFolder(tmp_path / "out"), None)
    assert len(done.verdict) == 3
    assert "Training added" in done.verdict[1]
    html = done.report.read_text("utf-8")
    text = Page(html).text
    assert " ".join(" ".join(done.verdict).split()) in text
    assert [step.command for step in done.steps] == [
        "labeltree suspects <mine>",
        f"labeltree compare {tmp_path / 'out'} OTHER",
    ]
    assert all(step.command in text for step in done.steps)
    assert text.index("get exactly the right class (95") < text.index("What next") < text.index("All numbers")
    assert done.short.splitlines()[2].startswith("top-1 accuracy")
    short, full = (
        {" ".join(row.split()) for row in text.splitlines()} for text in (done.short, done.headline)
    )
    assert short < full


@pytest.mark.slow
def test_suspects_are_offered_where_they_can_be_looked_for(tmp_path: Path) -> None:
    """Labels are judged in a tree, and on the taxonomy that they are of."""

    def offered(tree: TaxonomyDAG | Taxonomy, name: str) -> list[str]:
        tree.save(tmp_path / f"{name}.json")
        options = {"out": tmp_path / "out", "resamples": 0}
        done = evaluate_file(embeddings=tmp_path / "t.npz", taxonomy=tmp_path / f"{name}.json", **options)
        return [step.command.replace(str(tmp_path), "") for step in done.steps[:-1]]

    leaves = ["a/x", "a/y", "b/z"]
    tree = Taxonomy.from_paths(leaves)
    table = EmbeddingTable(torch.eye(3).repeat(20, 1), tree.encode(leaves).repeat(20))
    table.save(tmp_path / "t.npz")
    assert offered(tree, "tree") == ["labeltree suspects --embeddings /t.npz --taxonomy /tree.json"]
    dag = TaxonomyDAG(["root", "a", "x", "y", "b", "z"], [[], [0], [1, 4], [1], [0], [4]])
    assert offered(dag, "dag") == []
    tree.save(tmp_path / "t.taxonomy.json")
    other = Taxonomy.from_paths(["a/x", "a/y", "c/z"])
    assert offered(other, "other") == ["labeltree suspects --embeddings /t.npz"]


def test_long_commands_have_their_purpose_below() -> None:
    steps = [NextStep("labeltree a", "b"), NextStep("labeltree " + "x" * 60, "long")]
    assert steps_text(steps) == f"  labeltree a  # b\n  labeltree {'x' * 60}\n               # long"


def compared(noise: float, copies: int = 40, **options: object) -> Comparison:
    noises = {"plain": 1.3, "other": noise}
    tables = {name: random_table(TREE, copies, noise=each) for name, each in noises.items()}
    results = {
        name: evaluate(replace(table, features=None), TREE, name=name, settings=NONE)
        for name, table in tables.items()
    }
    outcomes = {name: result.outcomes[name] for name, result in results.items()}
    classifiers = {name: [result.main.classifier.name] for name, result in results.items()}
    fewer: dict[str, Any] = {"resamples": 200, "permutations": 5000, "min_samples": 10}
    return compare(outcomes, classifiers=classifiers, **(fewer | options))


def test_a_comparison_says_which_is_better_and_where() -> None:
    better = comparison_verdict(compared(0.01))
    assert better[0].startswith("other is better than plain in top-1 accuracy: 100.0\u202f% against ")
    assert better[1].startswith("other is significantly better than plain in ")
    assert better[2].startswith("By branch, top-1 accuracy differs significantly in ")
    same = comparison_verdict(compared(1.3))
    assert same[0].startswith("other and plain do not differ significantly in top-1 accuracy: ")
    assert same[2] == "In no branch of the tree does top-1 accuracy differ significantly."


def test_branches_are_told_of_the_metric_of_the_same_representation() -> None:
    """Searches in the features differ in other branches than those in the embeddings."""
    found = compared(0.01)
    others = [replace(each, role="features") for each in found.strata]
    assert comparison_verdict(replace(found, strata=[*others, *found.strata])) == comparison_verdict(found)
    assert not any("By branch" in said for said in comparison_verdict(replace(found, strata=others)))


def test_a_metric_that_is_named_is_first_that_of_the_answers() -> None:
    """A probe on the features is no answer of the runs, and is named where it stands alone."""
    few = {"resamples": 20, "permutations": 20}
    whole, named = compared(1.3, **few), compared(1.3, metrics=["top1"], **few)
    assert [(entry.role, entry.metric) for entry in named.metrics] == [
        ("answers", "answer_top1"),
        ("embeddings", "top1"),
    ]
    assert comparison_verdict(named)[0].partition(": ")[0] == comparison_verdict(whole)[0].partition(": ")[0]
    assert any("Each run answers with the classifier" in note for note in named.notes)
    shared = comparison_verdict(compared(1.3, metrics=["hierarchical_f1"], **few))
    assert shared[0].startswith("other and plain do not differ significantly in hierarchical F1: ")
    alone = compared(1.3, metrics=["embeddings.top1"], **few)
    assert [entry.metric for entry in alone.metrics] == ["top1"]
    said = comparison_verdict(alone)
    assert "significantly in top-1 accuracy of a linear probe on the embeddings: " in said[0]
    assert "does top-1 accuracy of a linear probe on the embeddings differ" in said[1]
    assert not any("answers with" in note for note in alone.notes), "no answers are compared"
    of_answers = compared(1.3, metrics=["answers.top1"], **few)
    assert [entry.metric for entry in of_answers.metrics] == ["answer_top1"]


def test_a_comparison_says_why_an_interval_without_zero_is_not_significant() -> None:
    once = compared(1.3)
    entry = once.metric("answer_top1")
    alone = replace(entry.differences["other"], value=-0.15, low=-0.27, high=-0.06, p=0.009, corrected=0.072)
    said = comparison_verdict(
        replace(once, metrics=[replace(entry, differences={"other": alone})], strata=[])
    )
    assert "do not differ significantly in top-1 accuracy: " in said[0]
    assert said[0].endswith(
        " Tested alone, the difference would be significant (p = 0.009); corrected for the number of tests, "
        "it is not (p = 0.072)."
    )


def outcomes(count: int, wrong: float, groups: list[int] | None = None) -> Outcomes:
    """Answers for cats and dogs of which the first ones are wrong; NaN = nothing was measured."""
    ids = np.arange(count)
    flat = Taxonomy.from_paths(["cat", "dog"])
    values = np.full(count, np.nan) if wrong != wrong else np.where(ids < wrong, 0.0, 1.0)
    nodes = flat.encode((["cat", "dog"] * count)[:count]).numpy()
    of_groups = None if groups is None else np.array(groups)
    return Outcomes(ids, nodes, flat, {("features", "top1"): values}, groups=of_groups)


def test_one_sample_and_one_group_are_singular() -> None:
    one = compare({"a": outcomes(1, 0), "b": outcomes(1, 1)}, resamples=9)
    assert comparison_verdict(one)[-1].startswith("Only 1 sample was compared")
    assert one.notes[0].startswith("1 sample that all runs have in common was compared; ")
    assert one.notes[0].endswith("tests draw from 1 sample.")
    same = [0] * 9
    group = compare({"a": outcomes(9, 2, same), "b": outcomes(9, 3, same)}, resamples=9)
    assert comparison_verdict(group)[-1].startswith("Only 1 group was compared")
    assert "draw from 1 group of samples" in group.notes[0]
    less = compare({"a": outcomes(9, 2), "b": outcomes(8, 3)}, resamples=9)
    assert "1 sample of 'a' is missing in another run and was left out: numbers differ" in less.notes[1]


def test_few_samples_are_those_of_the_metric() -> None:
    """Answers are given for test samples, and searches are among all."""
    few = replace(compared(1.3, 20), samples=480, groups=480)
    assert few.metric("answer_top1").units == 60
    assert comparison_verdict(few)[-1].startswith("Only 60 samples were compared: ")


def test_of_many_methods_the_best_is_named() -> None:
    wrong = {"a": 50, "b": 52, "c": 51, "d": 50, "e": 5, "f": 200}
    many = compare({name: outcomes(400, count) for name, count in wrong.items()}, resamples=99)
    said = comparison_verdict(many)
    assert [each[:13] for each in said[:3]] == ["e is better t", "f is worse th", "b and a do no"]
    assert said[3] == "The table has 2 further methods."
    one = compare({name: outcomes(400, wrong[name]) for name in "abcde"}, resamples=99)
    assert "The table has 1 further method." in comparison_verdict(one)
    enough = compare({name: outcomes(400, wrong[name]) for name in "abcd"}, resamples=99)
    assert not any("further" in each for each in comparison_verdict(enough)), "all are named"
    few = compare({name: outcomes(400, wrong[name]) for name in "abe"}, resamples=99)
    assert [each[0] for each in comparison_verdict(few)[:2]] == ["b", "e"]  # as they were given


def test_where_answers_are_the_same_the_first_other_metric_is_named() -> None:
    """Heads on the same frozen features may answer with these: a difference of 0 by construction."""

    def searched(right: int) -> Outcomes:
        found = outcomes(90, 9)
        recall = np.where(np.arange(90) < right, 1.0, 0.0)
        return replace(found, values=found.values | {("embeddings", "recall_at_1"): recall})

    said = comparison_verdict(compare({"a": searched(40), "b": searched(80)}, resamples=99))
    probe = "top-1 accuracy of a linear probe on the features"
    assert said[0] == f"a and b have the same {probe}, sample by sample: 90.0\u202f%."
    assert said[1].startswith("b is better than a in recall@1: 88.9")
    three = compare({"a": searched(40), "b": searched(80), "c": searched(8)}, resamples=99)
    assert comparison_verdict(three)[0].startswith(f"All methods have the same {probe}, sample by sample")
    equal = comparison_verdict(compare({"a": searched(40), "b": searched(40)}, resamples=99))
    assert equal[0].startswith(f"b and a do not differ significantly in {probe}"), "they differ in nothing"
    both = searched(40)
    values = both.values | {("features", "recall_at_1"): 1 - both.values["embeddings", "recall_at_1"]}
    others = {"a": replace(both, values=values), "b": replace(searched(80), values=values)}
    for names, of in (["recall_at_1"], "recall@1"), (["features.recall_at_1"], "recall@1 of the features"):
        said = comparison_verdict(compare(others, resamples=99, metrics=names))
        assert f" in {of}: " in said[0], "the row of the short table is that of the embeddings"


def test_what_was_not_measured_has_no_verdict() -> None:
    assert comparison_verdict(compare({"a": outcomes(40, 5), "b": outcomes(40, np.nan)}, resamples=9)) == []
    assert comparison_verdict(compare({"a": outcomes(40, 5)}, resamples=9)) == []


def first_panel(result: Comparison) -> str:
    """The text of the page down to its first section."""
    before, _, after = Page(comparison_page(result)).text.partition("The same metrics of every method")
    assert after
    return before


def test_what_it_names_stands_in_the_short_table_and_in_the_first_panel() -> None:
    """A branch that differs, with its interval, and not only in the tables further below."""
    result = compared(0.01)
    branches = [each for each in comparison_verdict(result) if each.startswith("By branch")]
    assert branches
    named = re.findall(r"[ ,](\S+) \(other better, (\S+) points, interval (\S+ to \S+)\)", branches[0])
    assert named
    table = [" ".join(row.split()) for row in short_comparison(result).splitlines()]
    panel = first_panel(result)
    for place, points, ends in named:
        assert next(row for row in table if row.startswith(f"top-1 accuracy in {place} ")).endswith(
            "] better"
        )
        assert f"In {place}: right class, " in panel
        assert f"better by {points[1:]} points ({ends})" in panel


def test_a_count_of_significant_metrics_names_one_that_the_table_then_shows() -> None:
    """Else a reader of 'better in 1 of 3 metrics' looks for it in vain."""

    def ranked(wrong: int, better: int) -> Outcomes:
        given = outcomes(90, wrong)
        lists = np.where(np.arange(90) < better, 1.0, 0.3)
        search = {("embeddings", "recall_at_1"): np.ones(90), ("features", "hp_at_10"): lists}
        return replace(given, values=given.values | search)

    result = compare({"a": ranked(9, 10), "b": ranked(11, 80)}, resamples=99)
    said = comparison_verdict(result)
    assert "do not differ significantly in top-1 accuracy" in said[0]
    assert said[1].startswith("b is significantly better than a in 1 of 3 metrics")
    assert said[2].startswith("b is better, for example, in HP@10 of the features (+")
    assert ", interval +" in said[2]
    rows = [row for row in short_rows(result) if row[0] == "HP@10 of the features"]
    assert [row[-1].endswith("] better") for row in rows] == [True]
    assert "HP@10" in first_panel(result)
    shown = comparison_verdict(compare({"a": outcomes(90, 9), "b": outcomes(90, 80)}, resamples=99))
    assert not any("for example" in each for each in shown), "the main metric is an example"


def test_its_short_table_has_the_main_numbers_and_the_notes() -> None:
    result = compared(0.01)
    lines = short_comparison(result).splitlines()
    assert lines[0].split() == ["plain", "other", "difference"]
    assert lines[1].startswith("top-1 accuracy")
    assert lines[1].endswith("] better")
    assert lines[-len(result.notes) :] == result.notes


def test_what_is_few_or_frequent_is_so_from_its_limit_on() -> None:
    first = [evaluation_verdict(answered({"boot": ["boot"] * count}))[0] for count in (19, 20)]
    assert ["rough figure" in each for each in first] == [True, False]
    some = [evaluation_verdict(answered({"boot": ["boot"] * 9 + ["sneaker"] * n}))[1] for n in (4, 5)]
    assert some[0] == "It made 4 mistakes, too few to show a pattern."
    assert some[1].startswith("5 of 5 mistakes are ")
    names = [TREE.path_name(int(node)) for node in TREE.leaves]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]][:10]
    every = {name: [b for a, b in (*pairs, *(each[::-1] for each in pairs)) if a == name] for name in names}
    assert evaluation_verdict(answered(every))[1].startswith("2 of 20 mistakes are "), "a tenth is frequent"
