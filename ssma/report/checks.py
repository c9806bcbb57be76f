"""What a reader must be warned of: unequal treatment, choice by the test set, mixed code, gaps."""

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from ssma.report.labels import listing, point_text, spans, value_text
from ssma.report.layout import by_place
from ssma.report.once import Row, rows_of, trial_states
from ssma.report.statistics import BIASED
from ssma.study.cost import counted
from ssma.study.ids import canonical_json

if TYPE_CHECKING:
    import pandas

UNEQUAL = "Warning: unequal"
SIZES = ("model.budget", "model.hidden_channels", "model.num_layers")


def unequal_treatment(plan: dict[str, Any], ablation: str) -> list[str]:
    """Returns a line for each thing that differs among the arms of one data set and layer and is not an axis.

    Compared are trials, evaluation splits, tuned splits, repeats, the way of selection, and every model and training
    option (with the values that are searched, where it is searched).
    """
    arms = {arm["id"]: arm for arm in plan["arms"]}
    axes, cells = plan["ablations"][ablation]["axes"], plan["ablations"][ablation]["cells"]
    lines = []
    for (dataset, layer), here in by_place(cells).items():
        found: dict[str, dict[str, list[str]]] = {}
        for cell in here:
            for key, value in _treatment(arms[cell["arm"]]):
                found.setdefault(key, {}).setdefault(value, []).append(point_text(cell["point"]))
        for key, values in found.items():
            if len(values) > 1 and key not in axes:
                parts = "; ".join(f"{value} for {listing(names)}" for value, names in values.items())
                verb = "are" if key.endswith("splits") else "is"
                lines.append(f"{UNEQUAL} treatment on {dataset}, {layer}: {key} {verb} {parts}.")
    return lines


def shared_arms(plan: dict[str, Any], ablation: str) -> list[str]:
    """Returns a line about rows that show one arm, since what they differ in has no effect at a data set and layer."""
    rows: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell in plan["ablations"][ablation]["cells"]:
        names = rows.setdefault((cell["layer"], cell["dataset"], cell["arm"]), {})
        names[point_text(cell["point"])] = None
    found: dict[str, list[str]] = {}
    for (layer, dataset, _), names in rows.items():
        if len(names) > 1:
            found.setdefault(f"{layer} with {' or '.join(f'({name})' for name in names)}", []).append(dataset)
    parts = [f"{which} on {listing(datasets, 12)}" for which, datasets in found.items()]
    return [f"One and the same arm, where an axis has no effect: {'; '.join(parts)}."] if parts else []


def unequal_effort(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> list[str]:
    """Returns a line for each thing that turned out unlike among the arms of one data set and layer.

    Compared are complete trials (where equally many were planned), the median number of epochs (more than a factor of
    2), parameters (more than 10%, unless a size is an axis), and CPU against GPU. Arms without good evaluation fits are
    left out.
    """
    axes, cells = plan["ablations"][ablation]["axes"], plan["ablations"][ablation]["cells"]
    planned = {arm["id"]: arm["trials"] for arm in plan["arms"]}
    rows = rows_of(frame)
    lines = []
    for (dataset, layer), here in by_place(cells).items():
        names = {cell["arm"]: point_text(cell["point"]) for cell in here}
        effort = {arm: found for arm in names if (found := _effort(rows[arm]))}
        if len(effort) < 2:
            continue
        same_plan = len({planned[arm] for arm in effort}) == 1
        for what, texts in _unlike(list(effort.values()), same_plan, any(axis in SIZES for axis in axes)):
            parts = "; ".join(f"{text} for {names[arm]}" for arm, text in zip(effort, texts, strict=True))
            lines.append(f"{UNEQUAL} effort on {dataset}, {layer}: {what} {parts}.")
    return lines


def _effort(rows: list[Row]) -> dict[str, Any] | None:
    good = [row for row in rows if row["stage"] == "evaluate" and row["status"] == "ok"]
    if not good:
        return None
    return {
        "complete": trial_states(rows)["complete"],
        "epochs": float(median(row["epochs"] for row in good)),
        "parameters": float(median(row["parameters"] for row in good)),
        "devices": " and ".join(sorted({"CPU" if row["device"] == "cpu" else "GPU" for row in good if row["device"]})),
    }


def _unlike(effort: list[dict[str, Any]], same_plan: bool, sized: bool) -> Iterator[tuple[str, list[str]]]:
    """Yields what is unlike, and how it is told of each arm."""
    complete, epochs, parameters, devices = (
        [one[key] for one in effort] for key in ("complete", "epochs", "parameters", "devices")
    )
    if same_plan and len(set(complete)) > 1:
        yield "complete trials are", list(map(str, complete))
    if max(epochs) > 2 * min(epochs):
        yield "epochs (median) are", [f"{number:g}" for number in epochs]
    if not sized and max(parameters) > 1.1 * min(parameters):
        yield "parameters (median) are", [f"{number:.12g}" for number in parameters]
    if len(set(devices)) > 1:
        yield "fits ran on", devices


def _treatment(arm: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "number of trials", str(arm["trials"])
    yield "evaluation splits", spans(arm["splits"])
    yield "tuned splits", spans(arm["tune_splits"]) or "none"
    yield "repeats", str(arm["repeats"])
    if arm["selection"] != "none":  # with nothing to choose; the number of trials says so
        yield "selection", arm["selection"]
        yield "sampler", arm["sampler"]
    options = {f"{part}.{key}": value for part in ("model", "training") for key, value in arm["settings"][part].items()}
    for key in sorted(options | {key: None for key in arm["space"] if key.startswith(("model.", "training."))}):
        searched = arm["space"].get(key)
        yield key, value_text(options[key]) if searched is None else f"searched over {canonical_json(searched)}"


def chosen_by_test(plan: dict[str, Any], arm_ids: list[str]) -> list[str]:
    """Returns the warning for arms whose study chose their hyperparameters on the test set."""
    labels = [arm["label"] for arm in plan["arms"] if arm["id"] in arm_ids and arm["selection"] == "test"]
    return [f"Warning: † {BIASED}, as the study asks for {listing(labels)}."] if labels else []


def gaps(summary: "pandas.DataFrame", frame: "pandas.DataFrame") -> list[str]:
    """Returns lines that say how many planned fits failed or are missing, in which arms, and why."""
    labels = frame.drop_duplicates("arm").set_index("arm")["label"]
    lines = []
    for column, words in (("failed", "failed, diverged or ran out of time"), ("missing", "left no record")):
        arms = summary.index[summary[column] > 0]
        if len(arms):
            total = f"{summary[column].sum()} of {counted(summary['planned'].sum(), 'planned fit')}"
            lines.append(f"{total} {words}: {listing(labels[arms])}.")
    bad = frame[(frame["stage"] == "evaluate") & ~frame["status"].isin(["ok", "missing"])].dropna(subset=["reason"])
    for (label, reason), rows in bad.groupby(["label", "reason"], sort=False):
        lines.append(f"{label}: {reason}" + (f" ({len(rows)} fits)." if len(rows) > 1 else "."))
    return lines


def mixed_code(frame: "pandas.DataFrame", current: str) -> list[str]:
    """Returns lines about records from several versions of the code, or from another one than ``current``."""
    made = frame.dropna(subset=["code"])
    lines = []
    groups = {code: listing(rows["label"]) for code, rows in made.groupby("code", sort=False)}
    if len(groups) > 1:
        parts = "; ".join(f"{code} made {arms}" for code, arms in groups.items())
        lines.append(f"The records come from {len(groups)} versions of the code that makes numbers: {parts}.")
    stale = made[made["code"] != current]
    if len(stale):
        count = stale["fit"].nunique()
        lines.append(
            f"Other code than the installed one ({current}) made {count} of {counted(made['fit'].nunique(), 'fit')}: "
            f"{listing(stale['label'])}."
        )
    return lines


def mixed_data(frame: "pandas.DataFrame") -> list[str]:
    """Returns a line for each data set whose fits were made on several versions of its data."""
    lines = []
    for dataset, rows in frame.dropna(subset=["data_hash"]).groupby("dataset", sort=False):
        groups = {data: listing(of["label"]) for data, of in rows.groupby("data_hash", sort=False)}
        if len(groups) > 1:
            parts = "; ".join(f"{data[:12]} of {arms}" for data, arms in groups.items())
            told = f"Warning: fits on {dataset} were made on {len(groups)} versions of its data: {parts}."
            lines.append(f"{told} They are not compared with each other; run the study again.")
    return lines


def without_sanity(plan: dict[str, Any], prepared: set[str], known: set[str]) -> list[str]:
    """Returns a line naming the data sets whose tables lack the predictors that look at no graph."""
    lacking = [label for label in plan["datasets"] if label in prepared - known]
    hint = "they were prepared by older code; delete their card.json to have them prepared again"
    return [f"No predictors without a graph for {listing(lacking)}: {hint}."] if lacking else []


def unknown_constants(frame: "pandas.DataFrame") -> list[str]:
    """Returns a line with the number of fits that do not tell whether their predictions are constant."""
    good = frame[frame["status"] == "ok"].drop_duplicates("fit")
    unknown = int(good["constant"].isna().sum())
    told = f"{unknown} of {counted(len(good), 'fit')}, made by older code"
    return [f"Whether test predictions are constant is unknown of {told}."] if unknown else []


def over_budget(frame: "pandas.DataFrame") -> list[str]:
    """Returns a line naming the arms with more parameters than their budget."""
    over = frame[(frame["parameters"] > frame["budget"]).fillna(False).astype(bool)]
    return [f"More parameters than the budget: {listing(over['label'])}."] if len(over) else []
