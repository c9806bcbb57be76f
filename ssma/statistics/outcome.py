"""What a statistic can be: an interval, or the reason why there is none."""

from dataclasses import dataclass

ALPHA = 0.05


@dataclass(frozen=True)
class NotTestable:
    """Stands where a result cannot be had. It never means that there is no difference."""

    reason: str

    def __str__(self) -> str:
        return f"not testable: {self.reason}"


@dataclass(frozen=True)
class Interval:
    """A 95% interval."""

    low: float
    high: float
