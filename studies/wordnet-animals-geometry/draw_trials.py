"""Write study.yaml: 24 settings for each of three geometries, drawn at random before any of them was run.

What all geometries have is drawn alike and shared, trial by trial: the learning rate, the layers of the head,
α and γ, and the weights of LAM and of CPCC (in the ball: HypStructure). Each geometry draws its own
temperature, as its similarities have another scale. Where points lie at different radii the gain of the head
is drawn as well, and in the ball the curvature: a ball of curvature −c is that of curvature −1 with √c times
the gain, the temperature and the radius to which points are clipped, so that drawing c draws the clipping.

    python studies/wordnet-animals-geometry/draw_trials.py > studies/wordnet-animals-geometry/study.yaml
"""

import math
import random

HEAD = """\
# Made by draw_trials.py in this folder, which says what is drawn and why.
title: "WordNet's animals, depth 10: three geometries with equal trials (frozen MiniLM)"
claim: "the Poincaré ball adds headroom to HWC+LAM, more on deep trees (Climbing the Label Tree, section 4.6)"
shared:
  data: wordnet-animals   # 191 classes, inner nodes among them, to depth 10
  encoder: minilm
  trainable: head         # the encoder stays as it is: a run is short, so that many settings can be tried
  views: identity
  max_length: 32
  num_views: 1
  epochs: 30
  batch_size: 128
  optimizer.head_lr_factor: 1.0
  objective: hwc+lam+cpcc
  monitor: embeddings_ahp
  accelerator: cpu
baselines: []
seeds: [0, 1, 2, 3, 4]
trial_seed: 0
select: val_embeddings_ahp
methods:
"""
TRIALS = 24
TEMPERATURES = {"sphere": (0.03, 0.5), "euclidean": (0.1, 5.0), "poincare": (0.05, 2.0)}
NAMES = {"sphere": "sphere", "euclidean": "Euclidean", "poincare": "ball"}


def log_uniform(draw: random.Random, low: float, high: float) -> float:
    return float(f"{math.exp(draw.uniform(math.log(low), math.log(high))):.2g}")


def trials_of(geometry: str) -> list[str]:
    shared, own = random.Random(0), random.Random(1)
    lines = []
    for _ in range(TRIALS):
        alpha, gamma = shared.choice([(0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5)])
        settings = {
            "optimizer.lr": log_uniform(shared, 0.001, 0.03),
            "head.layers": shared.choice([1, 2]),
            "hwc.alpha": alpha,
            "hwc.gamma": gamma,
            "term_weights": [1.0, shared.choice([0.0, 0.3, 1.0]), shared.choice([0.0, 0.3, 1.0])],
            "hwc.temperature": log_uniform(own, *TEMPERATURES[geometry]),
        }
        gain, curvature = log_uniform(own, 0.1, 2.0), -log_uniform(own, 0.1, 4.0)
        if geometry != "sphere":
            settings["head.gain"] = gain
        if geometry == "poincare":
            settings["curvature"] = curvature
        lines.append("      - {" + ", ".join(f"{key}: {value}" for key, value in settings.items()) + "}")
    return lines


print(HEAD, end="")
for dim in (128, 8):
    for geometry, name in NAMES.items():
        print(f"  {name}, {dim} dimensions:")
        print(f"    settings: {{geometry: {geometry}, head.dim: {dim}}}")
        print("    trials:")
        print("\n".join(trials_of(geometry)))
