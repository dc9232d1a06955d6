"""The column of texts of a table in which none has a usual name: known by its words, and by its name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from labeltree.data.shards.shard_table import ShardTable
from labeltree.data.table_columns import TRIED, DataTable
from labeltree.data.vectors.choose_vectors import count_measured
from labeltree.data.vectors.read_vector_files import VectorTable
from labeltree.errors import DataError
from labeltree.taxonomy.naming import some

__all__ = ["find_text_column", "list_headings", "list_text_columns"]

_TEXTUAL = frozenset(
    (
        *("text", "texts", "description", "title", "headline", "subject", "summary", "abstract", "body"),
        *("content", "review", "comment", "comments", "notes", "sentence", "question", "message", "caption"),
        *("beschreibung", "titel", "texte", "titre", "descripción", "descrizione", "texto", "testo"),
    )
)
_THINGS = frozenset(("product", "item", "article"))  # whose names are texts
_HEADINGS = frozenset(("title", "headline", "subject", "name", "titel", "titre", "título", "titolo"))
_ASIDES = frozenset(("remark", "remarks", "comment", "comments", "note", "notes", "observations"))
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])")
_FILLED = 0.8  # share of the rows that have a text
_DISTINCT = 0.5  # share of the texts that are different
_WORDS = 1.5  # of a text, on average, where the name of the column says so
_MANY_WORDS = 4.0  # where it does not
_VECTOR = 16  # columns of numbers that are a vector rather than what is known of a text
_EITHER = 4  # columns of numbers beside which a remark may be known of a vector


def find_text_column(table: DataTable, others: Collection[str] = ()) -> tuple[str, str] | None:
    """The column of a table whose cells are texts, and a sentence that says so; None if there is none.

    Texts have several words and hardly repeat. Beside many columns of numbers, lists or arrays, which are
    vectors, no column is taken.

    Args:
        table: The table, in which no column has a usual name of images or texts.
        others: Columns with another purpose.

    Raises:
        DataError: If several columns could be meant, none of which is named for texts alone; or if the texts
            may be remarks on vectors.
    """
    if isinstance(table, VectorTable | ShardTable) or (numbers := count_measured(table, others)) >= _VECTOR:
        return None
    if any(table.holds_vectors(name) for name in table.columns):
        return None
    texts = [name for name in table.columns if name not in others and _are_texts(table, name)]
    named = [name for name in texts if _is_named_for_texts(name)] or texts
    if not named:
        return None
    if len(named) > 1:
        raise DataError(
            f"{table}: {some(named, 4)} hold texts; say which are the samples, such as "
            f"--table.text_column {shlex.quote(named[0])}, or '[{named[0]}, {named[1]}]', which are one text"
        )
    if numbers >= _EITHER and (_words(named[0]) & _ASIDES or not _is_named_for_texts(named[0])):
        raise DataError(
            f"{table} has {numbers} columns of numbers and texts in '{named[0]}'; say which are the samples: "
            f"--table.text_column {shlex.quote(named[0])}, or --table.vector_column with those of numbers"
        )
    return named[0], f"the texts are those of '{named[0]}', by its words; --table.text_column names others"


def list_text_columns(table: DataTable, others: Collection[str]) -> list[str]:
    """The columns of a table but these others that are named for texts and hold some."""
    if isinstance(table, VectorTable | ShardTable):
        return []
    names = [name for name in table.columns if name not in others and _is_named_for_texts(name)]
    return [name for name in names if _are_texts(table, name)]


def list_headings(table: DataTable, others: Collection[str]) -> list[str]:
    """The columns of a table but these others that hold the headings of its texts, such as a title."""
    return [name for name in list_text_columns(table, others) if _words(name) & _HEADINGS]


def _is_named_for_texts(column: str) -> bool:
    words = _words(column)
    return bool(words & _TEXTUAL) or ("name" in words and bool(words & _THINGS))


def _words(column: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(column)}


def _are_texts(table: DataTable, column: str) -> bool:
    """Whether most cells of a column, among the first thousand, are different texts of several words."""
    if not column or table.holds_lists(column) or table.holds_numbers(column):
        return False
    texts = table.head(column)
    if len(texts) < 2 or len(texts) < _FILLED * min(table.num_rows, TRIED):
        return False
    words = [len([word for word in text.split() if any(map(str.isalpha, word))]) for text in texts]
    fewest = _WORDS if _is_named_for_texts(column) else _MANY_WORDS
    separated = sum(" > " in text or "/" in text for text in texts)
    return (
        len(set(texts)) >= _DISTINCT * len(texts)
        and sum(words) >= fewest * len(texts)
        and 2 * separated < len(texts)
    )
