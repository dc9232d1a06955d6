"""The examples in docstrings, and parts that do not change the answers."""

import doctest
import importlib
import pkgutil

import pytest
import torch
from decision_cases import random_probabilities, random_tree

import labeltree.decisions
from labeltree.decisions import ClassNodes, Promise, TreeCost, class_nodes, fit_rule

MODULES = [module.name for module in pkgutil.iter_modules(labeltree.decisions.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"labeltree.decisions.{name}")).failed == 0


def test_answers_do_not_depend_on_how_many_samples_are_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = random_tree(50, 1)
    classes = ClassNodes(tree.leaves, tree)
    scores = random_probabilities(101, len(classes), 2, 3.0).log()
    labels = classes.nodes[scores.argmax(1)]

    def answered() -> list[torch.Tensor]:
        rule = fit_rule(scores, labels, classes)
        sure, cheap = rule.answer(scores, Promise(0.9)), rule.cheapest(scores, TreeCost("edges"))
        assert cheap.costs is not None
        return [sure.nodes, sure.probabilities, sure.cut, cheap.nodes, cheap.probabilities, cheap.costs]

    whole = answered()
    monkeypatch.setattr(class_nodes, "_AT_ONCE", 7 * tree.num_nodes)
    for one, other in zip(whole, answered(), strict=True):
        assert torch.equal(one, other)
