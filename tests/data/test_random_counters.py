"""The hash behind all views: the same as SplitMix64 on unsigned integers, and uniform."""

import torch

from labeltree.data import counter_rng

MASK = (1 << 64) - 1


def splitmix_finaliser(x: int) -> int:
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def test_tensors_hash_like_unsigned_integers():
    values = [0, 1, -1, 2**31, -(2**63), 2**63 - 1, 0x123456789ABCDEF, -987654321]
    hashed = counter_rng._mix(torch.tensor(values)).tolist()
    assert [h & MASK for h in hashed] == [splitmix_finaliser(v) for v in values]


def test_first_numbers_are_those_of_the_published_generator():
    # SplitMix64 seeded with 0 gives these first (java.util.SplittableRandom, and the C reference).
    first = counter_rng.bits(torch.zeros(1, dtype=torch.int64), 3)[0].tolist()
    assert [f & MASK for f in first] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_every_part_of_the_key_counts():
    ids = torch.arange(1000)
    keys = [
        counter_rng.sample_keys(0, 0, 0, ids),
        counter_rng.sample_keys(1, 0, 0, ids),
        counter_rng.sample_keys(0, 1, 0, ids),
        counter_rng.sample_keys(0, 0, 1, ids),
        counter_rng.sample_keys(-1, 0, 0, ids),
    ]
    assert len(torch.cat(keys).unique()) == 5000


def test_numbers_are_uniform_and_uncorrelated():
    # Neighbouring instances, epochs and streams are the worst case for a weak hash.
    numbers = torch.cat(
        [
            counter_rng.uniform(counter_rng.sample_keys(7, epoch, 0, torch.arange(20_000)), 3)
            for epoch in range(2)
        ],
        1,
    )
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = torch.histc(numbers, 50, 0, 1)
    expected = numbers.numel() / 50
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 95  # 49 degrees of freedom: exceeded once in 10,000 seeds
    correlation = torch.corrcoef(numbers.T) - torch.eye(6)
    assert correlation.abs().max() < 0.03
    shifted = torch.corrcoef(torch.stack((numbers[:-1, 0], numbers[1:, 0])))
    assert shifted[0, 1].abs() < 0.03


def test_streams_keep_their_numbers():
    keys = counter_rng.sample_keys(3, 1, 0, torch.arange(5))
    together = counter_rng.uniform(keys, 8)
    assert torch.equal(together[:, 3:6], counter_rng.uniform(keys, 3, first=3))
