"""How long theory experiments will take, before they run. Imports no torch."""

from typing import Any

from ssma.study.paths import Results
from ssma.study.records import read_record

# Seconds on one core of an AMD EPYC. A training step with n vectors of a multiset, B multisets and representations of m
# entries: a constant and a rate, which is per (B + 50) m (m + 40 n) for sums and the slow ones and per B m for SSMA,
# whose vectors are narrow. Least squares over logarithms of the fastest of three passes with sum and max (32 settings),
# lstm, deepsets and pna (48), and ssma (16); n = 3 and 6, m = 16 to 1024, B = 100 and 400. Estimate over measurement,
# 10% and 90% quantiles: 0.75 and 1.25, 0.70 and 1.42, 0.85 and 1.14. Others stand with the class they were nearest to.
STEP_SECONDS = {"sum": (5.0e-4, 8.4e-11), "slow": (7.2e-4, 6.8e-10), "ssma": (1.3e-3, 2.7e-8)}
SLOW = {"lstm", "gru", "median", "fmean", "deepsets", "pna"}
DERIVATIVE_SECONDS = 3e-6  # of a mixing value per m n d: 8 measurements, each within a factor of two and a half
PAIR_SECONDS = 4e-6  # of a pair in all representations, per n d: 4 measurements, within a factor of two
HESSIAN_SECONDS = 2e-7  # of a bound, per m^2: 3 measurements, within a factor of one and a half
START_SECONDS = 4.0  # Python, torch, PyG and the figure: the least that any experiment took


def theory_seconds(experiment: dict[str, Any], results: Results) -> tuple[float, bool]:
    """Returns the seconds of an experiment on one core, and whether they come from its own record.

    Without a finished record it is the number of its steps by reference seconds of a step, give or take half.

    Args:
        experiment: An entry of the plan's ``theory``.

    Raises:
        StudyError: If its record was changed or cut short.
    """
    path = results.theory(experiment["id"])
    if path.exists() and (record := read_record(path))["status"] == "ok":
        return START_SECONDS + record["seconds"], True
    return START_SECONDS + REFERENCE[experiment["name"]](experiment["settings"]), False


def _sum_of_gram(settings: dict[str, Any]) -> float:
    return sum(_trainings(settings, m) for m in settings["m"])


def _mixing(settings: dict[str, Any]) -> float:
    networks = settings["seeds"] * len(settings["activations"]) * len(settings["aggregators"])
    entries = settings["m"] * settings["n"] * settings["d"] * settings["multisets"]
    return _trainings(settings, settings["m"]) + networks * entries * DERIVATIVE_SECONDS


def _separation(settings: dict[str, Any]) -> float:
    pairs = settings["draws"] * (3 * settings["pairs"] + settings["halvings"])
    return pairs * settings["n"] * settings["d"] * PAIR_SECONDS


def _growth(settings: dict[str, Any]) -> float:
    networks = settings["draws"] * len(settings["activations"]) * len(settings["scales"])
    return networks * settings["multisets"] * settings["m"] ** 2 * HESSIAN_SECONDS


def _trainings(settings: dict[str, Any], m: int) -> float:
    """Returns the seconds of all trainings with one size of the representation."""
    batch = min(settings["batch_size"], settings["train_sets"])
    steps = settings["epochs"] * -(-settings["train_sets"] // batch)
    step = 0.0
    for name in settings["aggregators"]:
        constant, rate = STEP_SECONDS["ssma" if name == "ssma" else "slow" if name in SLOW else "sum"]
        size = batch * m if name == "ssma" else (batch + 50) * m * (m + 40 * settings["n"])
        step += constant + rate * size
    return settings["seeds"] * len(settings["activations"]) * len(settings["lr"]) * steps * step


REFERENCE = {
    "sum_of_gram": _sum_of_gram,
    "mixing": _mixing,
    "higher_order": lambda _: 0.0,  # at most a tenth of a second
    "separation": _separation,
    "growth": _growth,
}
