"""`labeltree demo`: what it makes, what it refuses, and what it says to type next."""

import re
import shlex
import webbrowser
from collections import Counter
from pathlib import Path

import pytest

from labeltree.cli.commands import demo_command
from labeltree.cli.main import main
from labeltree.errors import DataError


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Few pictures, a training of one epoch, and a browser that notes what it is to show."""
    shown: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command, "_PICTURES", 20)
    monkeypatch.setattr(demo_command, "_TRAINING", "--image_size 16 --epochs 1 --batch_size 64 --quiet")
    monkeypatch.setattr(webbrowser, "open", lambda address: not shown.append(address))
    monkeypatch.setenv("DISPLAY", ":0")
    return shown


@pytest.mark.slow
@pytest.mark.long
def test_every_command_that_it_names_runs(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_command.run([])
    said = capsys.readouterr().out
    report = tmp_path / "labeltree-demo" / "run" / "report.html"
    assert quick == [report.as_uri()]
    assert "report.html is open in the browser" in said
    own = said.partition("next, to type as it stands:")[2]
    steps = re.findall(r"^  labeltree (.*?) +# ", own, re.MULTILINE)
    assert len(steps) == 3
    for step in steps:
        if not step.startswith("explore"):  # it goes on until Ctrl-C
            assert main(shlex.split(step)) == 0
    assert (tmp_path / "labeltree-demo" / "run" / "suspects.csv").is_file()


def test_what_it_makes(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[str] = []
    monkeypatch.setattr(demo_command, "_run", commands.append)
    monkeypatch.setattr(demo_command, "find_spec", lambda name: None)  # a plain installation
    Path("a demo").mkdir()
    demo_command.run(["--out", "a demo", "--no-open"])
    birds = Path("a demo/birds")
    species = Counter(path.parent.relative_to(birds).as_posix() for path in birds.rglob("*.png"))
    assert (len(species), species.total()) == (13, 13 * 20)
    assert {name for name in species if species[name] == 21} == {*demo_command._FILED_WRONGLY.values()}
    assert [shlex.split(command)[0] for command in commands] == ["train", "evaluate"]
    assert shlex.split(commands[0])[:3] == ["train", "--data", "a demo/birds"]
    said = capsys.readouterr().out
    assert not quick
    assert "can be opened" in said
    assert "labeltree predict 'a demo/run' 'a demo/new'" in said
    assert "pip install 'labeltree[search,serve]'" in said
    with pytest.raises(DataError, match="'a demo' exists; delete it, or name another folder with --out"):
        demo_command.run(["--out", "a demo"])
