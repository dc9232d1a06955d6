"""What is not imported before it is needed: libraries that take seconds and hundreds of megabytes."""

import json
import subprocess
import sys

import pytest

TRAINING = {"lightning", "torchmetrics", "torchvision", "timm", "pandas", "sklearn"}
ENCODERS = {"timm", "torchvision", "transformers", "sentence_transformers"}
# What one process does, in this order, and what it has not imported then.
STEPS = {
    "the package": (
        "import labeltree; assert {{'compare', 'evaluate', 'load', 'train'}} <= set(dir(labeltree))",
        {"torch", *TRAINING},
    ),
    "help": ("import labeltree.cli.main as m; m.usage()", {"torch", *TRAINING}),
    "a study with mistakes": ("assert m.main(['study', {study!r}]) == 2", {"torch", *TRAINING}),
    "parts of the package": (
        "[getattr(labeltree, name) for name in ('Taxonomy', 'losses', 'metrics', 'geometry', 'pairs',"
        " 'sampling', 'data', 'models', 'runs')]",
        TRAINING,
    ),
    "small encoders": (
        "from labeltree.models import build_encoder as b; b('small-conv'), b('small-text')",
        ENCODERS,
    ),
    "what a run was trained on": (
        "import labeltree.training.record, labeltree.training.recipe_data",
        {"lightning", "torchmetrics", "torchvision"},
    ),
    "functions of metrics": (
        "import labeltree.metrics as metrics; metrics.functional.map_at_r, metrics.LinearProbe",
        {"torchmetrics"},
    ),
    "classes of metrics": ("metrics.HierarchicalF1", {"lightning"}),
    "all of the package": ("assert callable(labeltree.train)", set[str]()),
}
PROGRAM = """
import json, sys
for code in json.loads(sys.argv[1]):
    exec(code)
    print("@", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    study = tmp_path_factory.mktemp("study") / "study.yaml"
    study.write_text("title: Nothing else", "utf-8")
    codes = json.dumps([code.format(study=str(study)) for code, _ in STEPS.values()])
    return subprocess.run([sys.executable, "-c", PROGRAM, codes], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("step", STEPS)
def test_what_is_not_needed_is_not_imported(step: str, ended: subprocess.CompletedProcess[str]) -> None:
    imported = [line[2:].split() for line in ended.stdout.splitlines() if line.startswith("@ ")]
    assert len(imported) == len(STEPS)
    assert not STEPS[step][1] & set(imported[list(STEPS).index(step)])


def test_they_are_imported_when_they_are_needed(ended: subprocess.CompletedProcess[str]) -> None:
    last = [line[2:].split() for line in ended.stdout.splitlines() if line.startswith("@ ")][-2:]
    assert "torchmetrics" in last[0]
    assert "it has no 'shared', which must be settings by name; and no 'methods', which" in ended.stderr
