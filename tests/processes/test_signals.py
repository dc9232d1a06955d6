"""Signals: Ctrl-C during the imports, SIGTERM in training, and children that end with their parent."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from forked import run_forked
from labeltree.cli.main import main
from labeltree.processes import Terminated, stop_signals
from labeltree.runs import RunFolder
from labeltree.training.callbacks.stop_after_step import TrainingInterrupted
from labeltree.training.fit import train
from labeltree.training.read_recipes import RecipeParser
from labeltree.training.recipe import Recipe
from sweeps import long_unless

pytestmark = pytest.mark.slow

INTERRUPTED = """
    import os, signal, sys
    number, module = int(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    def hook(event, arguments):
        global module
        if event == "import" and arguments[0] == module:
            module = None
            os.kill(os.getpid(), number)
    sys.argv[1:] = ["train", "--data", "nowhere"]
    sys.addaudithook(hook)
    from labeltree.__main__ import main
    sys.exit(main())
"""


@pytest.mark.parametrize(
    ("number", "module", "expected"),
    [
        (signal.SIGINT, "labeltree.cli", (130, "labeltree: interrupted\n")),
        (signal.SIGINT, "labeltree.processes", (130, "labeltree: interrupted\n")),
        (signal.SIGINT, "torch", (130, "labeltree: interrupted\n")),
        pytest.param(
            signal.SIGINT, "labeltree.runs", (130, "labeltree: interrupted\n"), marks=pytest.mark.long
        ),
        (signal.SIGTERM, "labeltree.processes", (-signal.SIGTERM, "")),  # the system ends it, by default
        (signal.SIGTERM, "argparse", (143, "labeltree: terminated\n")),
        (signal.SIGTERM, "torch", (143, "labeltree: terminated\n")),
    ],
)
def test_a_signal_during_the_imports_prints_no_traceback(
    number: signal.Signals, module: str, expected: tuple[int, str]
) -> None:
    words = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(int(number)), module]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == expected


def test_nothing_is_imported_before_a_signal_is_caught() -> None:
    """What is imported before `labeltree.__main__` catches Ctrl-C is time in which it prints a traceback."""
    script = """
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        known = set(sys.modules)
        import labeltree.__main__
        print(*set(sys.modules) - known)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    modules, is_default = done.stdout.splitlines()
    assert set(modules.split()) == {"labeltree", "labeltree.__main__"}
    assert is_default == "False"


def test_the_program_is_the_module_that_catches_signals_first() -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8"))
    assert project["project"]["scripts"] == {"labeltree": "labeltree.__main__:main"}
    done = subprocess.run(
        [sys.executable, "-m", "labeltree", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("labeltree ")


def test_ctrl_c_that_is_ignored_stays_so() -> None:
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import labeltree.__main__; "
    script += "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


SWALLOWED = """
    import os, signal, time
    from labeltree.processes import stop_signals
    signal.signal(signal.SIGINT, signal.default_int_handler)
    class Interrupted:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGNUMBER)
            for _ in range(1000):
                pass
    with stop_signals() as stop:
        try:
            thing = Interrupted()
            del thing
            time.sleep(60)
        except KeyboardInterrupt as error:
            print(type(error).__name__, stop.signal)
"""


@pytest.mark.parametrize(("name", "kind"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "Terminated")])
def test_a_signal_in_a_callback_of_the_interpreter_is_not_lost(name: str, kind: str) -> None:
    """Python prints what such a callback raises and goes on, as those do in which it lets go of imports."""
    script = textwrap.dedent(SWALLOWED).replace("SIGNUMBER", name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([kind, str(int(signal.Signals[name]))], "")


def test_within_the_block_sigterm_raises_and_then_no_more() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stop:
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def _hung_up() -> None:
    """Send SIGHUP, and wait for what comes of it."""
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(0.5)


def test_a_closed_terminal_ends_it_as_sigterm_does() -> None:
    """SIGHUP killed a training at once: everything since the last saved state was lost."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        with stop_signals() as stop:
            with pytest.raises(Terminated):
                _hung_up()
            assert stop.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        with stop_signals():
            _hung_up()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def recipe(image_folder: Path) -> Recipe:
    words = f"--data {image_folder} --objective supcon --epochs 1 --batch_size 9 --val 0.2 --image_size 16"
    return RecipeParser("supcon").recipe([*words.split(), "--accelerator=cpu"])


class Send(Callback):
    """Send signals to this process before a step."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def on_train_batch_start(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step == 1:
            for number in self.numbers:
                os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    "numbers",
    long_unless(
        [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)],
        [(signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)],
    ),
)
def test_sigterm_saves_the_step_as_ctrl_c_does(
    numbers: tuple[int, ...], recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where SIGTERM comes after a Ctrl-C, as a study sends it to runs that had the terminal's Ctrl-C."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(TrainingInterrupted, match="the same command continues") as told:
        train(recipe, tmp_path, callbacks=[Send(*numbers)], progress_bar=False)
    assert told.value.signal == numbers[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert torch.load(RunFolder(tmp_path).last_checkpoint, weights_only=True)["global_step"] == 2
    assert not list(tmp_path.rglob(".*"))

    def interrupted(*_: object, **__: object) -> None:
        raise told.value

    monkeypatch.setattr("labeltree.training.fit.train", interrupted)
    assert main(["train", "--config", f"{tmp_path}/recipe.yaml", "--quiet"]) == 128 + numbers[0]


def test_checkpoints_do_not_pass_through_the_systems_temporary_folder(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert sorted(path.name for path in folder.last_checkpoint.parent.iterdir()) == ["best.ckpt", "last.ckpt"]


def ends(process: int) -> bool:
    """Whether a process ends, in ten minutes at most; it stays a zombie where nobody waits for orphans."""
    for _ in range(6000):  # a loader process first imports all that it needs
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_loader_processes_end_with_a_parent_that_was_killed_while_they_started(
    recipe: Recipe, tmp_path: Path
) -> None:
    script = """
        import multiprocessing.popen_spawn_posix as spawning
        import os, signal, sys
        import torch
        from labeltree.training.fit import train
        from labeltree.training.read_recipes import read_recipe

        class Killed(spawning.Popen):
            def _launch(self, process):
                super()._launch(process)
                print(self.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        torch.multiprocessing.get_context("spawn").Process._Popen = staticmethod(Killed)
        torch.set_num_threads(1)
        train(read_recipe(sys.argv[1]), sys.argv[2], progress_bar=False)
    """
    recipe.save(tmp_path / "recipe.yaml")
    text = (tmp_path / "recipe.yaml").read_text().replace("workers: 0", "workers: 1")
    assert "workers: 1" in text
    (tmp_path / "recipe.yaml").write_text(text)
    done = run_forked(textwrap.dedent(script), [f"{tmp_path}/recipe.yaml", f"{tmp_path}/run"])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert ends(int(done.stdout))


CHILD = """
    import os, sys, time
    from labeltree.processes import end_with_parent
    end_with_parent(os.getppid())
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("kernel", [True, False], ids=["by the kernel", "by a thread"])
def test_a_child_ends_with_its_parent(kernel: bool) -> None:
    child = textwrap.dedent(CHILD)
    if not kernel:
        child = "import labeltree.processes as p; p._ask_the_kernel = lambda _: False\n" + child
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    number = int(process.stdout.readline())
    process.kill()
    process.wait()
    assert ends(number)


def test_a_run_of_a_study_ends_when_the_study_is_dead_already(tmp_path: Path) -> None:
    name = "labeltree.studies.study_processes"  # as in a process that has not imported it
    worker = f"import runpy, sys; sys.modules.pop({name!r}, None); "
    worker += f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    words = [str(tmp_path / "none.yaml"), "run", "a", "0"]
    done = run_forked(worker, words, {"_LABELTREE_STUDY": str(os.getpid())})  # that is not its parent
    assert (done.returncode, done.stderr) == (143, "stopped\n")
    parent = f"import os; os.environ['_LABELTREE_STUDY'] = str(os.getppid()); {worker}"
    done = run_forked(parent, words)
    assert done.returncode == 1
    assert "none.yaml" in done.stderr


def test_a_further_device_ends_with_the_first_and_takes_no_lock(recipe: Recipe, tmp_path: Path) -> None:
    script = """
        import sys
        from labeltree.training.fit import train
        from labeltree.training.read_recipes import read_recipe
        train(read_recipe(sys.argv[1]), sys.argv[2], progress_bar=False)
    """
    recipe.save(tmp_path / "recipe.yaml")
    words = [f"{tmp_path}/recipe.yaml", f"{tmp_path}/run"]
    environment = {"LOCAL_RANK": "1", "_LABELTREE_FIRST_RANK": str(os.getppid())}  # not its parent
    done = run_forked(textwrap.dedent(script), words, environment)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "run").exists()
