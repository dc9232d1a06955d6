"""The promises of `HierarchicalBatchSampler`, checked by slow loops over an epoch's plan."""

from sampling_trees import lca_depth

from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy


def largest_matching(choices: list[list[int]]) -> int:
    """How many can have one of their choices, each choice going to one: augmenting paths."""
    owner: dict[int, int] = {}

    def find(who: int, tried: set[int]) -> bool:
        for choice in choices[who]:
            if choice not in tried:
                tried.add(choice)
                if choice not in owner or find(owner[choice], tried):
                    owner[choice] = who
                    return True
        return False

    return sum(find(who, set()) for who in range(len(choices)))


def check_promises(taxonomy: Taxonomy, sampler: HierarchicalBatchSampler, epoch: int) -> None:
    """Goes through the steps of the class's docstring; the sampler must be of rank 0 of 1."""
    parent, depth = taxonomy.parent.tolist(), taxonomy.depth.tolist()
    nodes = sampler.nodes.tolist()
    plan = sampler.plan(epoch)
    order, wish, shared = plan.order.tolist(), plan.wish.tolist(), plan.shared.tolist()

    # Exactly once, exact sizes.
    assert len(set(order)) == len(order)
    batches = [batch.tolist() for batch in sampler.batches(epoch)]
    assert [sample for batch in batches for sample in batch] == order
    size, n = sampler.batch_size, len(nodes)
    sizes = [size] * (n // size) + ([n % size] if n % size and not sampler.drop_last else [])
    assert [len(batch) for batch in batches] == sizes
    assert len(sampler) == len(sizes)

    # Groups: an anchor, then partners from its label's depth towards 1; full, unless the batch ends.
    wishes: list[tuple[int, int, int]] = []  # anchor, depth, slot
    anchors: list[int] = []
    first = 0
    for batch in batches:
        end = first + len(batch)
        slot = first
        while slot < end and wish[slot] == 0:
            anchor = order[slot]
            assert nodes[anchor] > 0
            anchors.append(anchor)
            slot += 1
            for level in range(depth[nodes[anchor]], 0, -1):
                if slot == end or wish[slot] == -1:
                    break
                assert wish[slot] == level
                wishes.append((anchor, level, slot))
                slot += 1
        fillers = range(slot, end)
        assert all(wish[s] == -1 and nodes[order[s]] <= 0 for s in fillers)
        unplaced = sum(node <= 0 for node in nodes)
        assert abs(len(fillers) - len(batch) * unplaced / n) < 2  # evenly spread
        first = end

    unused = {sample for sample in range(n) if nodes[sample] > 0} - set(anchors)
    common = {
        (anchor, sample): lca_depth(parent, nodes[anchor], nodes[sample])
        for anchor in anchors
        for sample in unused
    }

    # Exact partners, finest depth first.
    for level in range(max(depth), 0, -1):
        here = [(anchor, slot) for anchor, wanted, slot in wishes if wanted == level]
        exact = [(anchor, slot) for anchor, slot in here if shared[slot] == level]
        choices = [[s for s in unused if common[anchor, s] == level] for anchor, _ in here]
        assert len(exact) == largest_matching(choices)
        for anchor, slot in exact:
            assert common[anchor, order[slot]] == level
            unused.remove(order[slot])
        for anchor, slot in here:
            if shared[slot] != level:
                assert not any(common[anchor, sample] == level for sample in unused)

    # Substitutes, finest prefix first; then anything.
    still = [(anchor, wanted, slot) for anchor, wanted, slot in wishes if shared[slot] != wanted]
    assert all(shared[slot] < wanted for _, wanted, slot in still)
    for level in range(max(depth) - 1, -1, -1):
        for anchor, wanted, slot in still:
            if shared[slot] == level:
                assert wanted > level
                assert common[anchor, order[slot]] >= level
                unused.remove(order[slot])
        still = [entry for entry in still if shared[entry[2]] != level]
        for anchor, wanted, _ in still:
            assert wanted <= level or not any(common[anchor, sample] >= level for sample in unused)
    assert not still

    # Coverage, counted again.
    coverage = sampler.coverage(epoch)
    reached = [depth[nodes[anchor]] for anchor in anchors]
    assert set(coverage) == set(range(1, max(reached, default=0) + 1))
    for level, share in coverage.items():
        exact_here = sum(wanted == level == shared[slot] for _, wanted, slot in wishes)
        assert share == exact_here / sum(d >= level for d in reached)
