"""Drawings: SVG, the map, the disk, curves of training."""
