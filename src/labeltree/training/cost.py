"""What training an encoder on large images will take, before hours of it: one small step is tried."""

from __future__ import annotations

import copy
import time

import torch

from labeltree.training.experiment import Experiment
from labeltree.training.length import epochs_and_batch_size

__all__ = ["cost_note"]

_SIDE = 96  # pixels from which on an estimate is made
_IMAGES = 2
_HOURS, _GIGABYTES = 0.2, 4.0  # below both, nothing is said


def cost_note(experiment: Experiment) -> str | None:
    """A sentence on the hours and the memory of a training on this machine's processor; None if it is short.

    A forward and a backward pass of two images is timed, on a copy of the encoder, without touching the
    state of the random numbers. GPUs, texts, frozen encoders and small images are not estimated.
    """
    module, source = experiment.module, experiment.source
    trained = any(parameter.requires_grad for parameter in module.encoder.parameters())
    on_cpu = module.recipe.accelerator == "cpu" or not torch.cuda.is_available()
    if module.encoder.modality != "image" or not trained or not on_cpu or module.reads_features:
        return None
    shape = source.image_shape
    if min(shape[1:]) < _SIDE:
        return None
    seconds, size = _try(module.encoder, shape)
    epochs, batch_size = epochs_and_batch_size(module.recipe)
    views = module.objective.num_views
    hours = seconds * views * epochs * len(source.of_split("train")) / 3600
    at_once = min(batch_size * views, module.recipe.encode_chunk or batch_size * views)
    gigabytes = size * at_once / 1e9
    if hours < _HOURS and gigabytes < _GIGABYTES:
        return None
    return (
        f"training at {shape[1]} × {shape[2]} pixels takes about {hours:.1f} hours here, and the activations "
        f"of a batch {gigabytes:.1f} GB; a smaller --image_size, --trainable head, or --encode_chunk for the "
        "memory, take less"
    )


def _try(encoder: torch.nn.Module, shape: tuple[int, int, int]) -> tuple[float, float]:
    """Seconds and bytes of activations an image."""
    with torch.random.fork_rng(devices=[]):
        tried = copy.deepcopy(encoder).cpu()
        images = torch.rand(_IMAGES, *shape)
        for _ in range(2):  # the first time is slower
            kept: dict[int, int] = {}

            def keep(tensor: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
                kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
                return tensor

            start = time.perf_counter()
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                tried(images).sum().backward()
            seconds = time.perf_counter() - start
            if seconds > 1:
                break
    weights = sum(p.numel() * p.element_size() for p in tried.parameters())
    return seconds / _IMAGES, max(sum(kept.values()) - weights, 0) / _IMAGES
