"""Tokens in flat arrays: batches as a loop would make them."""

import numpy as np
import pytest
import torch

from labeltree.data import TokenStore
from labeltree.errors import DataError


def flat(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays of texts whose every token is a word."""
    ids = np.array([token for text in texts for token in text], np.int32)
    words = np.array([place for text in texts for place in range(len(text))], np.int32)
    return ids, words, np.cumsum([0, *map(len, texts)])


TEXTS = [[5, 6, 7], [], [8], [9, 10, 11, 12], [0]]


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [4, 2], [3, 3, 0], [1], [1, 1], []])
def test_batches_are_those_of_a_loop(rows: list[int]) -> None:
    tokens = TokenStore(*flat(TEXTS)).load(torch.tensor(rows, dtype=torch.int64))
    width = max((len(TEXTS[row]) for row in rows), default=0)
    assert tokens.dtype == torch.int32
    assert tokens.shape == (len(rows), 2, width)
    for row, (ids, words) in zip(rows, tokens.tolist(), strict=True):
        text = TEXTS[row]
        assert ids == text + [-1] * (width - len(text))
        assert words == list(range(len(text))) + [-1] * (width - len(text))


def test_what_lies_behind_the_last_text_is_never_touched() -> None:
    store = TokenStore(*flat([[1, 2, 3], [4]]))
    assert len(store) == 2
    assert store.load(torch.tensor([1, 0]))[:, 0].tolist() == [[4, -1, -1], [1, 2, 3]]


def test_no_texts() -> None:
    store = TokenStore(np.empty(0, np.int32), np.empty(0, np.int32), np.zeros(1, np.int64))
    assert len(store) == 0
    assert store.load(torch.empty(0, dtype=torch.int64)).shape == (0, 2, 0)


def test_arrays_in_a_mapped_file(tmp_path) -> None:
    ids, words, offsets = flat(TEXTS)
    np.save(tmp_path / "ids.npy", ids)
    store = TokenStore(np.load(tmp_path / "ids.npy", mmap_mode="r"), words, offsets)
    assert store.load(torch.tensor([3]))[0, 0].tolist() == TEXTS[3]


def test_more_tokens_than_float32_can_count() -> None:
    """Offsets above 2²⁴ are exact: nothing on the way is a float."""
    total = (1 << 24) + 3
    ids = np.zeros(total, np.int32)
    ids[-2:] = 7, 8
    store = TokenStore(ids, ids, np.array([0, total - 2, total]))
    assert store.load(torch.tensor([1]))[0, 0].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("ids", "words", "offsets", "says"),
    [
        ([1, 2], [0], [0, 2], "expected one of each"),
        ([1, 2], [0, 1], [0, 1], "must run from 0 to 2"),
        ([1, 2], [0, 1], [1, 2], "must run from 0 to 2"),
        ([1, 2], [0, 1], [], "must run from 0 to 2"),
        ([1, 2], [0, 1], [0, 2, 1, 2], "fall behind text 1"),
    ],
)
def test_arrays_that_do_not_fit(ids: list[int], words: list[int], offsets: list[int], says: str) -> None:
    with pytest.raises(DataError, match=says):
        TokenStore(np.array(ids), np.array(words), np.array(offsets, np.int64))
