"""Kill commands at chosen writes, go on, and compare with what was never disturbed.

A server process loads the libraries once and forks a child for every command. A hook counts what a child is
about to do in its folder (open for writing, rename, delete, make a folder) and its training steps, and sends
the child a signal at a chosen one: so the point of a kill hangs on no clock. Of a file that is complete but
not yet in its place, a part is cut off first at times, as if the kill had come while it was written.

    python tests/processes/crash.py --count 100 --seed 0
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
KINDS = ("train", "train", "train", "train", "evaluate", "calibrate", "study", "extend")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate")


@dataclass
class Hook:
    """Count the events of a process below a folder, and send it a signal at one of them.

    Attributes:
        folder: below which events count.
        at: the number of the event; None = none.
        number: the signal.
        torn: what is left of a file that is complete but not in its place; None = all of it.
    """

    folder: str
    at: int | None = None
    number: int = signal.SIGKILL
    torn: float | None = None
    seen: int = 0
    busy: bool = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITES:
                return
        elif event in _EVENTS:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(self.folder):
            self.count(os.fsdecode(path) if event == "os.chmod" else None)

    def count(self, complete: str | None = None) -> None:
        if self.busy:
            return
        self.seen += 1
        if self.seen - 1 != self.at:
            return
        self.busy = True
        if complete is not None and self.torn is not None and self.number == signal.SIGKILL:
            os.truncate(complete, int(os.stat(complete).st_size * self.torn))
        os.kill(os.getpid(), self.number)


def forked(words: list[str], hook: Hook, log: Path, cache: Path, temporary: Path) -> tuple[int, int]:
    """Do a command in a child; returns its exit code (negative: the signal), and how many events it had."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(500)
        os.environ |= {"LABELTREE_DATA": str(cache), "TMPDIR": str(temporary)}
        tempfile.tempdir = str(temporary)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        code = 70
        try:
            from labeltree.cli.main import main
            from labeltree.training.callbacks.checkpoints import Checkpoints

            ends = Checkpoints.on_train_batch_end

            def step_ends(self: Any, *arguments: Any) -> None:
                hook.count()
                ends(self, *arguments)

            Checkpoints.on_train_batch_end = step_ends  # type: ignore[method-assign]
            sys.addaudithook(hook.audit)
            code = main(words)
            sys.stdout.flush()
        finally:
            os.write(write, str(hook.seen).encode())
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), int(told or b"-1")


def load_libraries() -> None:
    """What the children need, without starting a thread."""
    import sklearn.linear_model  # noqa: F401
    import torch

    import labeltree.cli.commands.calibrate_command
    import labeltree.cli.commands.evaluate_command
    import labeltree.cli.commands.extend_command
    import labeltree.cli.commands.study_command
    import labeltree.cli.commands.train_command
    import labeltree.inference.calibrate_run
    import labeltree.inference.extend
    import labeltree.report.evaluate_embeddings
    import labeltree.report.evaluate_run
    import labeltree.studies.execute
    import labeltree.training.fit  # noqa: F401

    torch.set_num_threads(1)


LEAVES = ("animal/dog/poodle", "animal/dog/beagle", "animal/cat", "plant/rose", "plant/fern")
NEW = ("animal/bird", "plant/moss")


def write_photos(folder: Path, leaves: tuple[str, ...], first: int = 0) -> None:
    """Twelve noisy images of each leaf; ``first`` is the number of the first one, which its grey hangs on."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(first)
    for number, leaf in enumerate(leaves, first):
        (folder / leaf).mkdir(parents=True)
        for sample in range(12):
            pixels = 30 * number + 30 + rng.normal(0, 12, (16, 16, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / leaf / f"{sample:02d}.png")


@dataclass
class Place:
    """A folder in which a command is done."""

    root: Path
    photos: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    def words(self, kind: str) -> list[str]:
        """The command."""
        settings = {
            "data": str(self.photos), "objective": "hwc+lam", "epochs": 2, "batch_size": 12, "val": 0.2,
            "test": 0.2, "image_size": 16, "accelerator": "cpu", "checkpoint_minutes": 0.0, "head.dim": 8,
        }  # fmt: skip
        if kind == "train":
            flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
            return ["train", *flags, "--out", str(self.run), "--quiet"]
        if kind == "extend":
            return ["extend", str(self.run), "--data", str(self.photos.parent / "new")]
        if kind == "study":
            import yaml

            methods = {"A": {"settings": {"objective": "supcon"}}}
            plan = {"title": "S", "select": "val_map_at_r", "shared": settings | {"epochs": 1}, "seeds": [0]}
            del plan["shared"]["objective"]
            self.run.mkdir(exist_ok=True)
            text = yaml.safe_dump({**plan, "trial_seed": 0, "methods": methods, "baselines": ["raw"]})
            (self.run / "study.yaml").write_text(text)
            return ["study", str(self.run / "study.yaml"), "--jobs", "1", "--quiet"]
        return [kind, str(self.run), *(["--quiet"] if kind == "evaluate" else [])]

    def do(self, kind: str, hook: Hook) -> tuple[int, int]:
        for name in ("cache", "tmp"):
            (self.root / name).mkdir(exist_ok=True)
        hook.folder = str(self.root)
        log = self.root.parent / f"{self.root.name}.log"
        return forked(self.words(kind), hook, log, self.root / "cache", self.root / "tmp")

    def is_done(self, kind: str) -> bool:
        """Whether a killed command had done all it was for; a second extension would be another one."""
        from labeltree.runs import RunFolder

        return kind == "extend" and bool(RunFolder(self.run).extensions)

    def result(self, kind: str) -> dict[str, Any]:
        """What the command is for, without what hangs on the clock."""
        import torch

        from labeltree.runs import RunFolder

        folder = RunFolder(self.run)
        if kind == "train":
            state = torch.load(folder.last_checkpoint, weights_only=True)
            tensors = {**folder.load_weights(), **{f"state.{k}": v for k, v in state["state_dict"].items()}}
            rows = [{k: v for k, v in row.items() if k != "seconds"} for row in folder.read_history()]
            return {"tensors": {k: v.numpy().tobytes() for k, v in tensors.items()}, "history": rows}
        if kind == "evaluate":
            assert folder.report.stat().st_size > 1000
            assert folder.outcomes.is_file()
            return dict(json.loads(folder.metrics.read_text())["methods"])
        if kind == "calibrate":
            return {"decisions": folder.decisions.read_text(), "classifier": folder.classifier.read_bytes()}
        if kind == "extend":
            (only,) = folder.extensions
            record = json.loads(only.extension.read_text())
            plain = (only.decisions.read_text(), json.loads(only.taxonomy.read_text()))
            return {
                "record": record | {"date": ""},
                "plain": plain,
                "classifier": only.classifier.read_bytes(),
            }
        results = json.loads((self.run / "results.json").read_text())["results"]
        recipes = sorted(path.parent.name for path in (self.run / "runs").glob("*/recipe.yaml"))
        return {"scores": [(row["method"], row["scores"]) for row in results], "recipes": recipes}

    def wrong_now(self) -> list[str]:
        """What is wrong right after a kill."""
        import torch

        from labeltree.lock import writer_of
        from labeltree.runs import RunFolder

        wrong = []
        for path in {self.run, *(file.parent for file in self.root.rglob(".lock"))}:
            if writer_of(path) is not None:
                wrong.append(f"'{path}' is still locked")
        for recipe in self.run.rglob("recipe.yaml"):
            folder = RunFolder(recipe.parent)
            try:
                if folder.samples.is_file():
                    folder.load_taxonomy()
                folder.read_history()
                for state in (folder.last_checkpoint, folder.best_checkpoint):
                    if state.is_file():
                        torch.load(state, weights_only=True)
                if folder.encoder.is_file():
                    folder.load_weights()
                for one in folder.extensions:
                    one.load_weights(), one.load_taxonomy(), json.loads(one.extension.read_text())
                for file in (folder.metrics, folder.decisions, folder.versions):
                    if file.is_file():
                        json.loads(file.read_text())
            except Exception as error:
                wrong.append(f"{recipe.parent}: {type(error).__name__}: {error}")
        return wrong

    def leftovers(self) -> list[str]:
        """Hidden and temporary files that nobody will use."""
        hidden = [str(path) for path in self.root.rglob(".*")]
        return hidden + [str(path) for path in (self.root / "tmp").iterdir()]


@dataclass
class Campaign:
    """What came of some trials."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    events: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def do(self, count: int, folder: Path, kinds: tuple[str, ...] = KINDS) -> None:
        """Do so many kills, in trials of one to three before the command is left to finish."""
        load_libraries()
        write_photos(folder / "photos", LEAVES)
        write_photos(folder / "new", NEW, len(LEAVES))
        finished: dict[str, Place] = {}
        rng, trial = random.Random(self.seed), 0
        while sum(self.kills.values()) < count:
            kind = rng.choice(kinds)
            for needed in ("train", kind):
                self._undisturbed(folder, needed, finished)
            place = self._place(folder, f"trial-{trial}", kind, finished)
            wrong = self._trial(place, kind, rng, finished[kind])
            self.failures += [f"seed {self.seed}, trial {trial} ({kind}): {what}" for what in wrong]
            if not wrong:
                shutil.rmtree(place.root)
            trial += 1

    def _undisturbed(self, folder: Path, kind: str, finished: dict[str, Place]) -> None:
        """Do a command without a kill, once."""
        if kind in finished:
            return
        place = self._place(folder, f"whole-{kind}", kind, finished)
        code, self.events[kind] = place.do(kind, Hook(""))
        if code:
            raise RuntimeError((folder / f"whole-{kind}.log").read_text())
        finished[kind] = place

    def _place(self, folder: Path, name: str, kind: str, finished: dict[str, Place]) -> Place:
        place = Place(folder / name, folder / "photos")
        place.root.mkdir()
        if kind in ("evaluate", "calibrate", "extend"):
            shutil.copytree(finished["train"].run, place.run)
        return place

    def _trial(self, place: Place, kind: str, rng: random.Random, whole: Place) -> list[str]:
        wrong, left, log = [], self.events[kind], place.root.parent / f"{place.root.name}.log"
        for _ in range(rng.randint(1, 3)):
            number = rng.choice(SIGNALS)
            torn = rng.choice((None, 0.0, rng.random()))
            hook = Hook("", rng.randrange(left), number, torn)
            code, seen = place.do(kind, hook)
            if code == 0 and seen <= (hook.at or 0):  # it had less left to do than that
                break
            left = max(1, left - (hook.at or 0))
            self.kills[f"{kind} {number.name}"] += 1
            self.ends[str(code)] += 1
            if code != (-number if number == signal.SIGKILL else 128 + number):
                wrong.append(f"{number.name} at event {hook.at}: exit code {code}")
            wrong += place.wrong_now()
            if place.is_done(kind):
                break
        if "Traceback" in log.read_text():
            wrong.append(f"a traceback in '{log}'")
        code, _ = (0, 0) if place.is_done(kind) else place.do(kind, Hook(""))
        if code:
            return [*wrong, f"it does not go on: exit code {code}; {log.read_text()[-500:]}"]
        if place.result(kind) != whole.result(kind):
            wrong.append("it ends with another result than undisturbed")
        left = place.leftovers()
        return [*wrong, f"left over: {', '.join(left)}"] if left else wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill labeltree at chosen writes, and see whether it goes on."
    )
    parser.add_argument("--count", type=int, default=100, help="of kills (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(set(KINDS)), default=list(KINDS))
    options = parser.parse_args()
    campaign = Campaign(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        campaign.do(options.count, Path(folder), tuple(options.kinds))
        print(f"points at which a whole command can be hit: {campaign.events}")
        print(f"kills: {sum(campaign.kills.values())}, {dict(sorted(campaign.kills.items()))}")
        print(f"exit codes: {dict(sorted(campaign.ends.items()))}")
        print(f"failures: {len(campaign.failures)}", *campaign.failures, sep="\n  ")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
