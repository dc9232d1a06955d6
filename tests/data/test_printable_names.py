"""Names of files may hold what a terminal obeys; they are shown as escapes."""

from labeltree.data.source import printable
from labeltree.index.search_results import _short


def test_what_a_terminal_obeys_becomes_an_escape() -> None:
    assert printable("a\x1b[2J\u202egpj.png\x07") == "a\\x1b[2J\\u202egpj.png\\x07"
    assert printable("räksmörgås 日本\u202f.png") == "räksmörgås 日本\u202f.png"
    assert printable(b"caf\xe9.png".decode("utf-8", "surrogateescape")) == "caf\\xe9.png"


def test_the_query_of_a_search_is_shown_so() -> None:
    assert _short("two\nlines \x1b[31mred") == "two lines \\x1b[31mred"
