"""Whether changed tests still find what they found: mutants of the source, before and after the change.

A mutant is the source with one small mistake: a comparison the other way, a sum for a difference, a constant
one higher, a `not` less, nothing returned. It is killed if a test fails. What the tests of REV killed, those
of the working tree must kill, too. So only what survives now is tried with the tests of REV.

    python tests/mutants.py --rev main --source training/batches.py --tests training/test_loader_processes.py

The mistakes are made in a copy; the checkout is only read.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src", "labeltree")
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A file with one mistake."""

    file: Path
    line: int
    text: str
    what: str


class _Mistake(ast.NodeTransformer):
    """Make the mistake of a number; counts how many there are."""

    def __init__(self, number: int = -1) -> None:
        self.number, self.seen, self.line, self.what = number, 0, 0, ""

    def here(self, node: ast.expr | ast.stmt, what: str) -> bool:
        self.seen += 1
        if self.seen - 1 != self.number:
            return False
        self.line, self.what = node.lineno, what
        return True

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:  # the annotation is none of the program
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = _OTHER.get(type(node.ops[0]))
        if other is not None and self.here(node, f"{type(node.ops[0]).__name__} → {other.__name__}"):
            node.ops[0] = other()  # type: ignore[call-overload]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = _OTHER.get(type(node.op))
        if other is not None and self.here(node, f"{type(node.op).__name__} → {other.__name__}"):
            node.op = other()  # type: ignore[assignment]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        other = _OTHER[type(node.op)]
        if self.here(node, f"{type(node.op).__name__} → {other.__name__}"):
            node.op = other()  # type: ignore[assignment]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.Not) and self.here(node, "not → ") else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            if self.here(node, f"{node.value} → {not node.value}"):
                return ast.Constant(not node.value)
        elif isinstance(node.value, int) and self.here(node, f"{node.value} → {node.value + 1}"):
            return ast.Constant(node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and self.here(node, "return … → return None"):
            node.value = ast.Constant(None)
        return node


def mutants(files: list[Path], count: int, seed: int) -> Iterator[Mutant]:
    """So many of the mutants of files, chosen by the seed."""
    sources = {file: file.read_text("utf-8") for file in files}
    every = []
    for file, source in sources.items():
        counter = _Mistake()
        counter.visit(ast.parse(source))
        every += [(file, number) for number in range(counter.seen)]
    for file, number in random.Random(seed).sample(every, min(count, len(every))):
        mistake = _Mistake(number)
        tree = ast.fix_missing_locations(mistake.visit(ast.parse(sources[file])))
        yield Mutant(file, mistake.line, ast.unparse(tree), mistake.what)


class Trial:
    """A copy of the source, and the tests of two times beside it."""

    def __init__(self, folder: Path, rev: str, tests: list[str], patience: float) -> None:
        self.source, self.tests, self.patience = folder / "now", tests, patience
        self.source.mkdir()
        for path in ROOT.iterdir():
            if path.name not in ("src", ".git") and not path.name.startswith(".venv"):
                (self.source / path.name).symlink_to(path)
        shutil.copytree(ROOT / "src", self.source / "src", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self.source / "src", quiet=1)
        self.before = folder / "before"
        self.before.mkdir()
        archive = subprocess.run(["git", "-C", ROOT, "archive", rev], check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", self.before], check=True, input=archive.stdout)

    def fail(self, tree: Path) -> bool:
        """Whether the tests of a tree that `make test` runs fail with the source as it is."""
        words = ["-m", "pytest", "-x", "-p", "no:cacheprovider"]
        if '"long: ' in (tree / "pyproject.toml").read_text("utf-8"):
            words += ["-m", "not long"]
        files = [f"{tree}/tests/{name}" for name in self.tests]
        paths = os.pathsep.join([str(self.source / "src"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {
            "PYTHONPATH": paths,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        process = subprocess.Popen(
            [sys.executable, *words, *files],
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(self.patience) != 0
        except subprocess.TimeoutExpired:
            return True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            process.wait()

    def killed(self, mutant: Mutant, tree: Path) -> bool:
        """Whether the tests of a tree find the mistake."""
        file = self.source / mutant.file.relative_to(ROOT)
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
        before = file.read_text("utf-8")
        file.write_text(mutant.text, "utf-8")
        try:
            return self.fail(tree)
        finally:
            file.write_text(before, "utf-8")


def main() -> int:
    """Print a line for each mutant, and the counts; 1 if a mutant that was killed before survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rev", default="main", help="the commit whose tests are compared with")
    parser.add_argument("--source", nargs="+", required=True, help="files or folders in src/labeltree")
    parser.add_argument("--tests", nargs="+", required=True, help="files, folders, or FILE::TEST, in tests")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=600, help="seconds; who takes longer is killed")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its tests end with it
    places = [ROOT / PACKAGE / name for name in given.source]
    files = [
        file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), given.rev, given.tests, given.patience)
        for tree in (trial.source, trial.before):
            if trial.fail(tree):
                parser.error(f"the tests of {tree.name} fail without any mistake")
        killed = survived = lost = 0
        for mutant in mutants(files, given.count, given.seed):
            if trial.killed(mutant, trial.source):
                end, killed = "killed", killed + 1
            elif trial.killed(mutant, trial.before):
                end, lost = "LOST", lost + 1
            else:
                end, survived = "survives, as before", survived + 1
            print(f"{mutant.file.relative_to(ROOT)}:{mutant.line}: {mutant.what}: {end}", flush=True)
    print(f"{killed} killed; {survived} survive now and before; {lost} were killed before and survive now")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
