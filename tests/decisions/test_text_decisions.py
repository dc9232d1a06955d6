"""A run on texts answers for texts."""

import json
from pathlib import Path

import pytest

from labeltree.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {
        "animal/dog": "barks bone kennel",
        "animal/cat": "purrs mouse sofa",
        "plant/oak": "acorn trunk leaf",
    }
    rows = [
        f"{a} {b} {number},{label.replace('/', ',')}"
        for label, said in words.items()
        for number, (a, b) in enumerate((a, b) for _ in range(2) for a in said.split() for b in said.split())
    ]
    (tmp_path / "notes.csv").write_text("\n".join(["text,depth1,depth2", *rows]))
    out = tmp_path / "run"
    code = run(
        "train", "--data", tmp_path / "notes.csv", "--encoder=small-text", "--objective=ce", "--epochs=1",
        "--val=0.4", "--out", out, "--quiet", "--accelerator=cpu", "--batch-size=16",
    )  # fmt: skip
    assert code == 0
    assert run("predict", out, "--text", "barks bone", "--text", "acorn leaf", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out.split("next:")[-1].split("\n", 1)[-1])["answers"]
    assert [row["sample"] for row in found] == ["barks bone", "acorn leaf"]
    assert run("predict", out, "--text", " ", "--text", "acorn leaf", "--format", "json") == 1
    empty, answered = json.loads(capsys.readouterr().out)["answers"]
    assert (empty["answer"], empty["problem"]) == (None, "the text is empty")
    assert answered == found[1]
    assert run("predict", out, tmp_path / "x.png") == 2
    assert "reads texts: instead of files, give texts, or a table of them" in capsys.readouterr().err
