"""The commands of the section "Use it" of the page "When the taxonomy changes" run one after the other."""

import json
import re
import shlex
from pathlib import Path

import pytest

from labeltree.cli.main import main
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]
PAGE = Path(__file__).parents[2] / "docs" / "taxonomy-changes.md"
NOTES = {
    "animal/dog": ["barks at the door", "fetches the stick", "buries a bone", "wags its tail"],
    "animal/cat": ["purrs on the sofa", "chases a mouse", "sharpens its claws", "naps in the sun"],
    "plant/oak": ["drops its acorns", "has a thick trunk", "lives for centuries", "sheds leaves"],
}
WORDS = ("today", "again", "now", "often", "alone", "early", "late", "quietly", "at noon", "outside")


def commands() -> list[list[str]]:
    section = PAGE.read_text("utf-8").split("\n## Use it\n")[1].split("\n## ")[0]
    block = re.findall(r"```console\n(.*?)```", section, re.DOTALL)[0]
    return [shlex.split(line.removeprefix("$ labeltree ")) for line in block.splitlines()]


@pytest.mark.long
def test_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{text} {word},{label}" for label, texts in NOTES.items() for text in texts for word in WORDS]
    Path("notes.csv").write_text("\n".join(["text,label", *rows]))
    train = ["train", "--data", "notes.csv", "--out", "runs/notes", "--objective", "ce", "--epochs", "1"]
    assert main([*train, "--encoder", "small-text", "--quiet"]) == 0
    old = Taxonomy.from_paths(list(NOTES))
    new = Taxonomy.from_paths(["animal/pet", "animal/wolf", "plant/oak"])
    pet = [new.find("pet")]
    became = {"animal/dog": pet, "animal/cat": pet}
    targets = [
        became.get(old.path_name(node)) or [new.find(old.path_name(node))] for node in range(old.num_nodes)
    ]
    new.save("new.yaml")
    TaxonomyMapping(old, new, targets).save("changes.yaml")
    given = commands()
    assert [words[0] for words in given] == ["evaluate", "predict", "export", "train", "evaluate", "compare"]
    for words in given:
        quick = ["--resamples", "50", "--permutations", "50"] if words[0] == "compare" else []
        capsys.readouterr()
        assert main([*words, *quick]) == 0, words
        said = capsys.readouterr()
        if words[0] == "train":
            assert "3 different labels of the old taxonomy are read on the new one" in said.out
    assert json.loads(Path("runs/notes/on-new/metrics.json").read_text("utf-8"))["taxonomy_changes"]
    labels = json.loads(Path("model/labels.json").read_text("utf-8"))
    assert [labels["paths"][node] for node in labels["classes"]] == ["animal/pet", "plant/oak"]
    assert Path("comparison/comparison.html").is_file()
