"""Ablation studies of neighbourhood aggregation in graph neural networks, and the SSMA operator."""

__version__ = "0.1.0"

RESULT_VERSION = 6
"""Part of every id: raise it when a change to the package changes numbers, and every fit runs again."""
