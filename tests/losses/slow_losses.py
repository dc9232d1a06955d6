"""Every loss once more, as slow double loops over its definition, on float64 scalars that carry gradients.

Labels are compared by walking up the tree; no relation codes and no pair statistics.
"""

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy


def random_tree(seed: int, num_nodes: int = 13) -> Taxonomy:
    """A ragged tree in which siblings' children repeat their names."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(num_nodes, generator=generator).sqrt()
    parents = [-1] + [int(draws[v] * v) for v in range(1, num_nodes)]
    paths = [()]
    for v in range(1, num_nodes):
        paths.append((*paths[parents[v]], f"child {sum(p == parents[v] for p in parents[:v])}"))
    return Taxonomy.from_paths([path for v, path in enumerate(paths) if v and v not in parents])


def even_tree(*branching: int) -> Taxonomy:
    """All leaves at one depth; the same names everywhere."""
    paths: list[tuple[str, ...]] = [()]
    for width in branching:
        paths = [(*path, str(child)) for path in paths for child in range(width)]
    return Taxonomy.from_paths(paths)


def random_batch(tree: Taxonomy, seed: int, n: int = 12, d: int = 4, *, leaves: bool = False):
    """Embeddings inside the unit ball; labels of all sorts or leaves alone; one to three views a sample."""
    generator = torch.Generator().manual_seed(1000 + seed)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    z = 0.7 * z / z.norm(dim=1).max()
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    if leaves:
        nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=generator)]
    instances = torch.randint(0, n // 2, (n,), generator=generator)
    for instance in instances.unique():
        nodes[instances == instance] = nodes[instances == instance][0]
    return z, nodes, instances


def line(tree: Taxonomy, node: int) -> list[int]:
    """Root, …, node."""
    return [node] if node == 0 else [*line(tree, int(tree.parent[node])), node]


def agree(tree: Taxonomy, u: int, v: int, depth: int) -> bool | None:
    """Whether two labels agree at a depth; None: their labels do not tell."""
    if u < 0 or v < 0:
        return None
    a, b = line(tree, u), line(tree, v)
    for x, y in zip(a[: depth + 1], b[: depth + 1], strict=False):
        if x != y:
            return False
    if u == v and not tree.children(u):
        return True
    return True if min(len(a), len(b)) > depth else None


def shared(tree: Taxonomy, u: int, v: int) -> int:
    """Depth of the LCA; 0 where a label is missing."""
    if u < 0 or v < 0:
        return 0
    return sum(x == y for x, y in zip(line(tree, u), line(tree, v), strict=False)) - 1


def depth_of(tree: Taxonomy, u: int) -> int:
    return len(line(tree, u)) - 1 if u >= 0 else 0


def similarities(
    z: Tensor, temperature: float, kind: str = "cosine", curvature: float = -1.0
) -> list[list[Tensor]]:
    def one(x: Tensor, y: Tensor) -> Tensor:
        if kind == "cosine":
            return (x @ y) / (x.norm() * y.norm())
        if kind == "chord":
            return -(x / x.norm() - y / y.norm()).norm()
        if kind == "euclidean":
            return -(x - y).norm()
        k = curvature
        return (
            -torch.acosh(1 - 2 * k * ((x - y) @ (x - y)) / ((1 + k * (x @ x)) * (1 + k * (y @ y))))
            / (-k) ** 0.5
        )

    n = len(z)
    return [
        [one(z[i], z[k]) / temperature if i != k else z.new_zeros(()) for k in range(n)] for i in range(n)
    ]


class SlowSoftmax:
    """L_i = Σ_p weight·(−log q_ip) / Σ_p share, with everything about a pair given by functions of (i, k)."""

    def __init__(self, s, positive, member, share=None, omega=lambda i, k: 1.0):
        self.rows = []  # per anchor: Σ weight × pair loss, Σ share
        for i in range(len(s)):
            others = [k for k in range(len(s)) if k != i]
            logits = [omega(i, k) * s[i][k] for k in others if member(i, k)]
            row, total = s[i][0] * 0.0, 0.0
            for p in others:
                if positive(i, p) > 0:
                    row = row + positive(i, p) * (
                        torch.logsumexp(torch.stack(logits), 0) - omega(i, p) * s[i][p]
                    )
                    total += positive(i, p) if share is None else share(i, p)
            self.rows.append((row, total))

    def reduce(self, reduction):
        means = [row / total for row, total in self.rows if total > 0]
        zero = self.rows[0][0] * 0.0
        if reduction == "none":
            return torch.stack([row / total if total > 0 else zero for row, total in self.rows])
        if not means:
            return zero
        if reduction == "pairs":
            return sum(row for row, _ in self.rows) / sum(total for _, total in self.rows)
        return sum(means) / {"valid": len(means), "all": len(self.rows), "sum": 1}[reduction]


class Pairs:
    """What a batch's labels say about its pairs."""

    def __init__(self, tree, nodes, instances, undecided="ignore"):
        self.tree, self.negative = tree, undecided == "negative"
        self.nodes, self.instances = nodes.tolist(), instances.tolist()

    def views(self, i, k):
        return self.instances[i] == self.instances[k]

    def agree(self, i, k, depth):
        return True if self.views(i, k) else agree(self.tree, self.nodes[i], self.nodes[k], depth)

    def member(self, depth):
        return lambda i, k: self.negative or self.agree(i, k, depth) is not None

    def positive(self, depth):
        return lambda i, k: float(self.agree(i, k, depth) is True)

    def rho(self, kind):
        def value(i, k):
            u, v = self.nodes[i], self.nodes[k]
            top = shared(self.tree, u, v)
            if kind == "max_depth":
                return top / self.tree.max_depth
            if kind == "same_one":
                same = u == v and u > 0 and (self.views(i, k) or not self.tree.children(u))
                return 1.0 if same else top / self.tree.max_depth
            shallower = min(depth_of(self.tree, u), depth_of(self.tree, v))
            return top / shallower if shallower else 0.0

        return value


def slow_hwc(
    tree, pairs, rho, alpha, gamma, omega_max=99.0, positives="same", control=None, reduction="pairs"
):
    """HWC of similarities: ω from the shared depth, inside the softmax; or one of its controls."""
    depth, r = tree.max_depth, pairs.rho(rho)
    member, n = pairs.member(depth), len(pairs.nodes)
    positive = pairs.positive(depth) if positives == "same" else lambda i, k: float(pairs.views(i, k))

    def omega(i, k):
        value = 1 + alpha * r(i, k) if positive(i, k) else 1 + gamma * (1 - r(i, k))
        return min(value, omega_max)

    def loss(s):
        if control == "outside_softmax":
            weight = lambda i, k: positive(i, k) * (1 + alpha * r(i, k))  # noqa: E731
            return SlowSoftmax(s, weight, member, share=positive).reduce(reduction)
        used = omega
        if control == "constant_omega":
            values = [omega(i, k) for i in range(n) for k in range(n) if i != k and member(i, k)]
            used = lambda i, k: sum(values) / len(values)  # noqa: E731
        return SlowSoftmax(s, positive, member, omega=used).reduce(reduction)

    return loss


def slow_hierarchy(tree, s, pairs, weights, *, positives="nested", constrained=False, detach=False):
    """HiMulCon, or with `constrained` HiMulConE, mean over anchors; the bounds pair by pair."""
    n, depths = len(s), tree.max_depth
    total, bound = s[0][0] * 0.0, None
    for depth in range(depths, 0, -1):
        positive, member = pairs.positive(depth), pairs.member(depth)
        means, here = [], []
        for i in range(n):
            others = [k for k in range(n) if k != i]
            chosen = [p for p in others if positive(i, p)]
            if positives == "exact" and depth < depths:
                chosen = [p for p in chosen if pairs.agree(i, p, depth + 1) is not True]
            if not chosen:
                continue
            lse = torch.logsumexp(torch.stack([s[i][k] for k in others if member(i, k)]), 0)
            losses = [lse - s[i][p] for p in chosen]
            if constrained and bound is not None:
                limit = bound.detach() if detach else bound
                losses = [loss if loss >= limit else limit for loss in losses]
            means.append(sum(losses) / len(losses))
            here += [lse - s[i][p] for p in chosen]
        if means:
            total = total + weights[depth - 1] / depths * sum(means) / len(means)
            largest = max(here)
            bound = largest if bound is None or largest > bound else bound
    return total


def slow_published(tree, z, pairs, temperature, base_temperature, *, constrained, weighted):
    """The authors' code by its description: label prefixes, finest first, fewer and fewer samples."""
    depths = tree.max_depth
    alive = list(dict.fromkeys(pairs.instances))  # samples in the order of the batch
    label = dict(zip(pairs.instances, pairs.nodes, strict=True))
    alive = [x for x in alive if label[x] >= 0]

    def at(sample, depth):
        way = line(tree, label[sample])
        if len(way) > depth:
            return way[depth]
        return None if tree.children(label[sample]) else label[sample]

    total, largest = z.sum() * 0.0, None
    for depth in range(depths, 0, -1):
        rows = [i for i, x in enumerate(pairs.instances) if x in alive and at(x, depth) is not None]
        means = []
        for i in rows:
            others = [k for k in rows if k != i]
            chosen = [p for p in others if at(pairs.instances[p], depth) == at(pairs.instances[i], depth)]
            if chosen:
                s = {k: (z[i] @ z[k]) / (z[i].norm() * z[k].norm()) / temperature for k in others}
                lse = torch.logsumexp(torch.stack(list(s.values())), 0)
                means.append(sum(lse - s[p] for p in chosen) / len(chosen))
        loss = temperature / base_temperature * sum(means) / len(means) if means else z.sum() * 0.0
        if constrained and largest is not None and largest > loss:
            loss = largest
        largest = loss if largest is None or loss > largest else largest
        weight = 2.718281828459045 ** (1 / (depths + 1 - depth)) if weighted else 1.0
        total = total + weight * loss / (depths + 1)
        firsts, seen = [], set()
        for x in alive:
            node = at(x, depth)
            if node is None or node not in seen:
                firsts.append((label[x] if node is None else node, x))
                seen.add(node)
        alive = [x for _, x in sorted(firsts, key=lambda pair: pair[0])]
    return total


def slow_margin(tree, z, nodes, prototypes, seen, margins, weights, distance, divisor):
    """LAM for given prototypes, by Eq. 11."""
    total = z.sum() * 0.0
    for depth in range(1, tree.max_depth):
        inner = [
            v for v in range(len(tree)) if depth_of(tree, v) == depth and tree.children(v) and bool(seen[v])
        ]
        hinges, count = [], 0
        for i, node in enumerate(nodes.tolist()):
            way = line(tree, node) if node >= 0 else []
            if len(way) > depth and way[depth] in inner:
                count += 1
                if len(inner) > 1:
                    mine = distance(z[i], prototypes[way[depth]])
                    other = min(distance(z[i], prototypes[b]) for b in inner if b != way[depth])
                    hinges.append((mine - other + margins[depth - 1]).clamp(min=0))
        if hinges:
            total = total + weights[depth - 1] * sum(hinges) / (len(z) if divisor == "batch" else count)
    return total
