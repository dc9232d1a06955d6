"""Training: recipes, objectives, runs."""
