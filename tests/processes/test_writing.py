"""Files appear whole; what killed processes leave is cleared; a full or read-only disk is told of by name."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml

from labeltree.atomic import atomic_write, clear_leftovers, new_folder_in
from labeltree.cache import new_folder
from labeltree.cli.main import main
from labeltree.datasets.fetching.atomic_download import downloading
from labeltree.errors import DataError, WriteError
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow


def in_a_process(script: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


WRITES = """
    import sys
    from pathlib import Path
    from labeltree.atomic import atomic_write, new_folder_in
    folder = Path(sys.argv[1])
    with atomic_write(folder / "history.csv") as file, new_folder_in(folder) as new:
        file.write_text("half")
        (new / "part").write_text("half")
        print("writing", flush=True)
        sys.stdin.read()
"""


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_leftovers_of_a_kill_are_cleared_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    process = in_a_process(WRITES, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    during = hidden(tmp_path)
    assert len(during) == 2
    clear_leftovers(tmp_path / "history.csv")
    with atomic_write(tmp_path / "history.csv") as file, new_folder_in(tmp_path):
        file.write_text("mine")
    assert hidden(tmp_path) == during
    process.kill()
    process.communicate()
    assert hidden(tmp_path) == during
    (tmp_path / ".history-of-mine.csv").write_text("not ours")
    clear_leftovers(tmp_path / "history.csv")
    with new_folder_in(tmp_path):
        pass
    assert hidden(tmp_path) == [".history-of-mine.csv"]
    assert (tmp_path / "history.csv").read_text() == "mine"


def test_a_device_or_a_link_stays_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(tmp_path / "pipe") as file:
        file.write_text("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    with atomic_write(tmp_path / "link") as file:
        file.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    with pytest.raises(WriteError, match="it is a folder"), atomic_write(tmp_path):
        pass


def test_an_error_about_another_file_is_not_one_of_writing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"), atomic_write(tmp_path / "file") as file:
        file.write_bytes((tmp_path / "missing").read_bytes())
    assert not list(tmp_path.iterdir())


def test_a_folder_of_a_faster_process_stays(tmp_path: Path) -> None:
    """Both found none, or the same old one; the second must not take the first one's away."""
    (tmp_path / "kept").mkdir()
    with new_folder(tmp_path / "kept") as slow:
        (slow / "of").write_text("slow")
        with new_folder(tmp_path / "kept") as fast:
            (fast / "of").write_text("fast")
        assert (tmp_path / "kept" / "of").read_text() == "fast"
    assert (tmp_path / "kept" / "of").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.fixture(scope="module")
def trained(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is evaluated."""
    out = tmp_path_factory.mktemp("runs") / "photos"
    words = f"train --data {image_folder} --objective supcon --out {out} --epochs 1 --batch-size 10"
    assert main([*words.split(), "--image-size", "16", "--accelerator", "cpu", "--quiet"]) == 0
    assert main(["evaluate", str(out), "--quiet"]) == 0
    return out


@contextmanager
def no_room() -> Iterator[None]:
    """No file can be longer than nothing. Python has SIGXFSZ ignored, so that writing fails instead."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def study_at(folder: Path, images: Path) -> Path:
    folder.mkdir(exist_ok=True)
    plan = {
        "title": "A study",
        "select": "val_map_at_r",
        "shared": {
            "data": str(images),
            "epochs": 1,
            "batch_size": 10,
            "image_size": 16,
            "accelerator": "cpu",
        },
        "methods": {"A": {"settings": {"objective": "supcon"}}},
        "seeds": [0],
        "trial_seed": 0,
        "baselines": [],
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(plan))
    return folder / "study.yaml"


COMMANDS: dict[str, tuple[str, str]] = {
    # what is typed, and how the sentence says where to write instead
    "train": ("train --config {run}/recipe.yaml --out {tmp}/new --quiet", "--out FOLDER names another"),
    "evaluate": ("evaluate {run} --quiet", "--out FOLDER names another"),
    "evaluate to": ("evaluate {run} --out {tmp}/out --quiet", "--out FOLDER names another"),
    "evaluate table": (
        "evaluate --embeddings {run}/embeddings/trained.npz --taxonomy {run}/taxonomy.json --out {tmp}/out",
        "--out FOLDER names another",
    ),
    "embed": ("embed {run}", "--out FILE names another"),
    "embed to": ("embed {run} --out {tmp}/table.parquet", "--out FILE names another"),
    "embed npz": ("embed {run} --out {tmp}/table.npz", "--out FILE names another"),
    "calibrate": ("calibrate {run}", "a copy of the run"),
    "predict": ("predict {run} --classifier prototypes --split test --coverage 0.5", "a copy of the run"),
    "compare": ("compare {run} {other} --out {tmp}/out --resamples 5 --permutations 5", "--out FOLDER"),
    "compare page": (
        "compare {run} {other} --report {tmp}/page.html --out {tmp}/out --resamples 5 --permutations 5",
        "--out FOLDER",
    ),
    "study": ("study {tmp}/study/study.yaml --jobs 1 --quiet", "a copy of the study's file"),
    "convert": ("taxonomy convert {run}/taxonomy.json {tmp}/tree.csv", "name another file"),
}  # fmt: skip


@pytest.fixture
def typed(trained: Path, image_folder: Path, tmp_path: Path) -> Callable[[str], tuple[list[str], str]]:
    study_at(tmp_path / "study", image_folder)
    (tmp_path / "other").mkdir()
    for name in ("metrics.json", "outcomes.npz"):
        (tmp_path / "other" / name).write_bytes((trained / name).read_bytes())

    def words(name: str) -> tuple[list[str], str]:
        text, elsewhere = COMMANDS[name]
        return text.format(run=trained, tmp=tmp_path, other=tmp_path / "other").split(), elsewhere

    return words


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_named_in_every_command_that_writes(
    name: str,
    typed: Callable[[str], tuple[list[str], str]],
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, elsewhere = typed(name)
    before = contents(trained)
    with no_room():
        code = main(words)
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2, said
    assert said.startswith("labeltree: cannot write '"), said
    assert str(tmp_path) in said or str(trained) in said
    assert "/." not in said  # the file that is wanted, not its temporary name
    assert "ulimit -f" in said
    assert elsewhere in said
    assert contents(trained) == before
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


@pytest.mark.parametrize("number", some_now([errno.EACCES, errno.ENOSPC, errno.EROFS]))
@pytest.mark.parametrize("name", ["train", "evaluate", "embed to", "calibrate", "study", "convert"])
def test_what_the_system_says_is_put_into_words(
    name: str,
    number: int,
    typed: Callable[[str], tuple[list[str], str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuses(*, prefix: str, suffix: str, dir: Path) -> object:
        raise OSError(number, os.strerror(number), f"{dir}/{prefix}12345678{suffix}")

    words, elsewhere = typed(name)
    monkeypatch.setattr("labeltree.atomic.tempfile.mkstemp", refuses)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert os.strerror(number).lower() in said
    assert ("free some space" if number == errno.ENOSPC else "make it writable") in said
    assert elsewhere in said
    assert "Errno" not in said


def test_predictions_to_a_full_disk(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(trained)]) == 0
    try:
        with no_room():
            assert (
                main(
                    [
                        "predict",
                        str(trained),
                        "--split",
                        "test",
                        "--coverage",
                        "0.5",
                        "--out",
                        str(tmp_path / "a.csv"),
                    ]
                )
                == 2
            )
        assert f"cannot write '{tmp_path / 'a.csv'}'" in capsys.readouterr().err
        assert not (tmp_path / "a.csv").exists()
        classifier = RunFolder(trained).classifier
        whole = classifier.read_bytes()
        classifier.write_bytes(whole[:-1] + b"\0")  # of another choice, which a kill kept from being told
        assert main(["predict", str(trained), "--split", "test", "--coverage", "0.5"]) == 0
        assert classifier.read_bytes() == whole  # learned again from the same samples
    finally:
        RunFolder(trained).decisions.unlink()
        RunFolder(trained).classifier.unlink()


def test_a_run_that_may_only_be_read_is_evaluated_elsewhere(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RunFolder(trained).embeddings()
    before = table.read_bytes()
    table.unlink()
    makes = __import__("tempfile").mkstemp

    def only_there(*args: object, **kwargs: object) -> object:
        if Path(str(kwargs["dir"])).is_relative_to(trained):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(trained))
        return makes(*args, **kwargs)

    monkeypatch.setattr("labeltree.atomic.tempfile.mkstemp", only_there)
    assert main(["evaluate", str(trained), "--quiet", "--out", str(tmp_path / "out")]) == 0
    assert not table.exists()
    table.write_bytes(before)
    old = json.loads(RunFolder(trained).metrics.read_text())["methods"]
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["methods"] == old


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("lance error: LanceError(IO): No space left on device (os error 28)"), "no space"),
        (RuntimeError("[enforce fail at inline_container.cc:664] . PytorchStreamWriter failed writing file"
                      " data/3: file write failed"), "no space"),
        (OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"), "no space"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you"
                      " tried to allocate 4000000000000 bytes."), "more memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), "more memory"),
        (MemoryError(), "more memory"),
    ],
)  # fmt: skip
def test_what_libraries_say_of_full_disks_and_memory_is_put_into_words(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: list[str]) -> None:
        raise error

    monkeypatch.setattr("labeltree.cli.commands.index_command.run", fails)
    assert main(["index", "info", "x"]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "report it" not in said
    assert len(said.splitlines()) == 1


def test_a_full_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        no_room(),
        pytest.raises(DataError, match="LABELTREE_DATA"),
        downloading(tmp_path, "words") as (_, new),
    ):
        (new / "words").write_text("many")
    assert hidden(tmp_path) == [".download"]


FULL = "no space left on device"


@pytest.mark.parametrize(("words", "unbuffered"), [(["cache"], ""), (["--help"], "1")])
def test_output_that_is_full_or_read_no_more_or_closed(
    words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    program = [sys.executable, "-m", "labeltree.cli.main", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert FULL in done.stderr
    assert done.stderr.startswith("labeltree: ")
    assert len(done.stderr.splitlines()) == 1
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *program], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "2>&1 | true"])
def test_an_error_that_nobody_can_read_has_its_exit_code_and_stays_out_of_the_output(where: str) -> None:
    program = [sys.executable, "-m", "labeltree.cli.main", "study", "nowhere.yaml"]
    line = f'exec 3>&1; {{ "$@"; echo "exit $?" >&3; }} {where}'
    done = subprocess.run(["sh", "-c", line, "sh", *program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("exit 2\n", "")


def test_weights_and_tables_replace_nothing_when_they_fail(tmp_path: Path) -> None:
    import torch

    from labeltree.models.weights import save_weights

    module = torch.nn.Linear(3, 2)
    save_weights(module, tmp_path / "a.safetensors")
    before = (tmp_path / "a.safetensors").read_bytes()
    with no_room(), pytest.raises(WriteError, match=r"a\.safetensors"):
        save_weights(module, tmp_path / "a.safetensors")
    tree = Taxonomy.from_paths([("a", "b")])
    with no_room(), pytest.raises(WriteError, match=r"tree\.json"):
        tree.save(tmp_path / "tree.json")
    with no_room(), pytest.raises(WriteError, match=r"x\.npz"), atomic_write(tmp_path / "x.npz") as file:
        np.savez(file, x=np.zeros(1000))
    assert (tmp_path / "a.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_what_is_torn_in_the_middle_of_a_file(tmp_path: Path) -> None:
    """The kernel kills at a byte: the old file stays, and the next writer clears the half."""
    script = """
        import resource, signal, sys
        from pathlib import Path
        from labeltree.atomic import atomic_write
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with atomic_write(sys.argv[1]) as file:
            file.write_bytes(b"x" * 2000)
    """
    (tmp_path / "file.bin").write_bytes(b"old")
    process = in_a_process(script, tmp_path / "file.bin")
    process.communicate()
    assert process.returncode == -signal.SIGXFSZ
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    assert len(hidden(tmp_path)) == 1
    with atomic_write(tmp_path / "file.bin") as file:
        file.write_bytes(b"new")
    assert hidden(tmp_path) == []


def test_what_another_thread_takes_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a new file or folder is locked, whoever clears leftovers may lock it, and deletes it later."""
    import labeltree.atomic

    take_lock, taken = labeltree.atomic.take_lock, list[int]()

    def late(handle: int) -> bool | None:
        taken.append(handle)
        return False if len(taken) == 1 else take_lock(handle)

    monkeypatch.setattr(labeltree.atomic, "take_lock", late)
    with new_folder_in(tmp_path) as folder:
        assert len(taken) == 2
        assert folder.is_dir()
    taken.clear()
    with atomic_write(tmp_path / "file.txt") as temporary:
        temporary.write_text("whole")
        assert len(taken) >= 2
    assert (tmp_path / "file.txt").read_text() == "whole"
