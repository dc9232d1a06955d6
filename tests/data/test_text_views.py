"""Views of texts: functions of (seed, epoch, instance, view) that leave out whole words."""

import pytest
import torch
from torch import Tensor

from labeltree.data import TextViews

START, END = 101, 102


def batch(lengths: list[int], width: int = 0) -> Tensor:
    """Texts of so many words, every third of two tokens, between two tokens that belong to no word.

    The id of a token tells its word: 1000 + 10 · word + place in the word.
    """
    rows = []
    for words in lengths:
        ids, numbers = [START], [-1]
        for word in range(words):
            for place in range(2 if word % 3 == 0 else 1):
                ids.append(1000 + 10 * word + place)
                numbers.append(word)
        rows.append(([*ids, END], [*numbers, -1]))
    width = max(width, *(len(ids) for ids, _ in rows))
    filled = [[part + [-1] * (width - len(part)) for part in row] for row in rows]
    return torch.tensor(filled, dtype=torch.int32)


def words_of(ids: list[int]) -> list[int]:
    return sorted({(token - 1000) // 10 for token in ids if token >= 1000})


def tokens_of(ids: Tensor) -> list[int]:
    return [token for token in ids.tolist() if token >= 0]


@pytest.mark.parametrize("recipe", ["dropout", "identity"])
def test_recipes_that_change_nothing(recipe) -> None:
    tokens = batch([3, 0, 5])
    view = TextViews(recipe)(tokens, torch.arange(3), epoch=2, view=1)
    assert view.dtype == torch.int64
    assert torch.equal(view, tokens[:, 0].long())


def test_whole_words_go_and_what_stays_closes_up() -> None:
    tokens = batch([12] * 200)
    view = TextViews("word-deletion", seed=3, deletion=0.4)(tokens, torch.arange(200))
    full = tokens_of(tokens[0, 0])
    for ids in view:
        kept = tokens_of(ids)
        assert ids.tolist() == kept + [-1] * (len(ids) - len(kept))  # no gaps
        assert (kept[0], kept[-1]) == (START, END)
        words = words_of(kept)
        assert kept == [t for t in full if t < 1000 or (t - 1000) // 10 in words]  # in order, and whole
    kept_words = sum(len(words_of(ids.tolist())) for ids in view)
    assert abs(kept_words / (200 * 12) - 0.6) < 0.04  # four standard deviations


def test_words_go_independently() -> None:
    view = TextViews("word-deletion", deletion=0.5)(batch([8] * 4000), torch.arange(4000))
    kept = torch.zeros(4000, 8)
    for row, ids in enumerate(view.tolist()):
        kept[row, words_of(ids)] = 1
    correlation = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlation.abs().max() < 0.08


@pytest.mark.parametrize("deletion", [0.9, 1.0])
def test_one_word_stays(deletion) -> None:
    view = TextViews("word-deletion", deletion=deletion)(batch([6, 1, 0, 2] * 50), torch.arange(200))
    counts = torch.tensor([len(words_of(ids)) for ids in view.tolist()]).view(50, 4)
    assert (counts[:, [0, 1, 3]] >= 1).all()
    assert (counts[:, 2] == 0).all()
    if deletion == 1:
        assert (counts[:, [0, 1, 3]] == 1).all()
        first = {words_of(ids)[0] for ids in view.tolist()[::4]}
        assert len(first) > 3  # not always the same word


def test_no_deletion_is_the_text() -> None:
    tokens = batch([4, 2])
    assert torch.equal(TextViews("word-deletion", deletion=0)(tokens, torch.arange(2)), tokens[:, 0].long())


def test_a_view_is_a_function_of_seed_epoch_instance_and_view() -> None:
    tokens, instances = batch([9] * 40), torch.arange(40) + (1 << 40)
    views = TextViews("word-deletion", seed=5, deletion=0.5)
    expected = views(tokens, instances, epoch=3, view=1)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(views(tokens[order], instances[order], 3, 1), expected[order])
    assert torch.equal(views(tokens[:1], instances[:1], 3, 1), expected[:1])
    wider = views(
        torch.cat((batch([9] * 40, width=30), batch([60], width=30)[:, :, :30])),
        torch.cat((instances, torch.tensor([7]))),
        3,
        1,
    )
    assert torch.equal(wider[:40, : expected.shape[1]], expected)
    assert (wider[:40, expected.shape[1] :] == -1).all()
    for other in (
        views(tokens, instances, 4, 1),
        views(tokens, instances, 3, 0),
        views(tokens, instances + 40, 3, 1),
        TextViews("word-deletion", seed=6, deletion=0.5)(tokens, instances, 3, 1),
    ):
        assert (other != expected).any(1).float().mean() > 0.9


def test_a_word_more_changes_nothing_about_the_others() -> None:
    """Which word stays depends on its number alone, so a text that is cut off keeps its view."""
    views = TextViews("word-deletion", deletion=0.5)
    short = views(batch([5] * 50), torch.arange(50)).tolist()
    long = views(batch([20] * 50), torch.arange(50)).tolist()
    same = [words_of(a) == [w for w in words_of(b) if w < 5] for a, b in zip(short, long, strict=True)]
    assert sum(same) >= 46  # all but texts of which one word had to be saved


@pytest.mark.parametrize("shape", [(0, 2, 4), (3, 2, 0)])
def test_nothing_to_view(shape) -> None:
    tokens = torch.full(shape, -1, dtype=torch.int32)
    view = TextViews("word-deletion")(tokens, torch.arange(shape[0]))
    assert view.shape == (shape[0], shape[2])


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="expected one of 'dropout', 'word-deletion', 'identity'"):
        TextViews("crop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="it must be a probability"):
        TextViews("word-deletion", deletion=1.5)
    views = TextViews("dropout")
    with pytest.raises(ValueError, match=r"must be int32 \(b, 2, t\)"):
        views(torch.zeros(2, 2, 3), torch.arange(2))
    with pytest.raises(ValueError, match=r"instances has shape \(3,\); it must be \(2,\)"):
        views(batch([1, 2]), torch.arange(3))
