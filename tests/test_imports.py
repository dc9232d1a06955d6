"""What is not imported before it is needed: libraries that take seconds and hundreds of megabytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = {"lightning", "torchmetrics", "torchvision", "timm", "pandas", "sklearn"}
ENCODERS = {"timm", "torchvision", "transformers", "sentence_transformers"}
TAXONOMIES = {
    "old.yaml": "animal:\n  dog:\n  cat:\n  fish: [trout, carp]\nplant: [oak]\n",
    "new.yaml": "animal:\n  mammal: [dog, cat]\n  fish: [trout, carp, pike]\nplant: [oak]\n",
    "edges.csv": "child,parent\nanimal,all\ndog,animal\ncat,animal\nplant,all\n",
    "paths.csv": "family,genus,species\na,b,c\na,b,d\ne,f,g\n",
    "dag.csv": "child,parent\nroot,\npet,root\nmammal,root\ndog,pet\ndog,mammal\n",
    "paths.txt": "animal/dog\nanimal/cat\nplant/oak\n",
    "tree.nwk": "((dog,cat)animal,(oak)plant)root;\n",
    "cells.nt": "<a:1> <http://www.w3.org/2004/02/skos/core#broader> <a:2> .\n",
    "nodes.dmp": "1\t|\t1\t|\n2\t|\t1\t|\n",
    "names.dmp": "1\t|\troot\t|\t\t|\tscientific name\t|\n2\t|\tcat\t|\t\t|\tscientific name\t|\n",
    "cells.obo": "[Term]\nid: C:1\nname: cell\n\n[Term]\nid: C:2\nname: neuron\nis_a: C:1\n",
}
COMMANDS = """
taxonomy show old.yaml --depth 1
taxonomy check old.yaml
taxonomy show paths.csv
taxonomy show edges.csv
taxonomy check paths.txt
taxonomy show tree.nwk
taxonomy show cells.obo
taxonomy show nodes.dmp
taxonomy show .
taxonomy check dag.csv
taxonomy convert old.yaml old.json
taxonomy convert paths.csv paths.nwk
taxonomy diff old.json new.yaml
taxonomy map old.yaml new.yaml --out changes.yaml
taxonomy apply changes.yaml old.yaml --out made.json
taxonomy review new.yaml
"""
# What one process does, in this order, and what it has not imported then.
STEPS = {
    "the package": (
        "import labeltree; assert {{'compare', 'evaluate', 'load', 'train'}} <= set(dir(labeltree))",
        {"torch", *TRAINING},
    ),
    "a taxonomy in a notebook": (
        "assert '<details' in labeltree.Taxonomy.from_paths(['a/b', 'a/c'])._repr_html_()",
        {"torch", *TRAINING},
    ),
    "help": ("import labeltree.cli.main as m; m.usage()", {"torch", *TRAINING}),
    "help of train": ("assert m.main(['train', '--help']) == 0", {"torch", *TRAINING}),
    "a study with mistakes": ("assert m.main(['study', 'study.yaml']) == 2", {"torch", *TRAINING}),
    "taxonomies": (
        "for line in {commands!r}.splitlines(): assert m.main(line.split()) == 0",
        {"torch", *TRAINING},
    ),
    "the catalogue of metrics": ("assert labeltree.metrics.list_metrics()", {"torch", *TRAINING}),
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
        "import labeltree.training.records.record, labeltree.training.recipe_data",
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
    folder = tmp_path_factory.mktemp("files")
    for name, text in {**TAXONOMIES, "study.yaml": "title: Nothing else"}.items():
        (folder / name).write_text(text, "utf-8")
    codes = json.dumps([code.format(commands=COMMANDS.strip()) for code, _ in STEPS.values()])
    command = [sys.executable, "-c", PROGRAM, codes]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("step", STEPS)
def test_what_is_not_needed_is_not_imported(step: str, ended: subprocess.CompletedProcess[str]) -> None:
    imported = [line[2:].split() for line in ended.stdout.splitlines() if line.startswith("@ ")]
    assert len(imported) == len(STEPS)
    assert not STEPS[step][1] & set(imported[list(STEPS).index(step)])


def test_they_are_imported_when_they_are_needed(ended: subprocess.CompletedProcess[str]) -> None:
    last = [line[2:].split() for line in ended.stdout.splitlines() if line.startswith("@ ")][-2:]
    assert "torchmetrics" in last[0]
    assert "it has no 'shared', which must be settings by name; and no 'methods', which" in ended.stderr


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """The names of a package that are looked up when they are used, see `labeltree.lazy`."""
    import labeltree.data

    modules = {path.stem for path in Path(labeltree.data.__file__).parent.iterdir()}
    assert len(labeltree.data.__all__) > 30
    assert not modules & set(labeltree.data.__all__)
    assert all(hasattr(labeltree.data, name) for name in dir(labeltree.data))
    with pytest.raises(AttributeError, match=r"module 'labeltree\.data' has no attribute 'nothing'"):
        labeltree.data.nothing  # noqa: B018
