"""How much of a batch HiMulConE's pairwise constraint clamps: ``python clamping.py RUN [RUN ...]``.

For the first training batches of each run, with its first and its last weights: the share of the pair losses
of each depth that Eq. 6 of Use All The Labels replaces by the largest pair loss of the next finer depth, and
the share of the gradient that falls on the four most loaded of all rows. A clamped pair has no gradient of
its own; what it loses goes to the one pair that sets the bound.
"""

import sys

import torch

from labeltree.inference.load_run import load_run
from labeltree.losses import HiMulConELoss
from labeltree.training.experiment import Experiment, prepare


def shares(experiment: Experiment, batches: int = 5) -> tuple[list[float], float]:
    """Mean share of clamped pairs at depth 1 ... L-1, and of the gradient's norm on the most loaded row."""
    module, data = experiment.module.eval(), experiment.batches.training
    taxonomy = experiment.source.taxonomy
    temperature = 0.1
    loss = HiMulConELoss(taxonomy, temperature=temperature, variant="paper")
    clamped = torch.zeros(batches, taxonomy.max_depth - 1)
    heaviest = torch.zeros(batches)
    for number, positions in zip(range(batches), experiment.batches.sampler.batches(0), strict=False):
        index = torch.from_numpy(positions)
        images, ids = data.load(index), data.instances[index]
        views = torch.cat([module.views(images, ids, 0, view) for view in range(2)])
        with torch.no_grad():
            z = module.objective.embed(module.encoder(views)).double()
        nodes, instances = data.nodes[index].repeat(2), ids.repeat(2)
        s = z @ z.T / temperature
        off = ~torch.eye(len(z), dtype=torch.bool)
        pair = torch.logsumexp(s.masked_fill(~off, -torch.inf), 1, keepdim=True) - s
        bound = torch.tensor(-torch.inf)
        for depth in range(taxonomy.max_depth, 0, -1):
            path = taxonomy.paths[nodes, depth - 1]
            positive = (path[:, None] == path) & off
            values = pair[positive]
            if depth < taxonomy.max_depth:
                clamped[number, depth - 1] = (values < bound).float().mean()
            bound = torch.maximum(bound, values.max())
        z.requires_grad_()
        loss(z, nodes, instances).backward()
        norms = z.grad.norm(dim=1)
        heaviest[number] = norms.topk(4).values.sum() / norms.sum()
    return clamped.mean(0).tolist(), float(heaviest.mean())


if __name__ == "__main__":
    for path in sys.argv[1:]:
        final = load_run(path)
        start, end = (prepare(final.recipe, final.source) for _ in range(2))
        end.module.encoder.load_state_dict(final.network.encoder.state_dict())
        end.module.objective.load_state_dict(final.network.objective.state_dict())
        for name, experiment in (("start", start), ("end", end)):
            by_depth, rows = shares(experiment)
            text = ", ".join(f"depth {d}: {share:.1%}" for d, share in enumerate(by_depth, 1))
            print(f"{path} ({name}): clamped {text}; 4 of {2 * final.recipe.batch_size} rows hold "
                  f"{rows:.1%} of the gradient")  # fmt: skip
