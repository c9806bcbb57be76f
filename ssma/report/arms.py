"""The table of all arms: how each was treated, what it cost, what it reached."""

from typing import TYPE_CHECKING, Any

from ssma.report.checks import chosen_by_test
from ssma.report.flags import seconds_of
from ssma.report.labels import Metric, metrics_of, of_all, point_text, value_text
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
    groups = dict(iter(frame.groupby("arm", sort=False)))
    rows = []
    for arm in plan["arms"]:
        judged = cell_of(arm["id"], validation, set(), set())
        result = marked(cell_of(arm["id"], summary, set(), biased), constant)
        head = [arm[key] for key in ("id", "dataset", "layer", "aggregator")]
        facts = [*head, point_text(arm["fixed"]), str(arm["trials"])]
        facts += _facts(groups[arm["id"]], arm["space"])
        tuned = _on_tuned_splits(groups[arm["id"]], metrics.get(arm["dataset"]), found.get(arm["id"]))
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


def _facts(rows: "pandas.DataFrame", space: dict[str, Any]) -> list[str]:
    states = rows.dropna(subset=["trial_state"]).drop_duplicates("trial")["trial_state"].value_counts()
    evaluated = rows[rows["stage"] == "evaluate"]
    ok = evaluated[evaluated["status"] == "ok"]
    fits = rows[rows["device"].notna()].drop_duplicates("fit")
    return [
        *(str(states.get(state, 0)) for state in ("complete", "pruned", "failed")),
        str(len(fits)),
        f"{len(ok)}/{len(evaluated)}",
        f"{ok['epochs'].median():g}" if ok["epochs"].notna().any() else "–",
        *(_span(ok[column]) for column in ("hidden_channels", "parameters")),
        _span(evaluated["budget"]),
        *(f"{seconds:.1f}" for seconds in seconds_of(rows).values()),
        _chosen_text(evaluated, space),
    ]


def _chosen_text(evaluated: "pandas.DataFrame", space: dict[str, Any]) -> str:
    """A setting that was searched and has no value was chosen to have none, unless another one makes it idle."""
    import pandas

    unset = {f"hp.{key}" for key in space.keys() - IDLE.keys()}
    keys = [column for column in evaluated if column.startswith("hp.")]
    choices: dict[str, list[str]] = {}
    for _, row in evaluated.drop_duplicates("split").iterrows():
        chosen = unset if pandas.notna(row["trial"]) else set()
        text = ", ".join(f"{key[3:]}={_plain(row[key])}" for key in keys if pandas.notna(row[key]) or key in chosen)
        choices.setdefault(text, []).append(str(row["split"]))
    if not any(choices):
        return "–"
    if len(choices) == 1:
        return next(iter(choices))
    return "; ".join(f"split {', '.join(splits)}: {text or '–'}" for text, splits in choices.items())


def _plain(value: Any) -> str:
    import pandas

    if pandas.isna(value):
        return value_text(None)
    return f"{value:.12g}" if isinstance(value, float) else str(value)  # all digits that a search keeps


def _span(values: "pandas.Series") -> str:
    values = values.dropna()
    if values.empty:
        return "–"
    return f"{values.min()}" if values.min() == values.max() else f"{values.min()}–{values.max()}"


def _on_tuned_splits(rows: "pandas.DataFrame", metric: Metric | None, bias: Bias | None) -> list[str]:
    """Returns validation and test of the chosen configuration on the tuned splits, and the claim beside them."""
    if metric is None:
        return ["–"] * 3
    tuned, evaluated = rows[rows["stage"] == "tune"], rows[rows["stage"] == "evaluate"]
    chosen = evaluated[["split", "trial"]].dropna().drop_duplicates()
    there, claim = tuned.merge(chosen, on=["split", "trial"]), bias.outcomes.get("test") if bias else None
    reached, planned = [there[part].dropna() for part in ("validation", "test")], len(there)
    return [
        *(f"{metric.spread(v.mean(), v.std(ddof=1))} ({of_all(len(v), planned)})" if len(v) else "–" for v in reached),
        f"{metric.spread(claim.mean, claim.std)} ({claim.n})" if claim else "–",
    ]
