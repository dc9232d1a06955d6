"""A finished run as a model: load it, embed samples, calibrate its decisions, predict."""
