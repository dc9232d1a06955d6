"""Images of one patient do not vouch for each other's label."""

import torch

from labeltree.curation.suspects import find_suspects
from labeltree.geometry import Euclidean
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "a1"), ("b", "b1")])


def test_a_patient_whose_images_all_have_the_wrong_label() -> None:
    """Ten images of one patient, alike, all with the same wrong label: every neighbour of theirs agrees."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[4.0, 0, 0, 0], [0, 4.0, 0, 0]])
    classes = torch.arange(200) % 2
    groups = torch.arange(200) // 10  # patients of both classes, but the last
    points = centres[classes] + torch.randn(200, 4, generator=generator)
    wrong = torch.arange(190, 200)
    points[wrong] = torch.tensor([4.0, 0, 0, 3.0]) + 0.01 * torch.randn(10, 4, generator=generator)
    names = torch.where(classes == 0, TREE.find("a1"), TREE.find("b1"))
    names[wrong] = TREE.find("b1")
    ids = [str(number) for number in range(200)]
    scores = {}
    for known in (groups, None):
        found = find_suspects(points, points, names, TREE, geometry=Euclidean(), ids=ids, groups=known, k=9)
        scores[known is None] = found.scores[wrong]
    assert bool((scores[False] > 0.5).all())
    assert bool((scores[True] < 0.5).any()), "without groups they speak for each other"
