"""The three commands of the page "Your labels": from a download to an evaluation on a revised taxonomy."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

import gbif
from labeltree.cli.main import main
from labeltree.data import open_source

pytestmark = pytest.mark.slow
OCCURRENCES = int(os.environ.get("LABELTREE_OCCURRENCES", "300"))  # 3000: as in the page's figures
PAGE = Path(__file__).parents[2] / "docs" / "data" / "your-labels.md"


@pytest.mark.long
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    commands = [shlex.split(line.removeprefix("$ labeltree ")) for line in block.splitlines()]
    assert [command[0] for command in commands] == ["train", "evaluate", "evaluate"]
    monkeypatch.chdir(tmp_path)
    download = gbif.write_download(tmp_path, occurrences=OCCURRENCES)
    source = open_source(
        download,
        image_folder="photos",
        image_name="{gbifID}_*.png",
        names="scientific",
        synonyms="synonyms.csv",
    )
    gbif.write_revision(tmp_path, source.taxonomy)
    for command in commands:
        assert main([*command, "--quiet"]) == 0
    run = Path("runs/download")
    assert (run / "report.html").is_file()
    assert len((run / "unused-rows.csv").read_text().splitlines()) == 1 + len(source.unused or ())
    before = json.loads((run / "metrics.json").read_text("utf-8"))
    after = json.loads((run / "on-revised" / "metrics.json").read_text("utf-8"))
    assert before["counts"]["classes tested"] == 30
    assert after["counts"]["classes tested"] < 30  # merged, and split without evidence
    assert set(after["taxonomy_changes"]) >= {"move", "merge", "split", "rename"}
