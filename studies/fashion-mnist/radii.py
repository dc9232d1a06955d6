"""Where in the Poincaré ball a run's test embeddings lie: ``python radii.py RUN [RUN ...]``.

Prints the distribution of radii (1 is the rim), and the share of samples whose head output was longer than
the tangent norm at which it is clipped: these lie on one sphere, and their radius tells nothing.
"""

import sys

import torch

from labeltree.geometry import PoincareBall
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source

if __name__ == "__main__":
    for path in sys.argv[1:]:
        run = load_run(path)
        ball = run.network.objective.geometry
        assert isinstance(ball, PoincareBall), f"{path} is not a run in the ball"
        radii = embed_source(run.network, run.source.of_split("test")).embeddings.double().norm(dim=1)
        rim = float(torch.tanh(torch.tensor(ball.max_tangent_norm / 1.0, dtype=torch.float64)))
        spread = ", ".join(f"{float(radii.quantile(q)):.4f}" for q in (0.0, 0.05, 0.5, 0.95, 1.0))
        clipped = float((radii > rim - 1e-4).double().mean())
        print(f"{path}: radius min, 5 %, median, 95 %, max {spread}; clipped {clipped:.1%}")
