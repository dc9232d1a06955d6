"""Encoders by name, projection heads, and policies for what is trained."""

import labeltree.models.bottleneck  # these five register the encoders of our own
import labeltree.models.cifar_resnet
import labeltree.models.plain
import labeltree.models.pyramidnet
import labeltree.models.small  # noqa: F401
from labeltree.models.build import build_encoder, list_encoders
from labeltree.models.encoder import Encoder, set_trainable
from labeltree.models.head import ProjectionHead
from labeltree.models.momentum import MomentumEncoder
from labeltree.models.queue import KeyQueue
from labeltree.models.registry import register_encoder
from labeltree.models.weights import load_weights, save_weights

__all__ = [
    "Encoder",
    "KeyQueue",
    "MomentumEncoder",
    "ProjectionHead",
    "build_encoder",
    "list_encoders",
    "load_weights",
    "register_encoder",
    "save_weights",
    "set_trainable",
]
