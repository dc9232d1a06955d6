"""What other installed packages add is found by every command, and a broken package takes nothing away."""

import json
import re
from pathlib import Path

import pytest

from forked import run_forked

pytestmark = pytest.mark.slow

PACKAGE = {
    "their_objectives.py": """
from torch import nn
from labeltree.training.registry import register_objective

@register_objective("theirs", summary="of another package", source="theirs")
class Theirs(nn.Module):
    def forward(self, embeddings, nodes, instances):
        return embeddings.square().sum()
""",
    "their_readers.py": """
import numpy as np
import torch
from labeltree.data import ArrayStore, Source, register_dataset
from labeltree.taxonomy import Taxonomy

@register_dataset("fruit", summary="photographs of fruit", licence="CC0")
def open_fruit():
    tree = Taxonomy.from_paths([("sweet", "apple"), ("sweet", "pear"), ("sour", "lemon"), ("sour", "lime")])
    nodes = tree.leaves.repeat(10)
    images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    rows = torch.arange(40)
    return Source("fruit", tree, nodes, rows, ArrayStore(images), rows)

@register_dataset("rotten", summary="a reader that fails", licence="CC0")
def open_rotten():
    return {}["no key"]
""",
    "their_protocols.py": """
from labeltree.evaluation import ProtocolResult, register

@register("norms", summary="mean length", source="theirs")
def norms(inputs, options):
    vectors = inputs.reading("embeddings").vectors[inputs.samples.test]
    return ProtocolResult("Lengths", scores={"length": float(vectors.norm(dim=1).mean())})

@register("fails", summary="a protocol that fails", source="theirs")
def fails(inputs, options):
    raise KeyError("no column")
""",
    "their_encoders.py": """
from labeltree.models import register_encoder
from labeltree.models.small_image_encoders import small_conv

@register_encoder("theirs", summary="of another package")
def theirs(channels, image_size):
    return small_conv(channels, image_size)
""",
    "their_command.py": """
SUMMARY = "count to a number"

def run(arguments):
    print(*range(1, int(arguments[0]) + 1))
""",
    "their_store.py": """
class Store:
    @classmethod
    def exists(cls, address):
        print("asked for", address.name, "of", address.target)
        return True
""",
    "their_broken.py": "raise RuntimeError('half installed')",
    "theirs-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n",
    "theirs-1.0.dist-info/entry_points.txt": "".join(
        f"[labeltree.{kind}]\nbroken = their_broken\nmine = {module}\n"
        for kind, module in {
            "objectives": "their_objectives",
            "datasets": "their_readers",
            "protocols": "their_protocols",
            "encoders": "their_encoders",
            "commands": "their_command",
        }.items()
    )
    .replace("[labeltree.commands]\nbroken", "[labeltree.commands]\ntrain = their_command\nbroken")
    .replace("mine = their_command", "count = their_command")
    + "[labeltree.stores]\ntheirs = their_store:Store\n",
}

# Each command's exit code, in one process: importing everything for each of them would take most of the time.
# What has registered the parts of labeltree itself is imported anew, as in a process of its own.
COMMANDS = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "labeltree"]:
    del sys.modules[name]
sys.path.insert(0, {folder!r})
from labeltree.cli.main import main

for words in {commands!r}:
    print("$", *words, flush=True)
    print("=", main(words), flush=True)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package as pip installs one."""
    folder = tmp_path / "installed"
    for name, text in PACKAGE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_entry_points_reach_the_command_line(installed: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    (tmp_path / "study.yaml").write_text(
        json.dumps(
            {
                "title": "Fruit",
                "shared": {"data": "fruit", "encoder": "theirs", "epochs": 1, "batch_size": 8},
                "evaluation": {"protocols": ["norms"]},
                "seeds": [0],
                "trial_seed": 0,
                "select": "val_ahp",
                "methods": {"Theirs": {"settings": {"objective": "theirs"}}},
            }
        ),
        "utf-8",
    )
    commands = [
        ["train", "--list-objectives"],
        ["train", "--list-encoders"],
        ["data", "list"],
        ["taxonomy", "show", "fruit"],
        ["train", "--data", "fruit", "--objective", "theirs", "--encoder", "theirs", "--epochs", "1",
         "--batch_size", "8", "--accelerator", "cpu", "--out", run, "--quiet"],
        ["evaluate", "--list-protocols"],
        ["evaluate", run, "--protocols", "norms", "--quiet"],
        ["evaluate", run, "--protocols", "fails", "--out", str(tmp_path / "other"), "--quiet"],
        ["study", str(tmp_path / "study.yaml"), "--dry-run"],
        ["train", "--data", "rotten", "--out", str(tmp_path / "rotten"), "--quiet"],
        ["count", "3"],
        ["--help"],
        ["index", run, "--out", "theirs://ann:secret@host/place#birds"],
        ["cuont"],
    ]  # fmt: skip
    code = COMMANDS.format(folder=str(installed), commands=commands)
    result = run_forked(code)
    assert result.returncode == 0, result.stderr
    said = dict(
        zip(
            ["$ " + " ".join(words) for words in commands],
            re.split(r"^\$ .*\n", result.stdout, flags=re.MULTILINE)[1:],
            strict=True,
        )
    )
    codes = [int(re.search(r"^= (\d+)$", text, re.MULTILINE)[1]) for text in said.values()]  # type: ignore[index]
    assert codes == [0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 2], result.stderr
    objectives, encoders, data, tree, _, protocols, *_, counted, usage, index, _ = said.values()
    assert counted.startswith("1 2 3\n")
    assert re.search(r"^  count +count to a number$", usage, re.MULTILINE)
    assert re.search(r"^  train +train an encoder", usage, re.MULTILINE), "nobody takes its name"
    assert "'train' of the commands in 'their_command' (package theirs) is not used" in result.stderr
    assert "asked for birds of theirs://ann:secret@host/place" in index
    assert "there is an index at 'theirs://ann@host/place#birds' already" in result.stderr
    assert "unknown command 'cuont'; did you mean 'count'?" in result.stderr
    assert re.search(r"^theirs +of another package \(theirs\)$", objectives, re.MULTILINE)
    assert "hwc" in objectives
    assert "theirs" in encoders.split()
    assert re.search(r"^ +fruit +photographs of fruit \[CC0\]$", data, re.MULTILINE)
    assert "fashion-mnist" in data
    assert "lemon" in tree
    assert "norms: mean length" in protocols
    assert "knn:" in protocols
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    assert metrics["methods"]["theirs"]["protocols"]["norms"]["scores"]["length"] > 0
    for kind in ("objectives", "datasets", "protocols", "encoders", "commands"):
        warning = f"the {kind} of 'their_broken' (package theirs) cannot be loaded: half installed"
        assert result.stderr.count(warning) == 1
    assert "protocol 'fails': their_protocols failed: KeyError: 'no column'" in result.stderr
    assert "reader of data set 'rotten' (their_readers) failed: KeyError: 'no key'" in result.stderr
