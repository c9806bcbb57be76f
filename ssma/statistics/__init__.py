"""Statistics of comparisons: pure functions over arrays of metrics, each result small and frozen.

A test that cannot be made is a `NotTestable` with its reason, never a NaN. Methods and sources: ``docs/statistics.md``.
"""
