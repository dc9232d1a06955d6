"""What training an encoder on large images or on texts will take: one small step is tried before."""

from __future__ import annotations

import copy
import time

import torch

from labeltree.progress import duration
from labeltree.training.experiment import Experiment
from labeltree.training.tokens_and_views import open_inputs
from labeltree.training.training_length import epochs_and_batch_size

__all__ = ["cost_note"]

_SIDE = 96  # pixels from which on an estimate is made
_IMAGES = 2
_HOURS, _GIGABYTES = 0.2, 4.0  # below both, nothing is said
_TEXTS = 16  # that are tried, evenly spaced
_MINUTES = 1.0  # of training on texts below which nothing is said


def cost_note(experiment: Experiment) -> str | None:
    """A sentence on the hours and the memory of a training on this machine's processor; None if it is short.

    A forward and a backward pass of two images, or a few texts, is timed, on a copy of the encoder, without
    touching the state of the random numbers. GPUs, frozen encoders and small images are not estimated.
    """
    module, source = experiment.module, experiment.source
    trained = any(parameter.requires_grad for parameter in module.encoder.parameters())
    on_cpu = module.recipe.accelerator == "cpu" or not torch.cuda.is_available()
    if not trained or not on_cpu or module.reads_features:
        return None
    if module.encoder.modality == "text":
        return _cost_of_texts(experiment)
    if module.encoder.modality != "image":
        return None
    shape = source.image_shape
    if min(shape[1:]) < _SIDE:
        return None
    seconds, size = _try(module.encoder, shape)
    _, batch_size = epochs_and_batch_size(module.recipe)
    views = module.objective.num_views
    hours = seconds * _count_passes(experiment) / 3600
    at_once = min(batch_size * views, module.recipe.encode_chunk or batch_size * views)
    gigabytes = size * at_once / 1e9
    if hours < _HOURS and gigabytes < _GIGABYTES:
        return None
    return (
        f"training at {shape[1]} × {shape[2]} pixels takes about {hours:.1f} hours here, and the activations "
        f"of a batch {gigabytes:.1f} GB; a smaller --image_size, --trainable head, or --encode_chunk for the "
        "memory, take less"
    )


def _count_passes(experiment: Experiment) -> int:
    """How often a sample passes through the encoder in training."""
    epochs, _ = epochs_and_batch_size(experiment.module.recipe)
    return experiment.module.objective.num_views * epochs * len(experiment.source.of_split("train"))


def _cost_of_texts(experiment: Experiment) -> str | None:
    """A sentence on the minutes of training a text encoder, and of the head alone."""
    module, source = experiment.module, experiment.source
    seconds, forward = _try_texts(experiment)
    whole = seconds * _count_passes(experiment)
    if whole < 60 * _MINUTES:
        return None
    faster = "a smaller --epochs or --max_length takes less"
    if module.recipe.pretrained:
        head = duration(max(1.0, forward * len(source)))
        faster = (
            f"--trainable head keeps the encoder as it is: its features take about {head}, the head seconds "
            "more (the guide 'Which objective?' compares the two)"
        )
    return f"training the encoder on texts takes about {duration(whole)} on this processor; {faster}"


def _try_texts(experiment: Experiment) -> tuple[float, float]:
    """Seconds a text of training, and of a pass forwards alone."""
    module, source = experiment.module, experiment.source
    training = source.of_split("train")
    places = torch.linspace(0, len(training) - 1, min(_TEXTS, len(training))).round().long()
    inputs = open_inputs(source, module.encoder, module.recipe).load(training.rows[places])
    assert isinstance(inputs, torch.Tensor)
    tokens = inputs[:, 0].long()  # without the words that they belong to
    with torch.random.fork_rng(devices=[]):
        tried = copy.deepcopy(module.encoder).cpu()
        for _ in range(2):  # the first time is slower
            start = time.perf_counter()
            points = tried(tokens)
            forward = time.perf_counter() - start
            points.sum().backward()
            seconds = time.perf_counter() - start
    return seconds / len(places), forward / len(places)


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
