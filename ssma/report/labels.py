"""How settings, values and metrics are written for readers, the same in tables, figures and pages."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.statistics.outcome import ALPHA, Interval
from ssma.study.ids import canonical_json
from ssma.study.names import short, told
from ssma.study.settings import GROUPS

if TYPE_CHECKING:
    import pandas

NAMES = {
    "model.budget": "parameter budget",
    "model.num_layers": "number of layers",
    "model.hidden_channels": "hidden channels",
    "training.lr": "learning rate",
    "training.max_epochs": "epochs at most",
    "ssma.compression": "compression rate",
    "ssma.kappa": "kappa (neighbour slots)",
    "ssma.learn_affine": "learned affine map",
    "ssma.selection": "neighbour selection",
}
METRIC_NAMES = {"f1": "macro F1", "mae": "MAE", "rmse": "RMSE", "ap": "AP", "auroc": "AUROC"}
IN_PERCENT = ("accuracy", "f1", "ap")
SHARES = (*IN_PERCENT, "auroc")  # from 0 to 1
ERRORS = ("mae", "rmse")
SMALL = 1e-3  # errors below it lose their digits in four decimals
TINY = ".1g"


def setting(key: str) -> str:
    """Returns a setting's name in words; an option of an aggregator other than SSMA is told as a study names it."""
    own = key.partition(".")[0] in (*GROUPS, "ssma")
    return NAMES.get(key, short(key).replace("_", " ") if own else key)


def value_text(value: Any) -> str:
    """Returns a setting's value as a short text: 100000 as 100k, true as yes.

    Different numbers have different texts: both tell as many digits as a plan keeps.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        for size, letter in ((1_000_000, "M"), (1_000, "k")):
            if value >= 10 * 1_000 and value >= size and value % (size / 10) == 0:
                return f"{value / size:.12g}{letter}"
        return f"{value:.12g}" if isinstance(value, float) else str(value)
    return str(told(value)) if value is None or isinstance(value, bool | str) else canonical_json(value)


def acts(key: str, aggregator: str) -> bool:
    """Says whether a setting can do anything where this aggregator is used: options of others cannot."""
    group = key.partition(".")[0]
    return key == "aggregator" or group in GROUPS or group == aggregator


def acting(point: dict[str, Any]) -> dict[str, Any]:
    """Returns a point without the options of aggregators that it does not have."""
    name = point.get("aggregator")
    return {key: value for key, value in point.items() if name is None or acts(key, name)}


def point_text(point: dict[str, Any]) -> str:
    """Returns an axis point as "kappa=2, selection=random"; an aggregator goes by its bare name."""
    point = acting(point)
    names = (("" if key == "aggregator" else f"{short(key)}=") for key in point)
    return ", ".join(name + value_text(value) for name, value in zip(names, point.values(), strict=True))


def listing(names: Iterable[str], most: int = 4) -> str:
    """Returns "a, b, c" with the tail counted instead of named."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def of_all(number: int, planned: int) -> str:
    """Returns "10", or "9/10" if some are lacking."""
    return f"{number}" if number == planned else f"{number}/{planned}"


def extent(values: Iterable[float], form: str = "") -> str:
    """Returns the smallest and the largest value as "37 to 48", or the one that both are."""
    ends = sorted(values)
    low, high = format(ends[0], form), format(ends[-1], form)
    return low if low == high else f"{low} to {high}"


def counts(values: Iterable[int], noun: str) -> str:
    """Returns the smallest and the largest number of something as "1 split", "3 splits" or "1 to 3 splits"."""
    ends = extent(values)
    return ends + f" {noun}" + "s" * (ends != "1")


def spans(numbers: Iterable[int]) -> str:
    """Returns rising numbers as "0, 1, 4 to 9": three or more in a row by their ends."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


@dataclass(frozen=True)
class Metric:
    """A metric and the way it is shown: ``IN_PERCENT`` with one decimal, others with four, of errors below ``SMALL``
    with three digits. What these decimals would show as 0 without being it has one digit: 0.03, not 0.0.
    """

    name: str
    direction: str

    @property
    def in_percent(self) -> bool:
        return self.name in IN_PERCENT

    @property
    def factor(self) -> float:
        return 100.0 if self.in_percent else 1.0

    @property
    def title(self) -> str:
        name = METRIC_NAMES.get(self.name, self.name)
        return f"{name} in %" if self.in_percent else name

    @property
    def higher_is_better(self) -> bool:
        return self.direction == "maximize"

    @property
    def arrow(self) -> str:
        return "↑" if self.higher_is_better else "↓"

    @property
    def better(self) -> str:
        return "higher is better" if self.higher_is_better else "lower is better"

    def numbers(self, mean: float, std: float, n: int) -> tuple[float, float | None, int]:
        """Returns mean, deviation (None if a single value has none) and number as they are shown, but in full."""
        return float(mean) * self.factor, None if math.isnan(std) else float(std) * self.factor, int(n)

    def text(self, value: float, signed: bool = False) -> str:
        return self._text(value, ("+" if signed else "") + self._form(value))

    def spread(self, mean: float, std: float, signed: bool = False) -> str:
        """Returns "81.4 ± 5.1" with the digits of the mean, or the mean alone if a single value has no spread."""
        text, form = self.text(mean, signed), self._form(mean)
        return text if math.isnan(std) else f"{text} ± {self._text(std, self._form(std) if form == TINY else form)}"

    def _form(self, value: float) -> str:
        if self.name in ERRORS and 0 < abs(value) < SMALL:
            return ".3g"
        decimals = 1 if self.in_percent else 4
        return TINY if 0 < abs(value) * self.factor < 0.5 * 10.0**-decimals else f".{decimals}f"

    def _text(self, value: float, form: str) -> str:
        return f"{value * self.factor:{form}}".replace("-", "−")  # the sign, which typesets as one

    def interval(self, interval: Interval, signed: bool = False) -> str:
        """Returns "[76.2, 84.1]"."""
        return f"[{self.text(interval.low, signed)}, {self.text(interval.high, signed)}]"


def p_text(p: float) -> str:
    """Returns a p value with three digits: "0.0413", "<0.05" where they would say 0.05, and "<0.0001" below that."""
    if p < 1e-4:
        return "<0.0001"
    text = f"{p:.3g}"
    return f"<{ALPHA}" if p < ALPHA <= float(text) else text


def metrics_of(frame: "pandas.DataFrame") -> dict[str, Metric]:
    """Returns the metric of each data set that any record tells of."""
    known = frame[["dataset", "metric", "direction"]].dropna().drop_duplicates("dataset")
    return {row.dataset: Metric(row.metric, row.direction) for row in known.itertuples()}
