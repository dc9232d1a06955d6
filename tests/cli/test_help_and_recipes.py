"""What helps a newcomer: help on a page, options spelled either way, recipes found by name, a title."""

import re
from pathlib import Path

import pytest

from labeltree.cli.main import command_summaries, main
from labeltree.errors import RecipeError
from labeltree.inference.predict import Answered
from labeltree.options.answer_options import PredictOptions
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.training.read_recipes import find_recipe, list_recipes, read_recipe

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.mark.parametrize("command", [*command_summaries(), "taxonomy show", "data check"])
def test_the_help_of_every_command_fits_on_a_page(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command.split(), "--help") == 0
    text = capsys.readouterr().out
    assert 5 < len(text.splitlines()) <= 60
    assert max(map(len, text.splitlines())) <= 110


def test_all_settings_of_training_are_a_flag_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--help") == 0
    short = capsys.readouterr().out
    assert "--help-all" in short
    assert re.search(r"--epochs +passes over the training samples, by default 10, or", short)
    assert "--supcon.temperature" not in short
    assert run("train", "--objective", "supcon", "-h") == 0
    assert "--supcon.temperature" in capsys.readouterr().out
    for flag in ("--help-all", "--help_all"):
        assert run("train", flag) == 0
        text = capsys.readouterr().out
        assert len(text.splitlines()) > 200
        assert "--queue.momentum" in text


def test_recipes_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # away from the checkout
    file = ROOT / "recipes" / "feng2023" / "cifar-100-maskcon.yaml"
    for name in (
        "feng2023/cifar-100-maskcon",
        "recipes/feng2023/cifar-100-maskcon.yaml",
        "./recipes/feng2023/cifar-100-maskcon",
        file,
    ):
        assert find_recipe(name) == file
        assert read_recipe(name).objective == "maskcon"
    assert len(list_recipes()) == len(list((ROOT / "recipes").glob("*/*.yaml")))
    with pytest.raises(
        RecipeError, match="none of that name comes with labeltree; did you mean 'quickstart/supcon'"
    ):
        find_recipe("quickstart/subcon")
    mine = tmp_path / "quickstart" / "supcon"  # a file of one's own comes first
    mine.parent.mkdir()
    mine.write_text("data: mine\n")
    assert find_recipe("quickstart/supcon") == Path("quickstart/supcon")


def test_a_wrong_recipe_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--config", "quickstart/subcon"], ["--config=quickstart/subcon"]):
        assert run("train", *words) == 2
        assert "no recipe at 'quickstart/subcon'" in capsys.readouterr().err
    assert run("train", "--list-recipes") == 0
    assert "quickstart/supcon" in capsys.readouterr().out.splitlines()


def test_docs_name_data_sets_and_recipes_that_there_are() -> None:
    from labeltree.data import list_datasets

    pages = [ROOT / "README.md", ROOT / "recipes" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = 0
    for page in pages:
        text = page.read_text("utf-8")
        for console in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
            for name in re.findall(r"--data[ =]([\w.-]+)(?=\s|$)", console) + re.findall(
                r"labeltree data (?:get|check) ([\w.-]+)", console
            ):
                if Path(name).suffix or name.isupper():
                    continue  # a file of the reader's, or a placeholder
                named += 1
                assert name in list_datasets(), f"{page.name}: {name}"
        for recipe in re.findall(r"--config ((?:recipes/)[\w/.-]+)", text):
            named += 1
            assert find_recipe(recipe), page.name
    assert named > 30


@pytest.mark.parametrize("option", ["--data-path", "--data_path", "--data-path=there", "--data_path=there"])
@pytest.mark.parametrize("command", ["embed", "calibrate"])
def test_options_may_be_written_with_either_sign(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [option] if "=" in option else [option, "there"]
    assert run(command, "run", *words) == 2
    assert "--data-path says where the data set of --data lies; name one" in capsys.readouterr().err


def test_a_title_of_ones_own(tmp_path: Path) -> None:
    import torch

    tree = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z")])
    tree.save(tmp_path / "tree.json")
    draw = torch.Generator().manual_seed(0)
    EmbeddingTable(torch.randn(30, 4, generator=draw), tree.leaves.repeat(10)).save(tmp_path / "t.npz")
    words = ["evaluate", "--embeddings", tmp_path / "t.npz", "--taxonomy", tmp_path / "tree.json"]
    assert run(*words, "--title", "Beetles of the garden") == 0
    page = (tmp_path / "t" / "report.html").read_text("utf-8")
    assert "<title>Beetles of the garden" in page
    assert run(*words) == 0
    assert "<title>t" in (tmp_path / "t" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "RUN", "--coverage", "0.5", "a.png", "--top", "2", "b.png"],
        ["predict", "--coverage", "0.5", "RUN", "a.png", "b.png", "--top", "2"],
        ["predict", "RUN", "a.png", "--top", "2", "--coverage=0.5", "b.png"],
        ["predict", "RUN", "--coverage=0.5", "--top=2", "--", "a.png", "b.png"],
    ],
    ids=" ".join,
)
def test_options_may_stand_between_files(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def answer(options: PredictOptions) -> Answered:
        seen.update(vars(options))
        raise ValueError("seen")

    monkeypatch.setattr("labeltree.inference.predict.answer", answer)
    assert run(*words) == 2
    found = (seen["run"], seen["images"], seen["coverage"], seen["top"])
    assert found == ("RUN", ("a.png", "b.png"), 0.5, 2)


def test_options_may_stand_between_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("compare", tmp_path / "a", "--quiet", tmp_path / "b", "--out", tmp_path / "c") == 2
    assert "unrecognized" not in (said := capsys.readouterr().err)
    assert str(tmp_path / "a") in said


@pytest.mark.parametrize("command", ["data", "taxonomy"])
def test_a_path_in_place_of_an_action(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my photos").mkdir()
    assert main([command, "my photos"]) == 2
    said = capsys.readouterr().err
    assert "'labeltree taxonomy check \"my photos\"' says what the labels" in said
    assert main([command, "nothing"]) == 2
    assert "invalid choice: 'nothing' (choose from" in capsys.readouterr().err
