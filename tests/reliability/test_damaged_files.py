"""Damaged and hostile files through the real commands: one sentence, exit code 2, nothing run or lost."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest
import torch
from fuzzing import Case, Fuzzing
from valid_files import make_valid_files

from labeltree.cli.main import main
from labeltree.safe_files import value_from_json, value_from_yaml
from sweeps import some_now

pytestmark = pytest.mark.slow

CASES, IN_PROCESSES = 100, 1
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{there}: &{there} [{', '.join(['*' + here] * 9)}]\n"
    for here, there in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Fuzzing:
    """A folder with a valid file of every kind."""
    work = tmp_path_factory.mktemp("fuzz")
    return Fuzzing(make_valid_files(work / "valid"), work)


@pytest.mark.slow
@pytest.mark.parametrize("part", some_now(range(5)))
def test_whatever_is_damaged_is_refused_in_a_sentence(fuzz: Fuzzing, part: int) -> None:
    """Seeded: the same cases every time. ``make campaign-fuzz`` runs many more."""
    cases = [fuzz.case(f"suite/{part}/{number}") for number in range(CASES // 5)]
    failed = [str(case) for case in cases if case.faults]
    assert not failed, "\n".join(failed)
    refused = sum(case.code in (1, 2) for case in cases)
    assert 0.4 * len(cases) < refused < len(cases), "the damage is no damage any more, or all is refused"


@pytest.mark.slow
@pytest.mark.long
def test_whole_files_are_accepted(fuzz: Fuzzing) -> None:
    """Each command does its work where nothing is damaged: what it refuses, it refuses for the damage."""
    cases = [fuzz.undamaged(target) for target in fuzzing.TARGETS]
    small = "is not all of"  # what is said of a data set in miniature that is otherwise whole
    refused = [
        str(case) for case in cases if case.faults or (case.code not in (0, None) and small not in case.said)
    ]
    assert not refused, "\n".join(refused)


@pytest.mark.slow
def test_it_is_the_same_in_a_process_of_its_own(fuzz: Fuzzing) -> None:
    for number in range(IN_PROCESSES):
        case = fuzz.case(f"process/{number}", process=True)
        assert not case.faults, str(case)


@pytest.mark.slow
def test_the_fuzz_test_can_fail(fuzz: Fuzzing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that it demands is missed where it is broken on purpose."""

    def faults(words: str, act: Callable[[], Any]) -> list[str]:
        monkeypatch.setattr(fuzzing, "main", lambda _: act())
        case = Case("", "")
        fuzz._run(case, words, Path(), False)
        fuzz._look_around(case, ("study",))
        return case.faults

    def complain(sentence: str) -> int:
        return fuzzing.labeltree.cli.main._fail(sentence)

    def write(name: str) -> int:
        (fuzz.root / name).write_text("other")
        return 0

    assert faults("x", lambda: 0) == []
    assert faults("x", lambda: write("study/README.md")) == []
    assert faults("x", lambda: complain("'a' is not a table; write it again")) == []
    assert faults("x", lambda: 1) == ["exit code 1"]
    assert faults("x", lambda: complain("unexpected KeyError: 'a'")) == ["says 'unexpected KeyError'"]
    assert faults("x", lambda: complain("zlib.error: -3")) == ["says 'zlib'"]
    assert faults("x", lambda: 2) == ["0 lines of error"]
    assert faults("x", lambda: fuzzing.RAN.touch() or 0) == ["code of the file was run"]
    assert faults("x", lambda: write("costs.csv")) == ["changed: costs.csv"]
    assert "left behind: .a.csv" in faults("x", lambda: write(".a.csv"))
    assert "came through" in faults("x", lambda: 1 // 0)[0]
    too_much = faults("x", lambda: np.ones(fuzzing.MEMORY // 4))
    assert "MemoryError" in too_much[0]


HOSTILE = [
    ("recipe.yaml", "train --config {file} --out {out}/run --quiet", LAUGHS, "stands for more than 200,000"),
    ("study.yaml", "study {file} --dry-run", LAUGHS, "stands for more than 200,000"),
    (
        "tree.yaml",
        "taxonomy check {file}",
        LAUGHS.replace("[x, x, x, x, x, x, x, x, x]", "[x]"),
        "the alias *a stands for a subtree",
    ),
    ("recipe.yaml", "train --config {file} --quiet", "a: " + "[" * 9000, "line 1"),
    ("study.yaml", "study {file} --dry-run", "a: " + "{b: " * 9000, "line 1"),
    (
        "recipe.yaml",
        "train --config {file} --quiet",
        "data: a\nepochs: 1\ndata: b",
        "line 3 gives 'data' a second time",
    ),
    (
        "study.yaml",
        "study {file} --dry-run",
        "shared: {a: 1}\nevaluation: {b: 1, b: 2}",
        "gives 'b' a second time",
    ),
    ("tree.json", "taxonomy check {file}", '{"a": {"b": {}}, "a": {}}', "two children named 'a'"),
    ("tree.json", "taxonomy check {file}", "[" * 100_000, "nested too deeply"),
    ("tree.json", "taxonomy check {file}", "[" + "1" * 5000 + "]", "more than 4,000 digits"),
    ("recipe.yaml", "train --config {file} --quiet", "", "it is empty"),
    ("study.yaml", "study {file} --dry-run", "title: x\nshared:\nmethods:\n", "shared is empty"),
    (
        "study.yaml",
        "study {file} --dry-run",
        "{title: x, shared: {}, methods: [a], seeds: [0], trial_seed: 0, select: val_map_at_r}",
        "methods is ['a']; it must be methods by name",
    ),
]


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="it gives 'a' twice within one object"):
        value_from_json('{"b": {"a": 1, "c": {"a": 1}, "a": 2}}')
    assert value_from_json('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}')["b"] == [{"a": 1}, {"a": 2}]
    assert value_from_yaml("a: &q {x: 1, y: 1}\nb: {<<: *q, x: 2}")["b"] == {"x": 2, "y": 1}
    assert value_from_yaml("a: [{x: 1}, {x: 2}]")["a"] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(("name", "words", "content", "what"), HOSTILE)
def test_hostile_texts(
    name: str, words: str, content: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(content)
    begun = time.process_time()
    assert main([word.format(file=file, out=tmp_path) for word in words.split()]) == 2
    assert time.process_time() - begun < 60  # of the processor; a bomb would take hours
    said = capsys.readouterr().err
    assert what in said
    assert said.count("\n") == 1
    assert len(said) < 500
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("--epochs=1e30", "epochs"),
        ("--epochs=1" + "0" * 30, "epochs is 1e+30; 1,000,000 is the most"),
        ("--epochs=-3", "epochs is -3; it must be 1 or more"),
        ("--batch-size=99999999999", "batch_size is 1e+11; 1,048,576 is the most"),
        ("--image-size=100000", "image_size is 100000; 4,096 is the most"),
        ("--image-size=0", "image_size is 0; it must be 1 or more"),
        ("--val=nan", "val: expected a number; got nan"),
        ("--optimizer.lr=inf", "optimizer.lr: expected a number or null; got inf"),
        ("--optimizer.weight-decay=nan", "optimizer.weight_decay: expected a number; got nan"),
        ("--head.dim=99999999", "head.dim is 1e+08; 65,536 is the most"),
        ("--queue.size=999999999999", "queue.size is 1e+12; 16,777,216 is the most"),
    ],
)
def test_absurd_numbers(
    setting: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", str(tmp_path), "--out", str(tmp_path / "run"), "--quiet", setting]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epochs: [3]", "epochs"),
        ("epochs: .nan", "epochs"),
        ("val: .nan", "val is nan; it must be finite"),
        ("optimizer: {lr: .inf}", "optimizer.lr is inf; it must be finite"),
        ("optimizer: {weight_decay: .nan}", "optimizer.weight_decay is nan"),
        ("optimizer: null", "optimizer is empty; give settings below it"),
        ("table: 3", "table is 3; give settings below it"),
        ("sampler: null", "sampler is null, which has the wrong type; its default is 'auto'"),
        ("hwc: {alpha: null}", "hwc.alpha: null is not a value for it"),
        ("schedules: {weights.lam: [[0, .inf]]}", "schedules is inf"),
    ],
)
def test_numbers_of_a_recipe(
    content: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may hold what the parser of flags does not let through."""
    file = tmp_path / "recipe.yaml"
    file.write_text(f"data: {tmp_path}\nobjective: hwc+lam\n{content}\n")
    assert main(["train", "--config", str(file), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_absurd_numbers_of_an_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree.txt"
    tree.write_text("a/b\na/c\nd\n")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", embeddings=rng.normal(size=(12, 3)), labels=np.array(["b", "c", "d"] * 4))
    given = ["evaluate", "--embeddings", str(tmp_path / "t.npz"), "--taxonomy", str(tree), "--quiet"]
    for option, sentence in (
        ("knn.ks=[1]", "option 'ks' of protocol 'knn' is [1]; it must be of the kind of its default"),
        ("knn.ks=1e30", "option 'ks' of protocol 'knn' is 1e+30; it must be of the kind of its default"),
        ("knn.temperature=nan", "temperature must be above 0, got nan"),
        (
            "knn.temperature=inf",
            "option 'temperature' of protocol 'knn' is inf; it must be of the kind of its default",
        ),
    ):
        assert main([*given, "--protocols", "knn", "--option", option]) == 2, option
        assert sentence in capsys.readouterr().err


def test_an_error_has_at_most_2000_characters_and_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tree.csv"
    file.write_text("child,parent\n" + "x" * 50_000 + "\x1b[2J,y\x07\n")
    assert main(["taxonomy", "check", str(tmp_path / ("long" * 60) / "\x1b[31m.csv")]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b[31m" in said
    main(["taxonomy", "show", str(file)])
    capsys.readouterr()
    file.write_text("child,parent\n" + "".join(f"{'x' * 3000}{i},y{i}\n" for i in range(3)))
    assert main(["taxonomy", "check", str(file)]) == 2
    said = capsys.readouterr().err.removeprefix("labeltree: ").removesuffix("\n")
    assert len(said) <= 2000
    assert said.isprintable()


def state_without(key: str) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        del state[key]

    return change


@pytest.mark.slow
def test_training_states(fuzz: Fuzzing, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A state that cannot be taken up is named, with what to do, and stays as it is."""
    run = tmp_path / "run"
    shutil.copytree(fuzz.root / "half-run", run)
    file = run / "checkpoints/last.ckpt"
    whole = file.read_bytes()
    recipe = ["train", "--config", str(run / "recipe.yaml"), "--out", str(run), "--quiet"]

    def reshape(state: dict[str, Any]) -> None:
        name = next(iter(state["state_dict"]))
        state["state_dict"][name] = torch.zeros(3)

    damages: list[tuple[bytes | Callable[[dict[str, Any]], None], str]] = [
        (whole[: len(whole) // 2], "it is damaged, or no PyTorch file"),
        (b"", "it is damaged, or no PyTorch file"),
        (state_without("state_dict"), "its state dict is missing or damaged"),
        (state_without("optimizer_states"), "its optimizer states is missing or damaged"),
        (reshape, "does not have the weights of its recipe: of another shape"),
    ]
    for damage, sentence in damages:
        if callable(damage):
            file.write_bytes(whole)
            state = torch.load(file, weights_only=True)
            damage(state)
            torch.save(state, file)
        else:
            file.write_bytes(damage)
        before = file.read_bytes()
        assert main(recipe) == 2, sentence
        said = capsys.readouterr().err
        assert sentence in said
        assert "delete it and the same command starts again" in said
        assert "weights_only" not in said
        assert file.read_bytes() == before


@pytest.mark.slow
def test_an_emptied_history(fuzz: Fuzzing, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(fuzz.root / "photo-run", run)
    (run / "history.csv").write_text("")
    assert main(["evaluate", str(run), "--quiet"]) == 2
    assert (
        "history.csv' cannot be read as the history of a run: epochs are missing" in capsys.readouterr().err
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"calibrator": {"kind": "temperature", "temperatures": [-1.0], "slopes": [], "offsets": []}}, 2),
        ({"calibrator": {"kind": "temperature", "temperatures": [], "slopes": [], "offsets": []}}, 2),
        ({"descent": "up"}, 2),
        ({"classes": [1, 1]}, 2),
        ({}, 0),
    ],
)
def test_decisions_that_look_valid(
    change: dict[str, Any], code: int, fuzz: Fuzzing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A negative temperature would turn every answer round."""
    run = tmp_path / "run"
    shutil.copytree(fuzz.root / "photo-run", run)
    file = run / "decisions.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    image = fuzz.root / "photos/plant/rose/0.png"
    assert main(["predict", str(run), str(image), "--coverage", "0.5"]) == code
    assert ("calibrate again" in capsys.readouterr().err) == bool(code)
