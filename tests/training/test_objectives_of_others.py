"""Objectives of other modules: known by their source, and runs that open without them."""

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml

from labeltree.cli.main import main
from labeltree.data import named_data as datasets
from labeltree.errors import RunError
from labeltree.evaluation import protocol_registry as protocols
from labeltree.inference.load_run import load_run
from labeltree.models import encoder_registry as models
from labeltree.runs import ModelDescription, RunFolder
from labeltree.studies.run import perform, run_tasks_of, state_of
from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import Study
from labeltree.studies.study_processes import jobs_for
from labeltree.studies.study_results import Book
from labeltree.training import registry
from labeltree.training.origins import origin_of
from labeltree.training.registry import RegistrationError, get_objective, register_objective

pytestmark = pytest.mark.slow

SOURCE = """
from torch import nn
from labeltree.training.registry import register_objective

@register_objective("pull", summary="", source="", sampler="random", geometry="euclidean")
class Pull(nn.Module):
    def forward(self, embeddings, nodes):
        return {factor} * embeddings.square().mean()
"""


@pytest.fixture
def their_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], ModuleType]]:
    """Write the module with another factor, and import it anew.

    Without bytecode: Python takes a compiled file for current if the source has its size and its second.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.syspath_prepend(tmp_path)
    ours = dict(registry._entries)

    def write(factor: float) -> ModuleType:
        (tmp_path / "their_loss.py").write_text(SOURCE.format(factor=factor), "utf-8")
        registry._entries.clear()
        registry._entries.update(ours)
        sys.modules.pop("their_loss", None)
        importlib.invalidate_caches()
        return importlib.import_module("their_loss")

    yield write
    sys.modules.pop("their_loss", None)


def study_of(folder: Path, data: Path) -> Study:
    shared = {"data": str(data), "epochs": 1, "batch_size": 9, "val": 0.2, "image_size": 28}
    content = {
        "title": "Theirs",
        "shared": {**shared, "accelerator": "cpu", "head.dim": 8},
        "seeds": [0],
        "trial_seed": 0,
        "select": "val_ahp",
        "baselines": [],
        "evaluation": {"resamples": 0},
        "methods": {"Pull": {"settings": {"objective": "pull"}}},
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return read_study(folder / "study.yaml")


def test_a_study_repeats_runs_of_a_loss_that_has_changed(
    their_loss: Callable[[float], ModuleType],
    image_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    their_loss(1.0)
    study, runs = study_of(tmp_path, image_folder), tmp_path / "runs"
    (task,) = run_tasks_of(study, study.methods[0], 0)
    perform(study, task, runs)
    before = task.digest(study)
    their_loss(1.0)
    assert (task.digest(study), state_of(study, task, runs)) == (before, "measured")

    their_loss(2.0)
    assert task.digest(study) != before
    assert state_of(study, task, runs) == "to do"
    perform(study, task, runs)
    assert state_of(study, task, runs) == "measured"
    then, now = (RunFolder(runs / name / task.name).read_history()[0] for name in ("replaced", ""))
    assert now["train_loss"] > 1.5 * then["train_loss"]

    # Without the loss the run still embeds, in its own geometry; what needs the loss says where it is.
    folder = runs / task.name
    known = load_run(folder, own_data=False, device="cpu").network
    registry._entries.pop("pull")
    network = load_run(folder, own_data=False, device="cpu").network
    images = torch.zeros(2, 3, 28, 28, dtype=torch.uint8)
    for ours, theirs in zip(network(network.plain(images)), known(known.plain(images)), strict=True):
        assert torch.equal(ours, theirs)
    assert network.objective.geometry.name == "euclidean"
    assert main(["info", str(folder)]) == 0
    with pytest.raises(
        RunError, match="'pull' is not registered here: import 'their_loss', which registers it"
    ):
        load_run(folder)
    description = ModelDescription.load(RunFolder(folder).description)
    origin = {**description.objectives["pull"], "answers": "yes", "package": "theirs"}
    content = {**vars(description), "objectives": {"pull": origin}}
    ModelDescription(**content).save(RunFolder(folder).description)
    with pytest.raises(RunError, match="it is in 'their_loss' of package theirs; install that"):
        load_run(folder, own_data=False)


def test_jobs_and_names_of_a_loss_that_no_package_declares(
    their_loss: Callable[[float], ModuleType], image_folder: Path, tmp_path: Path
) -> None:
    module = their_loss(1.0)
    study = study_of(tmp_path, image_folder)
    jobs, note = jobs_for(study, study.methods, 2)
    assert jobs == 1
    assert note is not None
    assert "objective 'pull' is registered by 'their_loss'" in note
    with pytest.raises(RegistrationError, match="'their_loss' has registered 'pull'; take another name"):
        register_objective("pull", summary="", source="")(module.Pull)
    entry = get_objective("pull")
    assert entry.origin.digest is not None
    assert entry.origin.package is None
    assert not Book(tmp_path / "study.yaml", study).notes(run_tasks_of(study, study.methods[0], 0))
    registry._entries.pop("pull")
    (tmp_path / "their_loss.py").unlink()
    register_objective("pull", summary="", source="")(module.Pull)
    (note,) = Book(tmp_path / "study.yaml", study).notes(run_tasks_of(study, study.methods[0], 0))
    assert "the source of objective 'pull' cannot be read" in note


def test_our_objectives_keep_the_identity_of_their_results() -> None:
    file = Path(__file__).parents[2] / "studies" / "emoji-dimensions" / "study.yaml"
    study = read_study(file)
    book = Book(file, study)
    for method in study.methods:
        (task, *_) = run_tasks_of(study, method, 0)
        row = book.row(method.name, task.seed)
        assert row is not None
        assert row["settings"] == task.digest(study)
    assert jobs_for(study, study.methods, 2) == (2, None)


@pytest.mark.parametrize("kind", ["encoder", "data set", "protocol"])
def test_jobs_of_a_study_whose_script_registers_more(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = read_study(Path(__file__).parents[2] / "studies" / "emoji-dimensions" / "study.yaml")
    settings: dict[str, dict[str, object]] = {
        "encoder": {"shared": {**study.shared, "encoder": "mine"}},
        "data set": {"transfer": {"data": "mine"}},
        "protocol": {"evaluation": {**study.evaluation, "protocols": ["mine"]}},
    }
    entries = {
        "encoder": (models, "_ENTRIES"),
        "data set": (datasets, "_entries"),
        "protocol": (protocols, "_entries"),
    }
    registered, name = entries[kind]
    monkeypatch.setattr(registered, name, dict(getattr(registered, name)))

    def mine(*_: object, **__: object) -> Any: ...

    if kind == "encoder":
        models.register_encoder("mine", summary="")(mine)
    elif kind == "data set":
        datasets.register_dataset("mine", summary="", licence="")(mine)
    else:
        protocols.register("mine", summary="", source="")(mine)
    study = dataclasses.replace(study, **settings[kind])  # type: ignore[arg-type]
    jobs, note = jobs_for(study, study.methods[:1], 2)
    assert jobs == 1
    assert f"{kind} 'mine' is registered by '{__name__}'" in str(note)
    monkeypatch.setattr(mine, "__module__", "labeltree.anything")
    assert jobs_for(study, study.methods[:1], 2) == (2, None)


def test_a_digest_watches_what_a_loss_imports_from_its_own_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Directly or through another module; neither what it does not import nor another package."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "theirs/__init__.py": "",
        "theirs/loss.py": "from ._parts import weights\nimport elsewhere\nclass Loss: ...\n",
        "theirs/_parts/__init__.py": "",
        "theirs/_parts/weights.py": "from theirs import constants\n",
        "theirs/constants.py": "FACTOR = 1.0\n",
        "theirs/another_loss.py": "",
        "elsewhere.py": "",
        "script.py": "import elsewhere, installed\nclass Loss: ...\n",
        ".venv/site-packages/installed.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path / ".venv/site-packages")
    roots = {"theirs", "elsewhere", "script", "installed"}
    request.addfinalizer(
        lambda: [sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in roots]
    )
    losses = {name: importlib.import_module(name).Loss for name in ("theirs.loss", "script")}

    def watching(changed: str) -> list[str]:
        """The modules whose digest a change of a file changes."""
        before = {name: origin_of(loss, name).digest for name, loss in losses.items()}
        with (tmp_path / changed).open("a") as file:
            file.write("# changed\n")
        return [name for name, loss in losses.items() if origin_of(loss, name).digest != before[name]]

    assert watching("theirs/constants.py") == ["theirs.loss"]
    assert watching("theirs/_parts/weights.py") == ["theirs.loss"]
    assert watching("theirs/another_loss.py") == []
    assert watching("elsewhere.py") == ["script"]
    assert watching("script.py") == ["script"]
    assert watching(".venv/site-packages/installed.py") == []
