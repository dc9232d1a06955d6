"""Samples that pages show: pictures, searches, explanations of answers."""
