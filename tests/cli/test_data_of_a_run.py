"""What ``labeltree train`` says of the data before it begins, and keeps in the run."""

import json
from pathlib import Path

import pytest

from labeltree.cli.main import main
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.training.read_recipes import read_recipe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]

SETTINGS = ["--encoder", "small-text", "--objective", "supcon", "--epochs", "1", "--batch_size", "16"]


def train(table: Path, out: Path, *settings: str) -> int:
    words = ["train", "--data", str(table), "--out", str(out), *SETTINGS, "--accelerator", "cpu", *settings]
    return main(words)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Forty products, three texts of each, some without a known category."""
    rows = ["text,category,department,product,seller"]
    for n in range(120):
        product, category = n // 3, "n/a" if n // 3 >= 32 else f"c{n // 3 % 4}"
        rows.append(f"thing {product} number {n},{category},d{product % 2},p{product},s{n % 7}")
    (tmp_path / "shop.csv").write_text("\n".join(rows), "utf-8")
    return tmp_path / "shop.csv"


def test_what_is_said_and_kept(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    columns = [
        "--table.group_column",
        "product",
        "--table.label_columns",
        '["department", "category", "product"]',
    ]
    assert train(shop, run, *columns) == 0
    printed = capsys.readouterr().out
    before, _, after = printed.partition("trained supcon")
    assert after
    assert "columns: texts = text; groups = product; labels = department > category > product" in before
    assert "all 8 classes of the test split (24 samples) have no training sample" in before
    assert "accuracy at depth 1, 2 and retrieval can" in before
    assert "'d0/n/a' (12 samples), 'd1/n/a' (12 samples); if this means that the label is missing" in before
    kept = json.loads(RunFolder(run).data.read_text("utf-8"))
    assert kept["columns"]["labels"] == ["department", "category", "product"]
    assert kept["splits"]["test"]["unseen"] == kept["splits"]["test"]["classes"] == 8
    assert kept["splits"]["test"]["groups"] == 8
    assert any("cannot be measured" in warning for warning in kept["warnings"])
    assert train(shop, run, *columns, "--quiet") == 0  # the finished run: nothing is said again
    assert "warning" not in capsys.readouterr().err


def test_missing_labels(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(shop, run, "--missing_labels", '["N/A"]', "--quiet") == 0
    said = capsys.readouterr()
    assert "columns" not in said.out
    assert "warning: only 24 test samples" in said.err
    assert "\nnote: " in f"\n{said.err}", "what was decided about the data is no progress"
    assert "n/a" not in said.err
    tree = RunFolder(run).load_taxonomy()
    assert "n/a" not in tree.names
    assert json.loads(RunFolder(run).data.read_text("utf-8"))["missing_labels"] == {"N/A": 24}
    assert read_recipe(RunFolder(run).recipe).missing_labels == ["N/A"]
    # Another table of the run's columns has the labels of all depths, and the same missing ones.
    other = tmp_path / "other.csv"
    other.write_text("text,product,category,department\nnew,p0,c0,d0\nold,p39,n/a,d1\n", "utf-8")
    assert main(["embed", str(run), "--data", str(other), "--out", str(tmp_path / "other.npz")]) == 0
    nodes = EmbeddingTable.load(tmp_path / "other.npz").nodes
    assert tree.decode(nodes) == ["d0/c0/p0", "d1"]
    assert train(shop, tmp_path / "wrong", "--missing_labels", "unknwon") == 2
    assert "is called 'unknwon'; leave missing_labels out" in capsys.readouterr().err
    assert not (tmp_path / "wrong" / "recipe.yaml").exists()


def test_too_few_groups_to_split(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(shop, tmp_path / "run", "--table.group_column", "department") == 2
    said = capsys.readouterr().err
    assert (
        "120 samples in 2 group(s) cannot be split, since groups are kept whole; 3 groups are the least"
        in said
    )
