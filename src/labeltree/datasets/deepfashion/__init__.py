"""DeepFashion (Liu et al. 2016): Category and Attribute Prediction, and In-Shop Clothes Retrieval."""
