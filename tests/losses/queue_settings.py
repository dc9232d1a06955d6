"""The losses over a queue as tests build them, and the trees that they are tested on."""

import math

from slow_losses import even_tree, random_tree

from labeltree.losses import ASCLLoss, GrafitLoss, MaskConLoss, NNCLRLoss, SelfConLoss

TREES = {"even": even_tree(2, 3), "deep and ragged": random_tree(3), "ragged": random_tree(8)}
INF = math.inf


def settings():
    yield "maskcon", lambda t, **o: MaskConLoss(t, 0.5, 0.2, 0.7, **o), (0.2, 0.7, True)
    yield "nearest", lambda t, **o: MaskConLoss(t, 0.5, 0.0, 1.0, **o), (0.0, 1.0, True)
    yield "no mask", lambda t, **o: MaskConLoss(t, 0.5, 0.1, 0.4, mask=False, **o), (0.1, 0.4, False)
    yield "grafit", lambda t, **o: GrafitLoss(t, 0.5, 0.3, **o), (INF, 0.3, True)
    yield "selfcon", lambda t, **o: SelfConLoss(0.5, **o), (1.0, 0.0, False)
    yield "nnclr", lambda t, **o: NNCLRLoss(0.5, **o), (0.0, 1.0, False)
    yield "ascl", lambda t, **o: ASCLLoss(0.5, 0.3, **o), (0.3, "entropy", False)
    yield "ascl c", lambda t, **o: ASCLLoss(0.5, 0.3, trust="confidence", **o), (0.3, "confidence", False)


SETTINGS = {name: (make, how) for name, make, how in settings()}
