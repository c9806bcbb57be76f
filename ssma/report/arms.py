"""The table of all arms: how each was treated, what it cost, what it reached."""

from statistics import median
from typing import TYPE_CHECKING, Any

from ssma.report.checks import chosen_by_test
from ssma.report.flags import seconds_of
from ssma.report.labels import Metric, metrics_of, of_all, point_text, value_text
from ssma.report.once import Row, rows_of, trial_states
from ssma.report.sanity import constant_notes, constants, marked
from ssma.report.selection_bias import Bias
from ssma.report.statistics import BIASED, summarise
from ssma.report.table import Cell, Table
from ssma.report.tables import cell_of
from ssma.study.space import IDLE

if TYPE_CHECKING:
    import pandas

ARM_COLUMNS = [
    "arm", "data set", "layer", "aggregator", "fixed settings", "trials planned", "complete", "pruned", "failed",
    "fits trained", "fits ok/planned", "epochs (median)", "hidden width", "parameters", "budget", "CPU seconds",
    "GPU seconds", "chosen hyperparameters", "validation", "test", "chosen: validation on tuned splits",
    "chosen: test on tuned splits", "test-selected (biased): test on tuned splits",
]  # fmt: skip


def arms(plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias]) -> Table:
    """Returns a row per arm: how it was treated, what it cost, what it reached.

    Args:
        found: What ``biases`` returns of the frame.
    """
    summary, metrics, constant = summarise(frame), metrics_of(frame), constants(frame)
    biased = {arm["id"] for arm in plan["arms"] if arm["selection"] == "test"}
    validation = summarise(frame.assign(test=frame["validation"]))
    found_of, rows = rows_of(frame), []
    for arm in plan["arms"]:
        judged = cell_of(arm["id"], validation, set(), set())
        result = marked(cell_of(arm["id"], summary, set(), biased), constant)
        head = [arm[key] for key in ("id", "dataset", "layer", "aggregator")]
        facts = [*head, point_text(arm["fixed"]) or "–", str(arm["trials"])]
        facts += _facts(found_of[arm["id"]], arm["space"])
        tuned = _on_tuned_splits(found_of[arm["id"]], metrics.get(arm["dataset"]), found.get(arm["id"]))
        rows.append([Cell(fact, arm=arm["id"]) for fact in facts] + [judged, result, *map(Cell, tuned)])
    caption = (
        "All arms. Validation and test: on the evaluation splits, test as in the comparisons, validation in the same "
        "fits (which chose their epoch by it). Fits trained and their seconds are those of tuning and evaluation "
        "together, fits shared with other arms too; seconds are those on the clock, CPU seconds of fits that ran "
        "without a GPU. The last three columns are of tuning fits, mean ± sample standard deviation over the tuned "
        "splits (their number), with other seeds than test: what the chosen configuration reached "
        f"there, and what the complete trial with the best mean test metric would have claimed, {BIASED}. Compare that "
        "claim with the column before it, which has the same splits, and not with test; it is no result."
    )
    ids = [arm["id"] for arm in plan["arms"]]
    return Table("arms", caption, ARM_COLUMNS, rows, chosen_by_test(plan, ids) + constant_notes(plan, ids, constant))


def _facts(rows: list[Row], space: dict[str, Any]) -> list[str]:
    states = trial_states(rows)
    evaluated = [row for row in rows if row["stage"] == "evaluate"]
    ok = [row for row in evaluated if row["status"] == "ok"]
    epochs = _values(ok, "epochs")
    return [
        *(str(states[state]) for state in ("complete", "pruned", "failed")),
        str(len({row["fit"] for row in rows if row["device"] is not None})),
        f"{len(ok)}/{len(evaluated)}",
        f"{median(epochs):g}" if epochs else "–",
        *(_span(_values(ok, column)) for column in ("hidden_channels", "parameters")),
        _span(_values(evaluated, "budget")),
        *(f"{seconds:.1f}" for seconds in seconds_of(rows).values()),
        _chosen_text(evaluated, space),
    ]


def _values(rows: list[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _chosen_text(evaluated: list[Row], space: dict[str, Any]) -> str:
    """A setting that was searched and has no value was chosen to have none, unless another one makes it idle."""
    unset = {f"hp.{key}" for key in space.keys() - IDLE.keys()}
    texts: dict[int, str] = {}
    for row in evaluated:
        chosen = unset if row["trial"] is not None else set()
        keys = [key for key in row if key.startswith("hp.") and (row[key] is not None or key in chosen)]
        texts.setdefault(row["split"], ", ".join(f"{key[3:]}={_plain(row[key])}" for key in keys))
    choices: dict[str, list[str]] = {}
    for split, text in texts.items():
        choices.setdefault(text or "–", []).append(str(split))
    if len(choices) == 1:
        return next(iter(choices))
    return "; ".join(f"split {', '.join(splits)}: {text}" for text, splits in choices.items())


def _plain(value: Any) -> str:
    if value is None:
        return value_text(None)
    return f"{value:.12g}" if isinstance(value, float) else str(value)  # all digits that a search keeps


def _span(values: list[Any]) -> str:
    if not values:
        return "–"
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)}–{max(values)}"


def _on_tuned_splits(rows: list[Row], metric: Metric | None, bias: Bias | None) -> list[str]:
    """Returns validation and test of the chosen configuration on the tuned splits, and the claim beside them."""
    import pandas

    if metric is None:
        return ["–"] * 3
    chosen = {(row["split"], row["trial"]) for row in rows if row["stage"] == "evaluate"}
    there = [row for row in rows if row["stage"] == "tune" and (row["split"], row["trial"]) in chosen]
    reached = [pandas.Series(_values(there, part), dtype=float) for part in ("validation", "test")]
    claim = bias.outcomes.get("test") if bias else None
    return [
        *(f"{metric.spread(v.mean(), v.std())} ({of_all(len(v), len(there))})" if len(v) else "–" for v in reached),
        f"{metric.spread(claim.mean, claim.std)} ({claim.n})" if claim else "–",
    ]
