"""The format of the answers that predict writes: the name of the file, or --format, says it."""

from pathlib import Path

import pytest

from labeltree.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "a.ods"], "'.ods' says no format; end the name in .csv, .xlsx, .parquet, .json or .txt"),
        (["--out", "a.jsonl"], "FOLDER/"),
        (["--format", "xlsx"], "--format xlsx is no text to print; name a file, --out answers.xlsx"),
        (["--out", "a.xlsx", "--explain"], "--explain has no place in a workbook; take --format json"),
        (["--out", "a.parquet", "--format", "csv"], "is to hold parquet, and --format says csv"),
        (["--out", "a.csv", "--format", "json"], "is to hold csv, and --format says json"),
        (["--out", "a.JSON", "--format", "table"], "is to hold json, and --format says table"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "no-run", "cat.jpg", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search", "where", "--id", "a"], "end the name in .csv, .json, .html or .txt, or add --format"),
        (["duplicates", "where"], "end the name in .csv, .json or .txt, or add --format"),
    ],
)
def test_other_files_say_their_formats_too(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", "a.xlsx"]) == 2
    assert f"--out a.xlsx: '.xlsx' says no format; {said}" in " ".join(capsys.readouterr().err.split())
