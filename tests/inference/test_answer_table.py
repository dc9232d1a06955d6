"""Answers beside the columns of their table, in every format; values stay as they were given."""

import csv
import datetime
import io
import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from labeltree.data.given_columns import GivenColumns
from labeltree.decisions.answers import Answers
from labeltree.decisions.rule import Fitted
from labeltree.inference.answers.answer_table import AnswerTable
from labeltree.inference.answers.answered import Answered
from labeltree.inference.answers.format_answers import answer_cells, show_rows
from labeltree.inference.predict import _asked
from labeltree.options.answer_options import AnswerOptions
from labeltree.taxonomy import Taxonomy
from labeltree.workbooks import write_workbook

ABOUT = {"model": "a" * 64, "asked": "coverage 0.9"}
GUESSES = [{"class": "tool/saw", "probability": 0.4}, {"class": "toy", "probability": 0.3}]


def row(answer: str | None, probability: float | None, problem: str | None = None) -> dict[str, Any]:
    guesses = GUESSES if problem is None else []
    known = {"sample": "s", "answer": answer, "probability": probability, "cut": None if problem else True}
    return {**known, "guesses": guesses, "problem": problem, "unknown": None if problem else False}


ROWS = [row("tool/saw", 0.9), row("/", 1.0), row(None, None, "it has no text")]
NAMES = ("article no.", " answer", "answer", "answer")
GIVEN = GivenColumns(
    NAMES, (["007", 8, None], ["=1+1", "a,b", '"q"'], [1.5, True, datetime.date(2024, 2, 1)], [1, 2, 3])
)


def test_columns_come_first_and_names_do_not_collide() -> None:
    table = AnswerTable(ROWS, GIVEN, named=False)
    assert list(table.columns) == [
        *("answer_3", "probability", "guess_1", "guess_1_probability", "guess_2", "guess_2_probability"),
        *("cut", "unknown", "problem"),
    ]
    header, *lines = csv.reader(io.StringIO(table.text(ABOUT)))
    assert header == [*NAMES, *table.columns, *ABOUT]
    assert [line[:4] for line in lines] == [
        ["007", "=1+1", "1.5", "1"],
        ["8", "a,b", "True", "2"],
        ["", '"q"', "2024-02-01", "3"],
    ]
    assert {line[-2] for line in lines} == {"a" * 12}, "the row says which sample it is: digests may be short"
    assert {line[-2] for line in csv.reader(io.StringIO(AnswerTable(ROWS).text(ABOUT)))} == {
        "model",
        "a" * 64,
    }


def test_the_first_row_may_lack_what_others_have(tmp_path: Path) -> None:
    """It could not be read: it has no guesses, and no score of a question."""
    first, second = row(None, None, "it is empty") | {"asked": None}, row("tool/saw", 0.9) | {"asked": 0.5}
    table = AnswerTable([first, second], GivenColumns(("asked", "asked"), ([1, 2], [3, 4])))
    assert [name for name in table.columns if name.startswith("guess")] == [
        *("guess_1", "guess_1_probability", "guess_2", "guess_2_probability")
    ]
    assert table.columns["asked_3"] == [None, 0.5]
    table.write(tmp_path / "a.parquet", "parquet", ABOUT)
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.column_names[:2] == ["asked", "asked_2"]
    assert found.schema.field("asked_3").type == pa.float64()
    assert AnswerTable([]).text({}) == "sample,answer,probability,cut,problem\n"


def test_names_stand_beside_the_columns_if_a_row_has_several_samples() -> None:
    rest = torch.ones(2)
    answers = Answers(
        torch.tensor([1, 1]), rest.double(), rest.bool(), torch.ones(2, 1).long(), rest[:, None].double()
    )
    given = GivenColumns(("left",), (["a", "a"],))
    for one_each, names in ((True, ["left", "answer"]), (False, ["left", "sample"])):
        done = Answered(
            ["p", "q"], answers, Taxonomy.from_paths(["x", "y"]), "", given=given, one_each=one_each
        )
        assert done.text("csv").splitlines()[0].split(",")[:2] == names
        assert done[1]["input"] == {"left": "a"}


def test_what_json_has_no_word_for_is_an_error() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        show_rows([row("tool/saw", float("nan"))], "json")


def test_no_answer_is_empty_beside_its_best_guess() -> None:
    lines = list(csv.DictReader(io.StringIO(AnswerTable(ROWS).text({}))))
    assert [(line["answer"], line["probability"], line["guess_1"]) for line in lines] == [
        ("tool/saw", "0.9", "tool/saw"),
        ("", "", "tool/saw"),
        ("", "", ""),
    ]
    assert [line["problem"] for line in lines] == ["", "", "it has no text"]
    shown = [cells[1:3] for cells in answer_cells([*ROWS, row("/", 1.0) | {"unknown": True}])]
    assert shown == [["tool/saw/…", "0.900"], ["no answer", "–"], ["–", "–"], ["no answer (?)", "–"]]


def test_a_data_frame_has_all_columns() -> None:
    frame = AnswerTable(ROWS, GIVEN, named=False).frame()
    assert list(frame.columns[:5]) == ["article no.", " answer", "answer", "answer_2", "answer_3"]
    assert frame["article no."].tolist()[:2] == ["007", "8"], "a column of several kinds holds texts"
    assert frame["guess_1_probability"].tolist()[:2] == [0.4, 0.4]


def test_a_workbook_keeps_values_and_runs_no_formula(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    long = GivenColumns(("id", "text"), ([10**17, 2, 3], ["=1+1", "\x01", None]))
    for given, place in ((GIVEN, "a.xlsx"), (long, "b.xlsx")):
        AnswerTable(ROWS, given, named=False).write(tmp_path / place, "xlsx", ABOUT)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert book.sheetnames == ["answers", "about"]
    assert book["about"]["B2"].value == "a" * 64
    cells = [[cell.value for cell in line[:5]] for line in book["answers"].iter_rows()]
    assert cells[1] == ["007", "=1+1", 1.5, 1, "tool/saw"]
    assert cells[2] == [8, "a,b", True, 2, None]
    assert cells[3] == [None, '"q"', datetime.datetime(2024, 2, 1), 3, None]
    assert book["answers"]["B2"].data_type == "s"
    sheet = openpyxl.load_workbook(tmp_path / "b.xlsx")["answers"]
    assert (sheet["A2"].value, sheet["B2"].value, sheet["B3"].value) == (str(10**17), "=1+1", "\ufffd")
    with pytest.raises(
        ValueError, match=r"row 2 has a text of 40,000 characters, .* write \.csv or \.parquet"
    ):
        write_workbook(tmp_path / "c.xlsx", {"a": (("text",), [("x" * 40_000,)])})


def test_parquet_keeps_types_and_names_the_model(tmp_path: Path) -> None:
    given = pa.table(
        {"id": pa.array([1, 2, 3], pa.int16()), "tags": [["a"], [], None], "answer": ["x", "y", "z"]}
    )
    pq.write_table(given, tmp_path / "given.parquet")
    columns = GivenColumns.read(tmp_path / "given.parquet")
    AnswerTable(ROWS, columns, named=False).write(tmp_path / "a.parquet", "parquet", ABOUT)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.select(["id", "tags", "answer"]).equals(given)
    assert table["answer_2"].to_pylist() == ["tool/saw", None, None]
    assert [table.schema.field(name).type for name in ("cut", "guess_2_probability", "problem")] == [
        *(pa.bool_(), pa.float64(), pa.string())
    ]
    assert json.loads(table.schema.metadata[b"about"]) == ABOUT
    (line, *_) = csv.DictReader(io.StringIO(AnswerTable(ROWS, columns).text({})))
    assert line["tags"] == '["a"]'


def test_columns_are_read_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id, text ,text,text,v\n01,"a ",b,,0.5\n,NA,c,d,\n')
    given = GivenColumns.read(tmp_path / "t.csv", without=["v"])
    assert given.names == ("id", "text", "text", "text")
    assert given.values() == [["01", None], ["a ", "NA"], ["b", "c"], [None, "d"]]


def test_the_sentence_counts_those_without_an_answer() -> None:
    tree = Taxonomy.from_paths(["tool/saw", "toy"])
    saw = tree.find("saw")
    answers = Answers(
        nodes=torch.tensor([saw, 0]),
        probabilities=torch.tensor([0.9, 1.0]).double(),
        cut=torch.tensor([False, True]),
        guesses=torch.tensor([[saw], [saw]]),
        guess_probabilities=torch.tensor([[0.9], [0.4]]).double(),
    )
    answered = Answered(["a", "b"], answers, tree, "coverage 0.9")
    assert answered.sentence() == "1 answer (coverage 0.9); 1 got none (nothing is sure enough)"
    assert replace(answered, rests_on="Coverage is calibrated on 40.").caveats() == [
        "Coverage is calibrated on 40."
    ]
    nothing = Answers(*(getattr(answers, each.name)[:0] for each in fields(answers)[:5]))
    empty = Answered(["a"], nothing, tree, "coverage 0.9", skipped={0: "a number is missing"})
    assert replace(empty, rests_on="Coverage is calibrated on 40.").caveats() == []
    assert [row["answer"] for row in answered] == ["tool/saw", "/"]
    assert answered.to_pandas()["answer"].tolist()[0] == "tool/saw"
    assert "no answer" in answered._repr_html_()
    unknown = replace(answers, unknown=torch.tensor([True, False]))
    marked = replace(answered, answers=unknown)
    assert "; 1 fits no known class (marked '?': its guesses" in marked.sentence()
    assert "'?'" not in marked.sentence("csv"), "a CSV has a column for it"
    assert "'unknown' is true" in marked.sentence("csv")
    judged = torch.tensor([True, False])
    labelled = replace(answered, labels=torch.tensor([saw, -1]), judged=judged)
    assert "; of the one whose label is known (of 1 it is missing), 100.00% hold the truth" in (
        labelled.sentence()
    )
    toy = tree.find("toy")
    for label, held in ((saw, "100.00% hold the truth (100.00%"), (toy, "50.00% hold the truth (0.00%")):
        both = replace(answered, labels=torch.tensor([label, saw]), judged=torch.tensor([True, True]))
        assert f"{held} without those that got none, which are not wrong), at" in both.sentence()
    none = replace(answered, labels=torch.tensor([-1, toy]), judged=~judged)
    assert "100.00% hold the truth (none names anything), at a mean depth of 0.00" in none.sentence()


@pytest.mark.parametrize(("cut", "said"), [(False, ""), (True, ", coarser than the classes")])
def test_the_sentence_on_one_answer(cut: bool, said: str) -> None:
    tree = Taxonomy.from_paths(["tool/saw", "toy"])
    saw = tree.find("saw")
    one = Answers(
        nodes=torch.tensor([saw]),
        probabilities=torch.tensor([0.9]).double(),
        cut=torch.tensor([cut]),
        guesses=torch.tensor([[saw]]),
        guess_probabilities=torch.tensor([[0.9]]).double(),
    )
    assert Answered(["a"], one, tree, "coverage 0.9").sentence() == f"1 answer (coverage 0.9){said}"


def test_answers_off_the_path_to_the_most_probable_class_are_counted() -> None:
    tree = Taxonomy.from_paths(["tool/saw", "tool/axe", "toy"])
    tool, saw, axe, toy = map(tree.find, ("tool", "saw", "axe", "toy"))
    # toy is the most probable class, but tool the most probable branch
    answers = Answers(
        nodes=torch.tensor([saw, tool, toy, 0]),
        probabilities=torch.ones(4).double(),
        cut=torch.tensor([False, True, False, True]),
        guesses=torch.tensor([[toy, saw], [toy, axe], [toy, axe], [toy, axe]]),
        guess_probabilities=torch.tensor([[0.4, 0.3]]).double().expand(4, 2),
    )
    four = Answered(["a", "b", "c", "d"], answers, tree, "coverage 0.9")
    step_by_step = "since an answer goes down the tree step by step, to the most probable branch each time"
    assert f"; 2 answers do not hold the first guess, {step_by_step}" in four.sentence()
    one = replace(four, answers=Answers(*(getattr(answers, each.name)[:1] for each in fields(answers)[:5])))
    assert f"; 1 answer does not hold the first guess, {step_by_step}" in one.sentence()
    priced = replace(four, answers=replace(answers, costs=torch.zeros(4)))
    assert "step by step" not in priced.sentence(), "the least cost is found otherwise"
    none = replace(answers, guesses=answers.guesses[:, :0], guess_probabilities=answers.guesses[:, :0])
    assert "step by step" not in replace(four, answers=none).sentence()
    held = replace(answers, guesses=torch.tensor([[saw], [axe], [toy], [toy]]))
    assert "step by step" not in replace(four, answers=held).sentence()


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ([False, False, False], "2 got none (nothing is sure enough)"),
        ([True, True, False], "2 got none (no known class fits)"),
        ([True, False, True], "2 got none (for 1 no known class fits, for 1 nothing is sure enough)"),
    ],
)
def test_the_reason_why_samples_have_no_answer(unknown: list[bool], said: str) -> None:
    tree = Taxonomy.from_paths(["tool/saw", "toy"])
    three = Answers(
        nodes=torch.tensor([0, 0, tree.find("saw")]),
        probabilities=torch.ones(3).double(),
        cut=torch.tensor([True, True, False]),
        guesses=torch.full((3, 1), tree.find("saw")),
        guess_probabilities=torch.full((3, 1), 0.9).double(),
        unknown=torch.tensor(unknown),
        p_known=torch.full((3,), 0.5).double(),
    )
    assert f"; {said}" in Answered(["a", "b", "c"], three, tree, "coverage 0.9").sentence()


@pytest.mark.parametrize(("bar", "said"), [(0.0, True), (0.3, False)])
def test_that_no_answer_can_be_coarser_is_said(bar: float, said: bool) -> None:
    fitted = Fitted(torch.zeros(20), torch.ones(20, dtype=torch.int64))
    rule: Any = SimpleNamespace(bars=lambda promise, by_depth, *unit: torch.tensor([bar, 0.0]), fitted=fitted)
    decider: Any = None  # of which only costs are read
    for unit in ("sample", "patient"):
        reached = f"the calibration {unit}s reach this coverage without that"
        sentence = f"No answer is coarser for being unsure: {reached}."
        assert _asked(rule, decider, AnswerOptions(), unit).sentence == (sentence if said else "")
