"""The queue of keys: first in, first out, nothing made up, the same on every rank."""

import copy
import doctest

import pytest
import torch
from torch import distributed

import labeltree.models.feature_queue as queue_module
from forked import start_ranks
from labeltree.models import KeyQueue

pytestmark = pytest.mark.slow


def numbered(first: int, count: int):
    """Keys that say their number in every column, nodes 100 + number, instances 1000 + number."""
    numbers = torch.arange(first, first + count)
    return numbers[:, None].expand(count, 3).float(), 100 + numbers, 1000 + numbers


def holds(queue: KeyQueue, numbers: list[int]) -> None:
    assert len(queue) == len(numbers)
    assert queue.vectors.shape == (len(numbers), 3)
    assert queue.vectors[:, 0].tolist() == numbers
    assert queue.nodes.tolist() == [100 + number for number in numbers]
    assert queue.instances.tolist() == [1000 + number for number in numbers]


def test_it_begins_empty_and_keeps_the_newest_in_order():
    queue = KeyQueue(5, 3)
    holds(queue, [])
    first = 0
    for count in (2, 2, 0, 3, 1, 5, 12, 4):
        queue.enqueue(*numbered(first, count))
        first += count
        holds(queue, list(range(max(first - 5, 0), first)))


def test_a_pending_backward_is_not_disturbed():
    queue = KeyQueue(2, 3)
    queue.enqueue(*numbered(1, 2))
    query = torch.ones(1, 3, requires_grad=True)
    loss = (query @ queue.vectors.T).square().sum()
    queue.enqueue(*numbered(7, 2))
    loss.backward()
    assert query.grad[0, 0] == 2 * (3 * 1 + 6 * 2)


def test_keys_are_kept_without_gradient():
    queue = KeyQueue(4, 3)
    vectors, nodes, instances = numbered(0, 3)
    queue.enqueue(vectors.clone().requires_grad_(), nodes, instances)
    assert not queue.vectors.requires_grad
    assert not list(queue.parameters())


@pytest.mark.parametrize("count", [0, 3, 5, 13])
def test_the_state_holds_everything(count):
    queue = KeyQueue(5, 3)
    queue.enqueue(*numbered(0, count))
    loaded = KeyQueue(5, 3)
    loaded.enqueue(*numbered(50, 4))
    loaded.load_state_dict(queue.state_dict())
    for other in (loaded, copy.deepcopy(queue)):
        holds(other, list(range(max(count - 5, 0), count)))
        other.enqueue(*numbered(count, 2))
        holds(other, list(range(max(count - 3, 0), count + 2)))
    with pytest.raises(RuntimeError, match="size mismatch"):
        KeyQueue(6, 3).load_state_dict(queue.state_dict())


def test_other_dtypes_and_inference_mode():
    queue = KeyQueue(5, 3).double()
    vectors, nodes, instances = numbered(0, 3)
    queue.enqueue(vectors.bfloat16(), nodes.int(), instances)
    assert queue.vectors.dtype == torch.float64
    assert queue.nodes.dtype == queue.instances.dtype == torch.int64
    holds(queue, [0, 1, 2])
    queue.to(torch.bfloat16)
    assert queue.vectors.dtype == torch.bfloat16
    large = torch.tensor([2**40 + 1])
    queue.enqueue(vectors[:1], large, large)
    assert queue.nodes[-1] == queue.instances[-1] == large


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 4), torch.ones(2), torch.ones(2)), r"keys must have shape \(b, 3\); got \(2, 4\)"),
        ((torch.ones(3), torch.ones(3), torch.ones(3)), r"keys must have shape \(b, 3\); got \(3,\)"),
        ((torch.ones(2, 3), torch.ones(3), torch.ones(2)), r"nodes must have shape \(2,\), one per key; got"),
        ((torch.ones(2, 3), torch.ones(2), torch.ones(2, 1)), r"instances must have shape \(2,\)"),
    ],
)
def test_wrong_keys(arguments, message):
    with pytest.raises(ValueError, match=message):
        KeyQueue(5, 3).enqueue(*arguments)


@pytest.mark.parametrize("size", [0, -1, 2.0])
def test_wrong_sizes(size):
    with pytest.raises(ValueError, match=r"size is .*; expected a whole number above 0"):
        KeyQueue(size, 3)
    with pytest.raises(ValueError, match=r"dim is .*; expected a whole number above 0"):
        KeyQueue(3, size)


def test_the_example():
    assert doctest.testmod(queue_module).failed == 0


def _rank(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    queue = KeyQueue(7, 3)
    first = 0
    for counts in ((2, 1), (0, 3), (1, 0), (6, 5), (0, 0)):
        queue.enqueue(*numbered(first + counts[0] * rank, counts[rank]))
        first += sum(counts)
        holds(queue, list(range(max(first - 7, 0), first)))
    torch.save(queue.state_dict(), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_ranks_hold_the_same_keys_in_the_same_order(tmp_path):
    start_ranks(_rank, (str(tmp_path),), nprocs=2)
    states = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    alone = KeyQueue(7, 3)
    alone.load_state_dict(states[1])
    alone.enqueue(*numbered(18, 1))
    holds(alone, list(range(12, 19)))
