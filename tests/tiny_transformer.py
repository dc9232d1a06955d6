"""A transformer of a few thousand parameters with a tokenizer of a few words, in a folder."""

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "small", "dog", "##s", "bark", "##ing", ".", "e5", ":"]


def write_tiny_transformer(folder: Path, kind: str = "Bert", seed: int = 1) -> Path:
    """Write one with random weights, as `save_pretrained` of transformers does.

    Args:
        folder: to write into.
        kind: "Bert", "MPNet" or "DistilBert".
        seed: of the weights.
    """
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=24,
    ).save_pretrained(folder)
    sizes = {"vocab_size": len(WORDS), "pad_token_id": 0, "max_position_embeddings": 32}
    if kind == "DistilBert":
        sizes |= {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 16}
    else:
        sizes |= {
            "hidden_size": 8,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "intermediate_size": 16,
        }
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    return folder
