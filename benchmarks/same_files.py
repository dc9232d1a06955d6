"""Does this version go on with what another has written, and write the same?

    python benchmarks/same_files.py --before OTHER [--after .] [--work DIR]

OTHER and `.` are folders of the project. The version before draws birds, trains a run on them (and another
one, which is killed on its way), evaluates and indexes it. Then each version takes a copy of all that and
goes on: it finishes the training, answers, searches, extends, maps, exports. Every file and every output is
compared byte for byte; times, versions and folders in texts are left out, and the files of Lance's tables,
which have random names (what searches give is compared). What differs is named, with the first lines.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

BIRDS = "train --data birds --image_size 16 --epochs 3 --batch_size 32 --quiet --out runs/birds"
STOPPED = "train --data birds --image_size 16 --epochs 6 --batch_size 16 --quiet --out runs/stopped"
MADE = (
    BIRDS,
    "evaluate runs/birds",
    "calibrate runs/birds",
    "index runs/birds",
    "embed runs/birds --out birds.npz",
    "taxonomy convert birds old.json",
    "taxonomy map old.json new.csv --accept --out mapping.json",
    "suspects runs/birds --out suspects.csv --quiet",
)
# with the folders and files that the version before has made
CONTINUED = (
    STOPPED,
    BIRDS,
    "info runs/birds --json",
    "predict runs/birds new --format json",
    "predict runs/birds new --coverage 0.8 --method threshold --out answers.csv",
    "evaluate runs/birds --classifier probe --out again",
    "evaluate --embeddings birds.npz --taxonomy birds.npz.taxonomy.json --out table",
    "search runs/birds new/cuckoos/cuckoo/000.png -k 5",
    "index runs/birds/index --info",
    "index runs/birds/index --add birds.npz",
    "compare runs/birds runs/stopped --out compared",
    "taxonomy show new.csv",
    "taxonomy apply mapping.json old.json --out mapped.json",
    "taxonomy diff old.json new.csv",
    "calibrate runs/birds --classifier lda",
    "extend runs/birds --data more",
    "predict runs/birds more --format csv",
    "suspects runs/birds --out again.csv --quiet",
    "duplicates runs/birds --format csv",
    "export runs/birds --out exported",
    "label-next runs/birds --split test --out next.csv",
    "train --config runs/birds/recipe.yaml --epochs 1 --quiet --out runs/recipe",
)
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.+Z-]+|\d+(?:\.\d+)? ?(?:s|ms|MB|min)\b|/\S*/(?:before|after)\b"
    r'|"?(?:labeltree_version|commit|created|seconds|elapsed|duration|time|host|pid)"?:? ?[^,\n}]*'
)


def _environment(project: Path) -> dict[str, str]:
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "COLUMNS": "120", "SOURCE_DATE_EPOCH": "0"}
    return os.environ | fixed | {"PYTHONPATH": str(project.resolve() / "src")}


def _labeltree(project: Path, folder: Path, command: str) -> str:
    """The output of a command and its exit code."""
    run = subprocess.run(
        [sys.executable, "-m", "labeltree", *command.split()],
        cwd=folder,
        env=_environment(project),
        capture_output=True,
        text=True,
        check=False,
    )
    print(".", end="", file=sys.stderr, flush=True)
    return f"$ labeltree {command}\n{run.stdout}{run.stderr}\nexit {run.returncode}\n"


def _train_and_kill(project: Path, folder: Path) -> None:
    """Start a training and kill it once it has a checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "labeltree", *STOPPED.split()],
        cwd=folder,
        env=_environment(project),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not [*folder.glob("runs/stopped/**/*.ckpt")]:
        time.sleep(0.05)
    process.kill()
    process.wait()


def make(project: Path, folder: Path, drawing: Path) -> None:
    """What the version before leaves behind."""
    for name, each, seed in (("birds", 12, 0), ("new", 2, 7), ("drawn", 6, 9)):
        draw = [sys.executable, str(drawing), name, "--each", str(each), "--seed", str(seed)]
        subprocess.run(draw, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(folder / "drawn/cuckoos/cuckoo", folder / "more/cuckoos/koel")
    shutil.rmtree(folder / "drawn")
    labels = sorted({file.parent.relative_to(folder / "birds") for file in folder.glob("birds/**/*.png")})
    edges = {
        (parts[i], parts[i - 1] if i else "")
        for parts in (p.parts for p in labels)
        for i in range(len(parts))
    }
    renamed = {"greylag-goose": "grey-goose", "tits": "titmice"}
    rows = [",".join(renamed.get(name, name) or "bird" for name in edge) for edge in sorted(edges)]
    (folder / "new.csv").write_text("\n".join(["child,parent", *rows, ""]))
    for command in MADE:
        output = _labeltree(project, folder, command)
        if "\nexit 0\n" not in output:
            print(output, file=sys.stderr)
    _train_and_kill(project, folder)


def go_on(project: Path, folder: Path) -> None:
    """What a version makes of it."""
    texts = [_labeltree(project, folder, command) for command in CONTINUED]
    for number, text in enumerate(texts):
        (folder / f"output-{number:02d}.txt").write_text(text)


def _content(file: Path) -> dict[str, object]:
    """What is compared of a file: bytes, or text without what varies, by part of the file."""
    data = file.read_bytes()
    if file.suffix in (".npz", ".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            return {name: parts.read(name) for name in parts.namelist()}
    if file.suffix in (".ckpt", ".pt"):
        import torch

        state = torch.load(file, map_location="cpu", weights_only=False)
        weights = state.get("state_dict", state) if isinstance(state, dict) else {}
        return {name: np.asarray(w).tobytes() for name, w in weights.items() if isinstance(w, torch.Tensor)}
    if file.name == "history.csv":  # the last column is seconds
        return {"": "\n".join(line.rpartition(",")[0] for line in file.read_text().splitlines())}
    try:
        return {"": VARYING.sub("@", data.decode())}
    except UnicodeDecodeError:
        return {"": data}


def differences(before: Path, after: Path) -> list[str]:
    """A line for each file that is missing or differs, with the first lines that do."""
    names = sorted(
        {str(f.relative_to(root)) for root in (before, after) for f in root.rglob("*") if f.is_file()}
    )
    names = [name for name in names if ".lance/" not in name]
    lines = []
    for name in names:
        if not (before / name).exists() or not (after / name).exists():
            lines.append(f"{name}: only {'after' if (after / name).exists() else 'before'}")
            continue
        old, new = _content(before / name), _content(after / name)
        for part in sorted(old.keys() | new.keys()):
            a, b = old.get(part), new.get(part)
            if a == b:
                continue
            lines.append(f"{name} {part}")
            if isinstance(a, str) and isinstance(b, str):
                change = difflib.unified_diff(a.splitlines(), b.splitlines(), n=0, lineterm="")
                lines += [f"    {line[:300]}" for line in [*change][2:10]]
    return [
        f"{len(names)} files and outputs compared, {sum(line[0] != ' ' for line in lines)} differ",
        *lines,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, default=Path())
    parser.add_argument("--work", type=Path, help="an empty folder that is kept")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    made = work / "made"
    made.mkdir(parents=True)
    make(options.before, made, Path(__file__).parents[1] / "docs/examples/drawn_birds.py")
    # one folder name for both, one after the other, since outputs and digests hold it
    for version in ("before", "after"):
        here = work / "here"
        shutil.copytree(made, here)
        go_on(getattr(options, version), here)
        here.rename(work / version)
    print("\n".join(differences(work / "before", work / "after")))


if __name__ == "__main__":
    main()
