"""What a model, a merge, a bulk job and forgotten samples say of themselves; all numbers differ."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.decisions import ClassNodes, DecisionRule
from labeltree.decisions.calibration_check import CalibrationCheck
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.rule import Fitted
from labeltree.errors import DataError, TaxonomyError
from labeltree.inference.bulk.job import BulkDone, BulkJob
from labeltree.inference.by_name.zero_shot import _first_guesses
from labeltree.inference.calibration_text import calibration_text
from labeltree.inference.decider import Decider
from labeltree.inference.export.card import model_card
from labeltree.inference.forgetting import Chosen, _row_numbers, choose_samples
from labeltree.inference.info_text import file_sizes, info_text, size_text
from labeltree.inference.merging import Merged, _check_apart, _notes
from labeltree.inference.model_facts import _extension
from labeltree.inference.place_classes import Placed, nearest_parent, path_in_tree, warn_below_root, warn_ids
from labeltree.runs import SampleRecord
from labeltree.taxonomy import Taxonomy

FACTS: dict[str, Any] = {
    "model": {
        "objective": "hwc",
        "encoder": "small-conv",
        "reads": "image",
        "image_shape": [3, 28, 32],
        "cut": None,
        "trained": "all of it",
        "parameters": 158936,
        "encoder_parameters": 137112,
        "features": 96,
        "embeddings": 128,
        "geometry": "sphere",
    },
    "data": {
        "name": "birds",
        "place": "/data/birds",
        "splits": {
            "train": {"samples": 1200, "classes": 7, "groups": 300},
            "val": {"samples": 40, "classes": 6, "groups": None},
        },
    },
    "training": {
        "epochs": 9,
        "best_epoch": 4,
        "seconds": 1234.4,
        "began": "2026-01-01",
        "device": "CPU",
        "precision": "32-true",
        "versions": {"python": "3.11", "torch": "2.14"},
    },
    "metrics": {
        "split": "test",
        "samples": 1040,
        "classifier": "probe",
        "confidence": 0.9,
        "numbers": [{"name": "top-1", "value": 0.9, "low": 0.8, "high": 0.95}],
        "by_depth": [0.95, None, 0.25],
    },
    "classifier": {"name": "probe", "sentence": "Answers come from a probe."},
    "calibration": {
        "kind": "temperature",
        "descent": "child",
        "on": "validation samples",
        "samples": 1070,
        "groups": 20,
        "sentence": None,
        "thresholds": {"0.5": 0.0, "0.8": 0.51234567, "0.99": None},
        "rests_on": "They rest.",
        "unpromised": ["a", "b"],
    },
    "extension": {"number": 2, "added": ["x", "y", "z"], "retired": ["u"]},
    "taxonomy": {"nodes": 1010, "leaves": 505, "depth": 3},
    "digests": {"weights": "0123456789abcdef" * 4},
    "labeltree": "0.1.0",
}


def facts(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(FACTS), **changes}


def test_all_of_a_model_on_one_screen(tmp_path: Path) -> None:
    for name, size in {"a.bin": 3, "sub/b.bin": 2500, "c.bin": 1000}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    lines = info_text(facts(), tmp_path).splitlines()
    assert [line[:13].strip() for line in lines if line[:13].strip()] == [
        *("model", "size", "taxonomy", "extension", "data", "splits", "training", "versions"),
        *("answers", "calibration", "thresholds", "promises", "metrics", "digests", "files"),
    ], "a title stands once"
    said = " ".join(" ".join(lines).split())
    for part in (
        "hwc with encoder small-conv, reads images of 28 x 32 pixels, 3 channel(s)",
        "size 158,936 parameters (137,112 of the encoder), features of 96, embeddings of 128 "
        "dimensions (sphere)",
        "taxonomy 1,010 nodes, 505 leaves, depth 3",
        "extension 2 extensions after the training: 3 new classes (x, y, z), 1 retired data",
        "data birds (/data/birds) splits train 1,200 samples of 7 classes in 300 groups; val 40 samples of 6 "
        "classes training 9 epochs, best 5, 1,234 s, began 2026-01-01, on CPU, precision 32-true versions "
        "python 3.11, torch 2.14 answers Answers come from a probe.",
        "calibration temperature, path by child, thresholds from 1,070 samples in 20 groups "
        "(validation samples)",
        "by coverage, 50%: 0 (no answer is coarser than a class), 80%: 0.5123, 99%: too few samples promises",
        "promises They rest. Nothing is promised for 'a' and 'b', which were added later",
        "metrics 1,040 samples of split test, classifier probe, 90% intervals top-1 0.900 [0.800, 0.950] "
        "accuracy at depth 1, 2, …: 0.950, –, 0.250 digests weights 0123456789abcdef files 3.5 kB in "
        "3 files: "
        "sub/b.bin 2.5 kB, c.bin 1 kB, a.bin 3 B",
    ):
        assert part in said
    plain = facts(data={**FACTS["data"], "place": "birds"}, extension=None)
    assert "data birds splits" in " ".join(info_text(plain, tmp_path).split())
    long = info_text(facts(classifier={"name": "probe", "sentence": "word " * 99}), tmp_path).splitlines()
    start = next(at for at, line in enumerate(long) if line.startswith("answers"))
    assert long[start + 2].endswith(" …")
    assert long[start + 3].startswith("calibration")


def test_the_eight_largest_files_are_named(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}").write_bytes(b"x" * (number + 1))
    assert file_sizes(tmp_path) == [
        "36 B in 8 files: " + ", ".join(f"{n} {n + 1} B" for n in range(7, -1, -1))
    ]
    for name in "ab":
        (tmp_path / name).write_bytes(b"")
    assert file_sizes(tmp_path)[0].endswith("0 1 B and 2 more")
    assert [size_text(size) for size in (1000, 1024, 10**6, 10**9)] == ["1 kB", "1.02 kB", "1 MB", "1 GB"]


def test_a_card_counts_what_it_counts() -> None:
    names = {"id2label": {str(number): f"kind {number}" for number in range(51)}}
    card = model_card(facts(), names, "Birds", ["safetensors"])
    for part in (
        "Reads images of 28 × 32 pixels and answers with a node of a taxonomy of 1,010 nodes (505 "
        "leaves, depth "
        "3): as specific as it is sure. Encoder `small-conv` (137,112 parameters); trained with objective "
        "`hwc`: all of it; features have 96, embeddings 128 dimensions (geometry: sphere).",
        "Data set `birds`. A group (such as a patient) is never in two splits.",
        "| train | 1,200 | 7 | 300 |\n| val | 40 | 6 | – |",
        "- epochs: 9\n- best epoch: 5\n- seconds: 1234\n",
        "3 classes were added: `x`, `y`, `z`; 1 class was retired: `u`.",
        "On 1,040 samples of the split `test`, with classifier `probe`:",
        "| metric | value [90% interval] |\n|---|---|\n| top-1 | 0.900 [0.800, 0.950] |\n"
        "| accuracy at depth 1 | 0.950 |\n| accuracy at depth 2 | not defined for these samples |\n"
        "| accuracy at depth 3 | 0.250 |",
        "come from 1,070 validation samples in 20 groups (such as patients, or copies of one "
        "sample): for new "
        "samples of the same kind of the other classes, the share",
        "| 50% | 0 (no answer is coarser than a class) |\n| 80% | 0.512346 |\n| 99% | not possible: too few",
        "`kind 49` … and 1 more in `config.json`",
    ):
        assert part in card
    alone = model_card(facts(data={**FACTS["data"], "splits": {}}), names, "Birds", ["safetensors"])
    assert "never in two splits" not in alone
    fifty = {"id2label": dict(list(names["id2label"].items())[:50])}
    assert "more in `config.json`" not in model_card(facts(), fifty, "Birds", ["safetensors"])
    calibration = {**FACTS["calibration"], "groups": 1070}
    assert "groups (such" not in model_card(facts(calibration=calibration), names, "Birds", ["safetensors"])
    calibration["groups"] = None
    assert "groups (such" not in model_card(facts(calibration=calibration), names, "Birds", ["safetensors"])


def test_extensions_add_up(tmp_path: Path) -> None:
    """b was added before the export, goes in the first extension after it and comes back in the second."""
    records = [
        {"added": [{"class": "c", "new": True}, {"class": "k", "new": False}], "retired": ["b", "k"]},
        {"added": [{"class": "b", "new": True}], "retired": ["c"]},
    ]
    folders = []
    for number, record in enumerate(records):
        (tmp_path / f"{number}.json").write_text(json.dumps(record))
        folders.append(SimpleNamespace(extension=tmp_path / f"{number}.json"))
    home = SimpleNamespace(path=tmp_path, extensions=folders)
    folder: Any = SimpleNamespace(path=tmp_path / "1", home=home)
    before = {"extension": {"number": 3, "added": ["a", "b"], "retired": ["z"]}}
    assert _extension(folder, before) == {"number": 5, "added": ["a", "b"], "retired": ["z", "k", "c"]}
    assert _extension(folder, None) == {"number": 2, "added": ["b"], "retired": ["k", "c"]}
    own: Any = SimpleNamespace(path=tmp_path, home=home)
    assert _extension(own, before) == before["extension"], "the run itself answers"
    assert _extension(own, None) is None


def test_a_merge_in_lines() -> None:
    merged = Merged(SimpleNamespace(path="m"), (1200, 34), 1005, 77, ("One.", "Two."))  # type: ignore[arg-type]
    assert str(merged).splitlines() == [
        "merged: 1,234 training samples (1,200 + 34), 1,005 classes",
        "  One.",
        "  Two.",
        "model: m",
    ]
    head: Any = SimpleNamespace(penalty=0.5, tree=0.25, instance=0.125)
    settings, held, limits = _notes(Path("m"), head, 1077, 2, 3)
    assert settings.startswith("λ 0.5, tree 0.25 and instance 0.125 are those of the first run; scale and")
    assert held.startswith("calibrated on 1,077 held-out samples of 2 of the 3 runs, of which scores and")
    assert limits.startswith("it holds sums and no samples: predict,")
    assert _notes(Path("m"), head, 0, 0, 3)[1].startswith("not calibrated, as no run keeps features")


def test_samples_that_runs_share_are_told_of_any_two() -> None:
    """The third run shares two with the first, and none with the second."""

    def folder(name: str, contents: list[int] | None) -> Any:
        digests = None if contents is None else np.array(contents, np.uint8)[:, None, None].repeat(16, 2)
        here = SimpleNamespace(is_file=lambda: True)
        record = SimpleNamespace(copy_digests=digests)
        return SimpleNamespace(path=name, samples=here, load_samples=lambda: record)

    _check_apart([folder("a", [1, 2, 3]), folder("b", [4, 5]), folder("x", None)])
    with pytest.raises(DataError, match=r"^2 samples of 'c' are in 'a', too, and would count twice"):
        _check_apart([folder("a", [1, 2, 3]), folder("b", [4, 5]), folder("c", [2, 3, 9])])


DONE = BulkDone("out", 2345, 12, 1, 7, 1000, 4.0, True)


def test_what_a_bulk_job_has_done() -> None:
    assert DONE.sentence() == (
        "2,345 samples, 12 of them unreadable, 1 with a label that the run's taxonomy does not have, "
        "1,000 of "
        "them now, 250 a second: 7 files in out"
    )
    assert replace(DONE, written=2345, unreadable=0, unknown_labels=3, parts=1).sentence() == (
        "2,345 samples, 3 with labels that the run's taxonomy does not have, 586 a second: 1 file in out"
    )
    assert replace(DONE, written=0, unknown_labels=0, samples=1).sentence() == (
        "1 sample, 12 of them unreadable: out was complete already"
    )
    assert (
        replace(DONE, complete=False).sentence().startswith("1,000 samples written to out by this process;")
    )


def test_what_the_parts_of_a_job_hang_on() -> None:
    """With another of these the parts of a folder would be of two kinds."""
    job = BulkJob("run", "data", "out", "predict")
    told = job.settings()
    for name, value in {
        "coverage": 0.8, "method": "threshold", "counted": "group", "by_depth": 1, "cost": "tree", "top": 5,
        "unknown": 0.01, "optimise": "top1", "part_size": 9, "labelled": False, "data": "other",
    }.items():  # fmt: skip
        assert replace(job, **{name: value}).settings() != told, name
    assert replace(job, cost="tree", coarse=0.25).settings() != replace(job, cost="tree").settings()
    embed = replace(job, what="embed")
    assert replace(embed, features=True).settings() != embed.settings()
    assert replace(embed, dtype="float16").settings() != embed.settings()
    assert replace(job, workers=3).settings() == told


TREE = Taxonomy.from_paths(["animal/bird/wren", "animal/bird/tit", "animal/cat", "plant/tree/oak"])


def test_where_samples_of_a_new_class_fall() -> None:
    classes = torch.tensor([int(TREE.find(name)) for name in ("wren", "tit", "cat", "oak")])
    p = torch.tensor([[0.4, 0.2, 0.2, 0.2], [0.6, 0.2, 0.1, 0.1], [0.35, 0.25, 0.3, 0.1]])
    found = nearest_parent(p, classes, TREE, ("robin",))  # bird: (0.6 + 0.8 + 0.6) / 3
    assert found == Placed(("animal", "bird", "robin"), "mean probability 0.67 of its 3 samples")
    half = torch.tensor([[0.25, 0.25, 0.0, 0.5]])
    assert nearest_parent(half, classes, TREE, ("robin",)).path == ("animal", "bird", "robin"), (
        "half is enough"
    )
    assert nearest_parent(half, classes, TREE, ("animal", "robin"), 0.51) == Placed(
        ("robin",), "its 1 sample falls under no one branch"
    )
    several = nearest_parent(half.expand(2, 4), classes, TREE, ("robin",), 0.51)
    assert several.reason == "its 2 samples fall under no one branch"
    with pytest.raises(TaxonomyError, match="'animal/bird', which has a 'wren' already"):
        nearest_parent(p, classes, TREE, ("wren",))


def test_new_names_below_the_root_and_names_that_look_like_ids() -> None:
    assert path_in_tree(("robin",), TREE, beside=["bird"]) == Placed(
        ("animal", "robin"), "beside bird, which is retired"
    )
    assert path_in_tree(("robin",), TREE, beside=["bird", "tree"]) == Placed(("robin",))
    assert path_in_tree(("robin",), TREE, beside=["animal"]) == Placed(("robin",)), "as it is anyway"
    places = [
        Placed(("robin",)),
        Placed(("animal", "dog")),
        Placed(("moss",), "a reason"),
        Placed(("animal",)),
    ]
    (one,) = warn_below_root(places, TREE)
    assert one.startswith("'robin' is no name, id or synonym in the run's taxonomy, and went directly below")
    (two,) = warn_below_root([*places, Placed(("fern",))], TREE)
    assert two.startswith("'robin' and 'fern' are no names, ids or synonyms in the run's")
    assert warn_below_root(places, Taxonomy.from_paths(["cat", "oak"])) == [], "a tree without depth"
    assert warn_ids([("robin",), ("TEX:0000041",)], TREE) == [], "it has no ids"


def test_how_often_first_guesses_by_name_are_right() -> None:
    """Of five samples four have a leaf as label: half at depth 3, three at depth 2, all at depth 1."""
    tree = Taxonomy.from_paths(["a/x/1", "a/x/2", "a/y"])
    classes = ClassNodes(torch.tensor([int(tree.find(name)) for name in ("a/x/1", "a/x/2", "a/y")]), tree)
    one, two, y = classes.nodes.tolist()
    labels = torch.tensor([one, int(tree.find("a")), two, one, y])
    scores = torch.eye(3)[[0, 0, 0, 2, 2]].double()
    assert _first_guesses(classes, scores, labels) == (
        " The first guess is right for 50.0% of the labelled samples (100.0% at depth 1, 75.0% at depth 2, "
        "50.0% at depth 3)."
    )
    assert _first_guesses(classes, scores, torch.full((5,), -1)) == ""


def rule_of(groups: list[int] | None, check: CalibrationCheck | None = None) -> DecisionRule:
    count = 12 if groups is None else len(groups)
    fitted = Fitted(
        torch.linspace(0.1, 0.9, count).double(),
        TREE.leaves[torch.arange(count) % 4],
        None if groups is None else torch.tensor(groups),
    )
    counts = {"calibration samples": 20, "for the thresholds": count, "left out: no label": 0}
    return DecisionRule(ClassNodes(TREE.leaves, TREE), Calibrator(), "child", fitted, counts, check)


def test_a_calibration_as_text() -> None:
    depths = {
        "before": {"accuracy": [0.7, 0.6], "error": [0.3, math.nan], "by_chance": [0.02, 0.04]},
        "after": {"accuracy": [0.8, 0.5], "error": [0.1, math.nan], "by_chance": [0.01, 0.05]},
    }
    record = {
        "classifier_choice": {"sentence": "It answers."},
        "calibration_check": {"sentence": "It is checked."},
        "calibrated_on": "new.csv",
        "calibration_by_depth": depths,
    }
    lines = calibration_text(rule_of(None), record, "It rests.").splitlines()
    assert lines[:4] == [
        *("It answers.", "It is checked."),
        "new.csv: 20 calibration samples, 12 for the thresholds",
        "It rests.",
    ]
    assert [line.split() for line in lines[5:8]] == [
        ["depth", "accuracy", "error", "of", "p", "before", "after", "if", "perfect"],
        ["1", "0.8000", "0.3000", "0.1000", "0.0100"],
        ["2", "0.5000", "–", "–", "0.0500"],
    ]
    # of 12 samples the ⌈13·0.8⌉ = 11th and the ⌈13·0.9⌉ = 12th smallest of 0.1 to 0.9
    assert lines[-4:] == [
        "  0.8273 for a coverage of 0.8",
        "  0.9000 for a coverage of 0.9",
        "  needs 19 samples for a coverage of 0.95",
        "  needs 99 samples for a coverage of 0.99",
    ]
    by_group = calibration_text(rule_of([number // 3 for number in range(24)]), record, "It rests.")
    assert "  needs 9 groups for a coverage of 0.9\n" in by_group, "24 samples of eight groups"
    assert " for a coverage of 0.8\n" in by_group
    tried = CalibrationCheck("temperature", False, 40, [None], [None])  # type: ignore[list-item]
    assert "if applied" in calibration_text(rule_of(None, tried), record, "")
    assert "if applied" not in calibration_text(rule_of(None, replace(tried, applied=True)), record, "")


def unknown_by(count: int, of_each: int = 1) -> str:
    """Why samples of unknown classes cannot be told at 5 % by so many held-out samples, or groups of them."""
    from labeltree.decisions.novelty import Distances, NoveltyRule, Reference
    from labeltree.geometry import Euclidean

    groups = torch.arange(count * of_each) // of_each
    known = Distances.of(torch.rand(count * of_each, generator=torch.Generator().manual_seed(0)), groups)
    reference = Reference(torch.zeros(1, 2).double(), torch.tensor([1]), Euclidean())
    decider = Decider.__new__(Decider)
    decider.__dict__["_novelty"] = NoveltyRule(reference, TREE, known, {}, {})
    return decider.cannot_tell(0.05)


def test_how_many_held_out_samples_it_takes_to_tell_unknown_ones() -> None:
    few = "samples of unknown classes are named like known ones: "
    assert unknown_by(19) == ""
    assert unknown_by(18) == (
        f"{few}18 held-out samples are too few to keep false alarms to 0.05; they suffice for 0.053"
    )
    assert unknown_by(7, 4) == (
        f"{few}7 held-out groups of samples are too few to keep false alarms to 0.05; they suffice for 0.125"
    )
    assert unknown_by(19, 4) == ""


def record_of(names: list[str], contents: list[int], splits: list[str]) -> SampleRecord:
    count = len(names)
    return SampleRecord(
        np.arange(count) + 10,
        np.ones(count, np.int64),
        np.array(splits),
        names=names,
        digests=np.array(contents, np.uint8)[:, None].repeat(16, 1),
        forgotten=3,
    )


def test_what_is_left_of_a_record() -> None:
    """The content of the first one stays with its copy; that of the third goes."""
    record = record_of(["a", "b", "c", "d"], [1, 1, 7, 9], ["train", "train", "val", "train"])
    chosen = Chosen(record, np.array([True, False, True, False]), frozenset("ac"))
    assert (len(chosen.rest), chosen.rest.forgotten) == (2, 5)
    assert chosen.digests.tolist() == [[7] * 16]
    assert [chosen.in_split(name) for name in ("train", "val", "test")] == [1, 1, 0]
    assert _row_numbers(chosen) == {"11", "13"}, "rows are counted from 1"


def test_samples_to_forget_that_are_not_there() -> None:
    names = ["dog-1", "dog-2", "cat-1", "cat-1"]
    record = record_of(names, [1, 2, 3, 4], ["train"] * 4)
    folder: Any = SimpleNamespace(path="r", load_samples=lambda: record, correction_files=[])
    groups = np.array(["smith", "smith", "jones", ""])

    def forget(samples: list[str], of_groups: list[str] | None = None) -> Chosen:
        return choose_samples(
            folder,
            samples,
            of_groups or [],
            elsewhere=lambda asked: {"gone"} & {*asked},
            group_names=lambda: groups,
        )

    assert forget(["dog-2", "gone"]).gone.tolist() == [False, True, False, False]
    assert forget(["dog-2", "gone"]).names >= {"dog-2", "gone"}
    assert forget([], ["smith"]).gone.tolist() == [True, True, False, False]
    assert forget(["cat-1"]).gone.tolist() == [False, False, True, True]
    with pytest.raises(DataError, match=r"^'dog-3' is not a sample of the run in 'r'; did you mean 'dog-"):
        forget(["dog-3"])
    with pytest.raises(DataError, match=r"^'x', 'y' and 'z' are not samples of the run in 'r'$"):
        forget(["x", "y", "dog-1", "z"])
    with pytest.raises(DataError, match=r"^'smit' is not a group of the run in 'r'; did you mean 'smith'"):
        forget([], ["smit"])
    with pytest.raises(DataError, match=r"^'' is not a group"):
        forget([], [""])
    with pytest.raises(DataError, match=r"^'cat-1' is the name of several samples, which are told apart by"):
        forget([], ["jones"])
