"""The encoder of vectors: standardised as the training samples are, whatever parts they come in."""

import torch

from labeltree.models import VectorEncoder, build_encoder, encoder_modality


def test_parts_change_nothing():
    vectors = torch.randn(101, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1e4
    whole, parts = VectorEncoder(5), VectorEncoder(5)
    assert whole.fit([vectors]) == parts.fit(vectors.split(7)) == []
    torch.testing.assert_close(whole.state_dict(), parts.state_dict())
    features = whole(vectors).double()
    torch.testing.assert_close(features.mean(0), torch.zeros(5).double(), atol=1e-2, rtol=0)
    torch.testing.assert_close(features.std(0, correction=0), torch.ones(5).double(), atol=1e-3, rtol=0)


def test_a_constant_column_is_left_out():
    encoder = VectorEncoder(2)
    assert encoder.fit([torch.tensor([[1.0, 0.1], [2.0, 0.1]])]) == [1]
    assert encoder(torch.tensor([[1.5, 9.0]])).tolist() == [[0.0, 0.0]]


def test_it_is_built_again_from_its_width(tmp_path):
    encoder = build_encoder("vectors", image_size=4)
    assert encoder.feature_dim == 4
    assert encoder_modality("vectors") == "vector"
    encoder.save_config(tmp_path)
    assert build_encoder("vectors", config=tmp_path).feature_dim == 4
