"""CONTRIBUTING.md is true: its files and functions exist, its layers are checked, its examples run."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from labeltree.data import get_dataset
from labeltree.data import named_data as datasets
from labeltree.evaluation import evaluate
from labeltree.evaluation import protocol_registry as protocols
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.training import registry as objectives

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "labeltree"
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ADDITIONS = ("loss", "protocol", "reader", "metric")


def names_in(file: Path) -> set[str]:
    """Functions, classes and ``Class.method`` of a file, also of bases in the same file."""
    found: set[str] = set()
    methods: dict[str, set[str]] = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            methods[node.name] = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            for base in node.bases:
                methods[node.name] |= methods.get(getattr(base, "id", ""), set())
            found |= {node.name, *(f"{node.name}.{method}" for method in methods[node.name])}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_every_file_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/[\w/]*(?:\.py)?)`", PAGE))
    assert len(named) > 60
    for name in named:
        if name.startswith("build/"):  # `make docs` makes it
            continue
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_every_function_is_in_its_file() -> None:
    pairs = re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", PAGE)
    assert len(pairs) > 50
    for file, listed in pairs:
        known = names_in(PACKAGE / file)
        for name in re.findall(r"`([\w.]+)`", listed):
            assert name in known, f"{file}: {name}"


def test_layers_are_those_that_are_checked() -> None:
    drawn = re.search(r"```text\n(cli .*?)```", PAGE, re.DOTALL)
    assert drawn is not None
    layers = [re.split(r"\s{2,}", line)[0].split(" | ") for line in drawn[1].splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [layer.replace("labeltree.", "").split(" | ") for layer in contracts[0]["layers"]]
    assert [sorted(layer) for layer in layers] == [sorted(layer) for layer in checked[: len(layers)]]
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} | {"sklearn"}
    assert {room for layer in layers for room in layer} == rooms
    assert all(f"| `{room}/`" in PAGE for room in rooms - {"api", "cli", "sklearn"})


def test_lines_of_additions_are_counted() -> None:
    rows = dict(re.findall(r"^\| a (\w+) \| (\d+) \|", PAGE, re.MULTILINE))
    counts = [sum(bool(line.strip()) for line in example.splitlines()) for example in EXAMPLES]
    assert rows == {kind: str(count) for kind, count in zip(ADDITIONS, counts, strict=True)}


def test_examples_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    datasets.list_datasets(), protocols.list_protocols(), objectives.list_objectives()
    for registry in (datasets, protocols, objectives):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    given: dict[str, Any] = {"__name__": "example"}
    exec(compile("\n".join(EXAMPLES), "CONTRIBUTING.md", "exec"), given)
    taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "fir")])
    nodes = taxonomy.leaves.repeat(8)
    vectors = torch.eye(4).repeat(8, 1) + 0.1 * torch.randn(32, 4, generator=torch.Generator().manual_seed(0))

    loss = given["SiblingLoss"](taxonomy)
    vectors.requires_grad_()
    value = loss(vectors, nodes)
    value.backward()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()
    assert value.item() != given["SiblingLoss"](taxonomy, weight=0.0)(vectors, nodes).item()

    table = EmbeddingTable(vectors.detach(), nodes)
    found = evaluate(table, taxonomy, protocols=["first-branch"]).main.protocols["first-branch"]
    assert found.scores["embeddings.first_branch"] == 1.0
    assert set(found.by_node["embeddings.first_branch"]) >= {"animal", "plant"}

    for number, label in enumerate(("tree/oak", "tree/fir", "herb/mint")):
        Image.new("RGB", (8, 8), (40 * number, 90, 10)).save(tmp_path / f"{number}.png")
        with (tmp_path / "labels.txt").open("a") as file:
            file.write(f"{number}.png {label}\n")
    source = get_dataset("garden").opener(path=tmp_path)
    assert source.taxonomy.decode(source.nodes) == ["tree/oak", "tree/fir", "herb/mint"]

    dog, cat, oak = taxonomy.encode(["dog", "cat", "oak"]).tolist()
    metric = given["MistakeDepth"]({"taxonomy": taxonomy})
    metric.update(torch.tensor([dog, cat]), torch.tensor([dog, dog]))
    metric.update(torch.tensor([oak]), torch.tensor([dog]))
    assert metric.compute() == 0.5  # one mistake within the animals, one at the root
