"""What notebooks show of runs, evaluations, comparisons, indexes and searches: escaped and small."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.runs import RunFolder

NAME = "b <b>bold"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("notebooks")
    rng = np.random.default_rng(0)
    classes = np.arange(160) % 4
    labels = np.array(["a/x", "a/y", "b/z", f"{NAME}/w"])[classes]
    ids = np.array([f"id <{number}>" for number in range(160)])
    for name, noise in (("near", 0.4), ("far", 1.2)):
        vectors = np.eye(4)[classes] + noise * rng.normal(size=(160, 4))
        np.savez(place / f"{name}.npz", vectors=vectors, label=labels, id=ids)
    run = lt.train(place / "near.npz", out=place / "run", epochs=1, progress_bar=False)
    lt.evaluate(run)
    return place


def _is_safe(html: str) -> bool:
    """Whether nothing of the data became a tag, and nothing is a script or fetched."""
    return not re.search(r"<b>|<script|<\d|src=.(?!data:)", html) and len(html) < 60_000


def test_a_run(place: Path) -> None:
    run = RunFolder(place / "run")
    shown = run._repr_html_()
    assert _is_safe(shown)
    for said in ("tree-ridge", "vectors", "train", "report.html"):
        assert said in shown
    assert len(run.to_pandas()) == len(run.read_history())
    assert "no run yet" in RunFolder(place / "<b>none")._repr_html_()
    assert _is_safe(RunFolder(place / "<b>none")._repr_html_())


def test_evaluations_show_intervals(place: Path) -> None:
    done = lt.evaluate(place / "near.npz", out=place / "evaluated")
    shown = done._repr_html_()
    low, high = done.result.main.answer_interval("top1")
    assert f"[{low:.3f}, {high:.3f}]" in shown
    assert "95% interval" in shown
    assert "overflow-x:auto" in shown, "on a telephone, the table scrolls and not the page"
    assert _is_safe(shown)


def test_what_intervals_draw_is_said_alike_in_print_and_in_notebooks(place: Path) -> None:
    data = dict(np.load(place / "near.npz"))
    np.savez(place / "grouped.npz", **data, groups=np.array([f"p{row // 8}" for row in range(160)]))
    for name, drawn in (("near", "over these samples"), ("grouped", "all samples of a group are drawn tog")):
        done = lt.evaluate(place / f"{name}.npz", out=place / f"drawn-{name}", resamples=50)
        (printed,) = (line for line in done.short.splitlines() if line.startswith("in brackets"))
        assert drawn in printed
        assert printed in done._repr_html_()


def test_intervals_are_named_by_their_confidence(place: Path) -> None:
    done = lt.evaluate(place / "near.npz", out=place / "at 80", resamples=100, confidence=0.8)
    shown = done._repr_html_()
    assert "in brackets: 80% confidence intervals" in shown
    assert "80% interval" in shown
    assert "95%" not in shown


def test_comparisons(place: Path) -> None:
    methods = {"<b>far</b>": place / "far.npz", "near": place / "near.npz"}
    done = lt.compare(methods, out=place / "compared", resamples=200)
    shown = done._repr_html_()
    assert _is_safe(shown)
    assert done.verdict[0].startswith("near is better than")
    for said in ("recall@1", "difference", "comparison.html", "&lt;b&gt;far", ".to_pandas()"):
        assert said in shown
    frame = done.to_pandas()
    assert {"metric", "near", "near low", "near minus <b>far</b> p"} <= set(frame.columns)
    assert len(frame) == len(done.result.metrics)


def test_a_comparison_prints_as_its_command_does(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict and the main numbers; all numbers, which fill pages, are named."""
    methods = {"far": place / "far.npz", "near": place / "near.npz"}
    done = lt.compare(methods, out=place / "compared", resamples=200)
    shown = repr(done)
    assert shown.startswith("\n".join(done.verdict) + "\n\n" + done.short)
    assert shown.endswith(f"report: {done.page}\nall numbers: .to_pandas(); as text: .text")
    assert len(shown.splitlines()) < 25 < len(done.text.splitlines())
    main(["compare", *(f"--name={name}={file}" for name, file in methods.items()),
                 "--out", str(place / "again"), "--resamples", "200"])  # fmt: skip
    assert capsys.readouterr().out.startswith(shown.partition("\nreport:")[0])
    assert repr(done.result).startswith("Comparison of 'far' and 'near': ")
    assert len(repr(done.result)) < 200

    (place / "gate.yaml").write_text("rules: [{metric: answer_top1, at_most: 0.01}]", "utf-8")
    methods = {"far": place / "far.npz", "near": place / "near.npz"}
    gated = lt.compare(methods, out=place / "gated", resamples=200, gate=place / "gate.yaml")
    assert "\n\ngate: far against near, 1 check, 1 failed\n  " in repr(gated)


def test_indexes_and_searches(place: Path) -> None:
    index = lt.make_index(embeddings=place / "near.npz", out=place / "index")
    assert _is_safe(index._repr_html_())
    assert "160, 160 with a label" in index._repr_html_()
    frame = index.to_pandas()
    assert frame["label"][3] == f"{NAME}/w"
    assert frame["id"][3] == "id <3>"
    vectors = np.load(place / "near.npz")["vectors"]
    found = lt.search(place / "index", vectors[:7], k=12)
    shown = found._repr_html_()
    assert _is_safe(shown)
    assert shown.count("<table>") == 5
    assert "… 2 more searches" in shown
    assert shown.count("… 2 more<") == 5
    rows = found.to_pandas()
    assert len(rows) == 7 * 12
    assert rows["id"][0] == "id <0>"
