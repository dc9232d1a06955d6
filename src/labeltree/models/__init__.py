"""Encoders of images and texts by name, projection heads, and policies for what is trained."""

import labeltree.models.cifar_resnets  # these register the encoders that have a name of their own
import labeltree.models.efficientnet_lite
import labeltree.models.small_image_encoders
import labeltree.models.text_encoders.small_text
import labeltree.models.text_encoders.text_loading
import labeltree.models.vector_encoder  # noqa: F401
from labeltree.models.build import (
    as_pinned,
    build_encoder,
    check_encoder,
    encoder_modality,
    encoder_pair,
    encoder_summaries,
    encoder_with_absolute_path,
    list_encoders,
    pinned_encoder,
    usual_images,
    usually_pretrained,
)
from labeltree.models.chunks import encode_in_chunks, normalises_by_batch
from labeltree.models.encoder import AdaptedEncoder, Encoder, set_trainable
from labeltree.models.encoder_registry import register_encoder
from labeltree.models.feature_queue import KeyQueue
from labeltree.models.head import ProjectionHead
from labeltree.models.lora import add_lora, merged_state, need_lora
from labeltree.models.momentum import MomentumEncoder
from labeltree.models.paired import ImagesAndTexts, PairedEncoder
from labeltree.models.text_encoders.text_encoder import TextEncoder, TokenizedTexts
from labeltree.models.vector_encoder import VectorEncoder
from labeltree.models.weights import load_weights, misfits, save_weights

__all__ = [
    "AdaptedEncoder",
    "Encoder",
    "ImagesAndTexts",
    "KeyQueue",
    "MomentumEncoder",
    "PairedEncoder",
    "ProjectionHead",
    "TextEncoder",
    "TokenizedTexts",
    "VectorEncoder",
    "add_lora",
    "as_pinned",
    "build_encoder",
    "check_encoder",
    "encode_in_chunks",
    "encoder_modality",
    "encoder_pair",
    "encoder_summaries",
    "encoder_with_absolute_path",
    "list_encoders",
    "load_weights",
    "merged_state",
    "misfits",
    "need_lora",
    "normalises_by_batch",
    "pinned_encoder",
    "register_encoder",
    "save_weights",
    "set_trainable",
    "usual_images",
    "usually_pretrained",
]
