"""Explanations name the nearest training samples, as a slow search finds them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.decisions.evidence_for_answers import Neighbour, Step
from labeltree.errors import RunError
from labeltree.inference.explain import explain_text
from labeltree.inference.predict import Request, answer_with
from labeltree.options.answer_options import AnswerOptions
from labeltree.runs import EmbeddingTable, RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run and its photos."""
    home = tmp_path_factory.mktemp("home")
    photos = make_image_folder(home / "photos")
    settings = {"epochs": 1, "batch_size": 16, "image_size": 28, "encoder": "small-conv", "val": 0.3}
    lt.train(photos, "hwc", out=home / "run", progress_bar=False, accelerator="cpu", **settings)
    return home


def test_the_nearest_samples_are_those_of_a_slow_search(home: Path) -> None:
    files = sorted((home / "photos").rglob("*.png"))[::7]
    model = lt.load(home / "run")
    found = model.predict(files, explained=True)
    assert found.why is not None
    embeddings = model.embed(files).embeddings.double()
    known = EmbeddingTable.load(RunFolder(home / "run").embeddings(), model.taxonomy)
    train = known.rows(known.nodes.new_tensor(np.flatnonzero(known.split == "train")))
    tree, count = model.taxonomy, 0
    for row, steps in enumerate(found.why):
        answer = int(found.answers.nodes[row])
        distances = train.space.pairwise_distance(embeddings[row : row + 1], train.embeddings.double())[0]
        parent = 0
        for step in steps:
            assert int(tree.parent[step.node]) == parent
            assert step.taken == (tree.lca(step.node, answer) == step.node)
            inside = [i for i, y in enumerate(train.nodes.tolist()) if step.node in tree.ancestors[y]]
            outside = [
                i
                for i, y in enumerate(train.nodes.tolist())
                if parent in tree.ancestors[y] and i not in inside
            ]
            for near, rows in ((step.speaks_for, inside), (step.speaks_against, outside)):
                assert (near is None) == (not rows)
                if near is not None:
                    best = min(rows, key=lambda i: float(distances[i]))
                    assert near.distance == pytest.approx(float(distances[best]), abs=1e-6)
                    assert Path(str(near.name)).is_file()
                    count += 1
            parent = step.node
        assert [step.taken for step in steps].count(False) <= 1
        assert steps[-1].node == answer or not steps[-1].taken
    assert count > 20


def test_the_command_explains(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(min((home / "photos").rglob("*.png")))
    run = str(home / "run")
    assert main(["predict", run, file, "--explain"]) == 0
    said = capsys.readouterr().out
    assert "    animal" in said or "    plant" in said
    assert "for     " in said
    assert "against " in said
    assert said.endswith("\nat: the distance between embeddings, √(2 − 2 cosine)\n")
    assert main(["predict", run, file, "--explain", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["answers"]
    assert {"step", "probability", "taken", "speaks_for", "speaks_against"} == set(row["why"][0])
    assert main(["predict", run, file, "--explain", "--format", "csv"]) == 2
    assert "--explain has no place in a CSV" in capsys.readouterr().err
    # with the reference samples alone there are labels and distances, and no names
    away = tmp_path / "away"
    shutil.copytree(home / "run", away)
    shutil.rmtree(away / "embeddings")
    steps = lt.load(away).predict(file, explained=True).why[0]
    assert {near.name for step in steps for near in (step.speaks_for, step.speaks_against) if near} == {None}
    RunFolder(away).reference.unlink()
    with pytest.raises(RunError, match="holds no training sample to compare with"):
        lt.load(away).predict(file, explained=True)


def test_steps_lead_to_an_answer_that_was_chosen_by_its_cost(home: Path, tmp_path: Path) -> None:
    """Where every answer but one is dear, the answers lie off the likely paths, and so do their steps."""
    decider = lt.load(home / "run").decider
    tree, classes = decider.run.taxonomy, decider.rule.classes.nodes
    names = [tree.path_name(node) for node in classes.tolist()]
    rows = [",".join([name, *("0.1" if name == "plant/fern" else "1" for _ in names)]) for name in names]
    costs = tmp_path / "costs.csv"
    costs.write_text("\n".join([",".join(["answer", *names]), *rows]))
    files = tuple(str(file) for file in sorted((home / "photos" / "animal").rglob("*.png"))[::6])
    found = answer_with(decider, Request(images=files), AnswerOptions(cost=str(costs), explained=True))
    assert found.why is not None
    assert set(found.answers.nodes.tolist()) == {tree.find("plant/fern")}
    for steps in found.why:
        assert [tree.path_name(step.node) for step in steps] == ["plant", "plant/fern"]
        assert all(step.taken for step in steps)


def test_steps_are_read_line_by_line() -> None:
    tree = lt.Taxonomy.from_paths(["a/b", "c"])
    near, other = Neighbour(2, 0.25, "b.png", 0), Neighbour(3, 0.5, None, 1)
    steps = [Step(1, 0.9, True, near, other), Step(2, 0.4, False, near, None)]
    assert explain_text(steps, tree).splitlines() == [
        "    a  p 0.900",
        "        for     b.png, a/b, at 0.250",
        "        against c, at 0.500",
        "    a/b  p 0.400  (not taken)",
        "        for     b.png, a/b, at 0.250",
        "        against no training sample",
    ]
