"""What labeltree makes of taxonomy files as they circulate: form, nodes, depth, notes, seconds and memory.

    python benchmarks/file_corpus.py FOLDER [--out benchmarks/results/file_corpus.md]

Reads every file below FOLDER that has a suffix of a taxonomy file, but for Markdown, each in a process of its
own, and downloads nothing. A refusal is shown with the beginning of its sentence.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from labeltree.taxonomy.files.file_forms import FORMS
from labeltree.text_files import split_packed

ONE = """
import json, logging, resource, sys, time
from pathlib import Path
from labeltree.errors import LabeltreeError
notes = []
class Keep(logging.Handler):
    def emit(self, record):
        notes.append(record.getMessage().split(": ", 2)[-1])
logging.getLogger("labeltree.data").addHandler(Keep())
start = time.process_time()
try:
    from labeltree.api.taxonomies import open_labels
    from labeltree.taxonomy.files.file_forms import find_form
    from labeltree.taxonomy.files.opened_file import OpenedFile
    taxonomy, nodes = open_labels(sys.argv[1])
    form = "table of samples" if nodes is not None else find_form(OpenedFile(Path(sys.argv[1])))[0].name
    answer = {"form": form, "nodes": taxonomy.num_nodes, "depth": int(taxonomy.numbering.depth.max())}
except LabeltreeError as error:
    answer = {"refused": str(error)}
answer |= {"notes": notes, "seconds": time.process_time() - start}
answer["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("ANSWER" + json.dumps(answer))
"""


def read_one(path: Path, timeout: float) -> dict[str, object]:
    """What a process of its own says of a file."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", ONE, str(path)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"refused": f"not read within {timeout:g} s", "notes": []}
    line = next((line for line in done.stdout.splitlines() if line.startswith("ANSWER")), None)
    if line is None:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"refused": f"CRASHED: {last}", "notes": []}
    return json.loads(line.removeprefix("ANSWER"))


def cell(text: object) -> str:
    """A text that fits into a cell of a Markdown table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Print a table, a row a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--timeout", type=float, default=120)
    options = parser.parse_args()
    suffixes = {suffix for form in FORMS for suffix in form.suffixes} | {".xlsx", ".jsonl", ".parquet"}
    suffixes -= {".md"}  # of what a folder holds, these are its documentation
    files = sorted(
        path
        for path in options.folder.rglob("*")
        if path.is_file() and split_packed(path)[0] in suffixes and ".git" not in path.parts
    )
    lines = [
        "| file | KB | form | nodes | depth | notes, or why it is refused | CPU s | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for path in files:
        said = read_one(path, options.timeout)
        size = f"{path.stat().st_size / 1024:,.0f}"
        name = f"`{path.relative_to(options.folder)}`"
        if "refused" in said:
            reason = str(said["refused"]).replace(str(path), path.name)[:160]
            row = [name, size, "–", "", "", reason, "", ""]
        else:
            notes = "; ".join(str(note).replace(str(path), path.name)[:160] for note in said["notes"])
            row = [
                name,
                size,
                said["form"],
                f"{said['nodes']:,}",
                said["depth"],
                notes,
                f"{said['seconds']:.1f}",
                f"{said['mb']:,.0f}",
            ]
        lines.append("| " + " | ".join(map(cell, row)) + " |")
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
