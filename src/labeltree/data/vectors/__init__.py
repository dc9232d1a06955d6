"""Vectors as samples: features of another model, single cells, sounds, molecules, rows of numbers."""
