"""Objectives of other installed packages are found, and a broken package takes nothing away."""

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = {
    "their_objectives.py": """
from torch import nn
from labeltree.training.registry import register_objective

@register_objective("theirs", summary="of another package", source="theirs")
class Theirs(nn.Module):
    def forward(self, embeddings, nodes, instances):
        return embeddings.square().sum()
""",
    "their_broken.py": "raise RuntimeError('half installed')",
    "theirs-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n",
    "theirs-1.0.dist-info/entry_points.txt": (
        "[labeltree.objectives]\nbroken = their_broken\nmine = their_objectives\n"
    ),
}


def test_entry_points(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from labeltree.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "train", "--list-objectives"], capture_output=True, text=True, check=True
    )
    assert re.search(r"^theirs +of another package \(theirs\)$", result.stdout, re.MULTILINE)
    assert "hwc" in result.stdout
    assert "the objectives of 'their_broken' cannot be loaded: half installed" in result.stderr
