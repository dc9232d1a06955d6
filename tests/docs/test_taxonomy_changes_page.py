"""The commands of "When the taxonomy changes" run in order, and print and write what the page shows."""

import fnmatch
import re
from pathlib import Path

import pytest

from labeltree.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "taxonomy-changes.md").read_text("utf-8")
BLOCKS = re.findall(r"```(console|yaml|csv)\n(.*?)```", PAGE.partition("\n## Use it")[0], re.DOTALL)


def shown(expected: str, found: str) -> bool:
    """Whether a text is as the page shows it; ``…`` stands for anything."""
    return fnmatch.fnmatchcase(found, re.sub(r"([\[?*])", r"[\1]", expected).replace("…", "*"))


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {}
    for kind, text in BLOCKS:
        if kind != "console":
            first, _, content = text.partition("\n")
            files[first.removeprefix("# ")] = content
    for name, content in files.items():
        if name != "changes.yaml":
            Path(name).write_text(content, "utf-8")
    commands = 0
    for kind, text in BLOCKS:
        for command, expected in re.findall(
            r"\$ labeltree (.*)\n((?:[^$].*\n)*)", text if kind == "console" else ""
        ):
            assert main(command.split()) == 0, command
            printed = capsys.readouterr().out
            assert shown(expected, printed), f"{command}\n{printed}"
            if command.startswith("taxonomy map"):
                written = Path("changes.yaml").read_text("utf-8")
                assert shown(files["changes.yaml"], written), written
            commands += 1
        for name, expected in re.findall(r"\$ cat (.*)\n((?:[^$].*\n)*)", text if kind == "console" else ""):
            assert Path(name).read_text("utf-8") == expected
            commands += 1
    assert commands == 7
