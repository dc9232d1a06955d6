"""A run as files that other programs use: ONNX, labels, preprocessing, a model card."""
