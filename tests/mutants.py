"""Mutants: the source with one small mistake each, and whether a test notices.

A mutant is a function with a comparison the other way, a sum for a difference, a constant one higher, a `not`
less, branches swapped, or nothing returned. It is killed if a test fails that runs the changed line, or
another one of the same file.

    python tests/mutants.py trace                # once: which test runs which line; as long as `make test`
    python tests/mutants.py try --source decisions report/charts --count 25 --seed 1

Libraries are imported and tests collected once. Every mutant is a process forked from there, in which the
code of the function is replaced, so that one takes about as long as its tests: a second, if they notice it.
What happens when a module is imported, such as its constants, is not changed. Which mutants are drawn depends
on the seed and on the source alone; to compare two versions, run both with `--root FOLDER`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import pickle
import pkgutil
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


class _Mistake(ast.NodeTransformer):
    """Make the mistake of a number, within a function; counts how many there are."""

    def __init__(self, number: int = -1) -> None:
        self.number, self.seen, self.line, self.what, self._depth = number, 0, 0, "", 0

    def here(self, node: ast.expr | ast.stmt, what: str) -> bool:
        if not self._depth:
            return False
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
        self._depth += 1
        node.body = [self.visit(statement) for statement in node.body]
        self._depth -= 1
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:  # words, and formats of numbers
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

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self.here(node, "branches swapped"):
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            if self.here(node, f"{node.value} → {not node.value}"):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif isinstance(node.value, int) and self.here(node, f"{node.value} → {node.value + 1}"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and self.here(node, "return … → return None"):
            node.value = ast.copy_location(ast.Constant(None), node)
        return node


class Mutant(NamedTuple):
    """A mistake in a file: its line, the lines of its statement, what it is, and the changed functions."""

    room: str
    file: Path
    line: int
    statement: range
    what: str
    functions: dict[tuple[str, int], CodeType]


class Trace(NamedTuple):
    """Which tests run each line of each file, how long each takes, and which fail without any mistake."""

    hits: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    failing: set[str]


def draw_mutants(package: Path, places: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """So many of the mutants of each file or folder of the package, chosen by the seed."""
    for place in places:
        where = package / place
        every = []
        for file in sorted(where.rglob("*.py")) if where.is_dir() else [where]:
            counter = _Mistake()
            counter.visit(ast.parse(file.read_text("utf-8")))
            every += [(file, number) for number in range(counter.seen)]
        for file, number in random.Random(f"{seed} {place}").sample(every, min(count, len(every))):
            plain, mistake = ast.parse(file.read_text("utf-8")), _Mistake(number)
            changed = ast.fix_missing_locations(mistake.visit(ast.parse(file.read_text("utf-8"))))
            functions = {(c.co_qualname, c.co_firstlineno): c for c in _codes(compile(changed, file, "exec"))}
            yield Mutant(place, file, mistake.line, _statement(plain, mistake.line), mistake.what, functions)


def _statement(tree: ast.AST, line: int) -> range:
    """The lines of the innermost statement at a line; of one with a body the line alone."""
    around = [
        n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)
    ]
    inner = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
    return (
        range(line, line + 1) if hasattr(inner, "body") else range(inner.lineno, (inner.end_lineno or 0) + 1)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Plugin:
    """Runs once the tests are collected, in place of running them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.package = given, given.root / "src" / "labeltree"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # pytest says why
        import workers

        self.session, self.config = session, session.config
        self.folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        getattr(workers, "_import_once", lambda: None)()  # not in older versions
        (self.trace if self.given.what == "trace" else self.attempt)()
        return True

    def child(self, what: Callable[[], None]) -> int:
        """Fork a process that does something with the tests, and prints nothing."""
        if number := os.fork():
            return number
        try:
            os.setpgid(0, 0)
            from multiprocessing import process

            import forked

            process._children.clear()  # type: ignore[attr-defined] # of the process that it was forked from
            folder = self.folder / f"process{os.getpid()}"
            folder.mkdir()
            self.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
            self.config.pluginmanager.unregister(name="terminalreporter")
            capture: Any = self.config.pluginmanager.getplugin("capturemanager")
            capture.stop_global_capturing()
            forked.fork_the_server()
            capture.start_global_capturing()
            what()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(0)

    def run(
        self, items: list[pytest.Item], begin: Callable[[pytest.Item], object] = lambda item: None
    ) -> None:
        for place, item in enumerate(items):
            begin(item)
            after = items[place + 1] if place + 1 < len(items) else None
            self.config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def trace(self) -> None:
        """Run all tests once, and note the lines that each of them runs."""
        import coverage

        files = [list(items) for _, items in groupby(self.session.items, key=lambda item: item.path)]
        left, fill = os.pipe()
        for number in range(len(files)):
            os.write(fill, number.to_bytes(4, "little"))
        os.set_blocking(left, False)
        notes = [self.folder / f"trace{number}" for number in range(self.given.workers)]

        def work(note: Path) -> None:
            tracer = coverage.Coverage(
                data_file=f"{note}.lines", include=[f"{self.package}/*"], config_file=False
            )
            reports: list[tuple[str, str, float]] = []
            self.config.pluginmanager.register(
                _Reports(lambda r: reports.append((r.nodeid, r.outcome, r.duration)))
            )
            tracer.start()
            with contextlib.suppress(BlockingIOError):
                while number := os.read(left, 4):
                    items = files[int.from_bytes(number, "little")]
                    self.run(items, lambda item: tracer.switch_context(item.nodeid))
            tracer.switch_context("")
            tracer.stop()
            tracer.save()
            note.write_text(json.dumps(reports))

        for number in [self.child(lambda note=note: work(note)) for note in notes]:  # type: ignore[misc]
            os.waitpid(number, 0)
        trace = Trace({}, defaultdict(float), set())
        for note in notes:
            lines = coverage.CoverageData(f"{note}.lines")
            lines.read()
            for file in lines.measured_files():
                hits = trace.hits.setdefault(str(Path(file).relative_to(self.given.root)), {})
                for line, tests in lines.contexts_by_lineno(file).items():
                    hits.setdefault(line, set()).update(filter(None, tests))
            for test, outcome, seconds in json.loads(note.read_text()):
                trace.seconds[test] += seconds
                if outcome == "failed":
                    trace.failing.add(test)
        self.given.map.parent.mkdir(parents=True, exist_ok=True)
        self.given.map.write_bytes(pickle.dumps((trace.hits, dict(trace.seconds), trace.failing)))
        _print(f"{len(trace.seconds):,} tests, of which {len(trace.failing)} fail: {self.given.map}")

    def attempt(self) -> None:
        """Try mutants, several at once, and print a line for each and the counts."""
        import labeltree

        for module in pkgutil.walk_packages(labeltree.__path__, "labeltree."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(Exception):
                    importlib.import_module(module.name)
        self.known = Trace(*pickle.loads(self.given.map.read_bytes()))
        gc.unfreeze()
        self.functions: defaultdict[str, list[FunctionType]] = defaultdict(list)
        for function in gc.get_objects():
            if type(function) is FunctionType:
                self.functions[function.__code__.co_filename].append(function)
        gc.freeze()
        given = self.given
        waiting = draw_mutants(self.package, given.source, given.count, given.seed)
        running: dict[int, tuple[Mutant, int, float]] = {}
        counts: dict[str, Counter[str]] = {place: Counter() for place in given.source}
        mutant = next(waiting, None)
        while mutant is not None or running:
            while mutant is not None and len(running) < given.workers:
                answer, said = os.pipe()
                number = self.child(lambda: self.find(mutant, said))  # noqa: B023
                os.close(said)
                running[number] = mutant, answer, time.monotonic()
                mutant = next(waiting, None)
            time.sleep(0.05)
            for number, (tried, answer, began) in list(running.items()):
                ended = os.waitpid(number, os.WNOHANG)[0]
                if not ended and time.monotonic() - began < 4 * given.seconds + 120:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(number, signal.SIGKILL)  # with what it has started
                if not ended:
                    os.waitpid(number, 0)
                end = os.read(answer, 4096).decode() or "killed: it hangs, or its process died"
                os.close(answer)
                del running[number]
                shutil.rmtree(self.folder / f"process{number}", ignore_errors=True)
                counts[tried.room][end.partition(":")[0]] += 1
                _print(f"{tried.file.relative_to(self.package)}:{tried.line}: {tried.what}: {end}")
        for place, count in counts.items():
            _print(f"{place}: " + ", ".join(f"{number} {end}" for end, number in count.most_common()))

    def find(self, mutant: Mutant, said: int) -> None:
        """Run the tests of a mutant in this process until one fails, and say how it ended."""

        def end(words: str) -> None:
            os.write(said, words.encode())
            os._exit(0)

        for function in self.functions[str(mutant.file)]:
            code = function.__code__
            changed = mutant.functions.get((code.co_qualname, code.co_firstlineno))
            if changed is not None and changed != code:
                with contextlib.suppress(ValueError):
                    function.__code__ = changed
        lines = self.known.hits.get(str(mutant.file.relative_to(self.given.root)), {})
        touching = set().union(*(lines.get(line, ()) for line in mutant.statement)) - self.known.failing
        of_files: defaultdict[Path, tuple[list[pytest.Item], list[pytest.Item]]] = defaultdict(
            lambda: ([], [])
        )
        for item in self.session.items:
            if item.nodeid not in self.known.failing:
                of_files[item.path][item.nodeid not in touching].append(item)
        near = [parts for parts in of_files.values() if parts[0]]
        if not near:
            end("survives: no test runs the line")
        self.config.pluginmanager.register(
            _Reports(lambda report: end(f"killed: {report.nodeid}") if report.failed else None)
        )
        spent = 0.0
        for group in [parts[0] for parts in sorted(near, key=lambda parts: self.cost(parts[0]))] + [
            parts[1] for parts in near
        ]:
            if spent and spent + self.cost(group) > self.given.seconds:
                continue
            spent += self.cost(group)
            self.run(group)
        tests = sum(len(parts[0]) for parts in near)
        end(f"survives: {tests} tests in {len(near)} files run the line; {spent:.0f} s of tests were run")

    def cost(self, items: list[pytest.Item]) -> float:
        return sum(self.known.seconds.get(item.nodeid, 0.0) for item in items)


class _Reports:
    """Tells of every report of a test."""

    def __init__(self, tell: Callable[[pytest.TestReport], object]) -> None:
        self.tell = tell

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tell(report)


def _print(line: str) -> None:
    print(line, file=sys.__stdout__, flush=True)


def main() -> int:
    """Trace the tests, or try mutants."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("what", choices=("trace", "try"))
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="of the checkout")
    parser.add_argument(
        "--map", type=Path, help="which test runs which line (default: ROOT/build/mutants.map)"
    )
    parser.add_argument("--source", nargs="+", default=[], help="files or folders in src/labeltree")
    parser.add_argument("--count", type=int, default=10, help="of each of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=90, help="of tests for a mutant")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders, from ROOT")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    given.root = given.root.resolve()
    given.map = given.root / "build" / "mutants.map" if given.map is None else given.map.resolve()
    os.chdir(given.root)
    sys.path[:0] = [str(given.root), str(given.root / "src"), str(given.root / "tests")]
    words = ["-p", "no:cacheprovider", "-m", "not long", *given.tests]
    return int(pytest.main(words, plugins=[_Plugin(given)]))


if __name__ == "__main__":
    sys.exit(main())
