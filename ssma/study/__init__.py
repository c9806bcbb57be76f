"""A study file becomes a plan of arms. Pure Python: nothing here imports torch."""
