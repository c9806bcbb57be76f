"""What stands behind a number, in words: an arm with its fits, or one fit, and the command that trains it again."""

from collections.abc import Iterator
from typing import Any

from ssma.errors import StudyError
from ssma.report.affine import without_pictures
from ssma.report.kept import split_sizes
from ssma.report.labels import Metric, listing, spans
from ssma.study.ids import canonical_json
from ssma.study.paths import Results
from ssma.study.records import PARTS, read_record
from ssma.study.space import full_names

Prepared = tuple[dict[str, Any], dict[str, Any]]
"""The card of a data set and its split sizes."""


def prepared(results: Results, dataset_id: str) -> Prepared | None:
    """Returns what is said of a data set beside each of its arms; None if it is not prepared, or lost its splits."""
    card, sizes = results.data(dataset_id) / "card.json", split_sizes(results, dataset_id)
    return (read_record(card), sizes) if card.exists() and sizes else None


def describe_arm(
    results: Results,
    plan: dict[str, Any],
    arm: dict[str, Any],
    written: Results | None = None,
    data: Prepared | None = None,
) -> str:
    """Returns everything about an arm: settings, data, search and choice, seeds, fits with their history, versions.

    What is not there yet is said to be so.

    Args:
        written: Names files as if the results were here; by default where they are.
        data: What `prepared` returns of its data set; read by default.
    """
    written, dataset = written or results, plan["datasets"][arm["dataset"]]
    data = data or prepared(results, dataset["id"])
    paths = (results.chosen(arm["id"]), results.evaluation(arm["id"]))
    chosen, evaluation = (read_record(path) if path.exists() else None for path in paths)
    fits = {fit["id"]: _read(results, written, fit["id"]) for fit in (evaluation or {}).get("fits", [])}
    lines = [arm["label"], *_pairs({"arm": arm["id"], **_own(arm), "result version": plan["result_version"]}), ""]
    lines += ["data", *_pairs(_data(written, dataset, arm, data), "  "), ""]
    settings = full_names(arm["settings"], arm["aggregator"])
    fixed = {key: value for key, value in settings.items() if key not in arm["space"]}  # a default that no fit has
    lines += ["settings", *_pairs(fixed, "  "), ""]
    lines += ["search", *_pairs(_search(written, arm, chosen), "  "), ""]
    lines += [f"evaluation splits {spans(arm['splits'])}", *_evaluation(written, evaluation, fits), ""]
    lines += ["made by", *_pairs(_made_by([fit for fit, _ in fits.values() if fit]), "  "), ""]
    lines += ["where", *_pairs(_where(written, plan, arm), "  ")]
    return "\n".join(lines) + "\n"


def describe_fit(results: Results, plan: dict[str, Any], fit_id: str) -> str:
    """Returns everything about a fit: what it was of, its scores, what its modules tell, its history, versions."""
    record = read_record(results.fit(fit_id))
    spec = record["spec"]
    about = {
        "fit": record["id"], "status": _status(record), "data": spec["dataset"], "data hash": spec["data_hash"],
        "split": f"{spec['split']} (hash {spec['split_hash']})", "seed": spec["seed"], "layer": spec["layer"],
        "aggregator": spec["aggregator"], **_own(spec), "hidden width": record["hidden_channels"],
        "parameters": record["parameters"], "seconds": record["seconds"], "best epoch": record["best_epoch"],
    }  # fmt: skip
    settings = full_names(spec["settings"], spec["aggregator"])
    lines = [*_pairs(about), "", "settings", *_pairs(settings, "  "), ""]
    scores = {part: canonical_json(record[part]) for part in PARTS}
    lines += ["scores at the best epoch", *_pairs(scores, "  "), ""]
    if told := record.get("modules"):
        lines += ["modules at the best epoch (pictures are in the record)", *_pairs(without_pictures(told), "  "), ""]
    lines += ["history", *_history(record), ""]
    where = {
        "record": results.fit(fit_id),
        **_runs(plan, "fit", fit_id, " (an evaluation fit; a tuning fit is in its trial's run)"),
        "again": f"ssma rerun {results.plan} {fit_id}",
    }
    lines += ["made by", *_pairs(_made_by([record]), "  "), "", "where", *_pairs(where, "  ")]
    return "\n".join(lines) + "\n"


def _data(written: Results, dataset: dict[str, Any], arm: dict[str, Any], data: Prepared | None) -> dict[str, Any]:
    if data is None:
        return {"data set": dataset["label"], "card": "not prepared, or its splits are gone"}
    card, splits = data
    how = {key: splits[key] for key in ("scheme", "folds", "seed", "content") if key in splits}
    hashes = (f"{number} {splits['splits'][number]['hash']}" for number in arm["splits"])
    return {
        "data set": dataset["label"], "folder": written.data(dataset["id"]), "data hash": card["data_hash"],
        "features": card["features"], "metric": f"{card['metric']} ({card['direction']})",
        "splits": canonical_json(how), "split hashes": listing(hashes, len(arm["splits"])),
    }  # fmt: skip


def _search(written: Results, arm: dict[str, Any], chosen: dict[str, Any] | None) -> dict[str, Any]:
    facts: dict[str, Any] = {key: canonical_json(values) for key, values in arm["space"].items()}
    if arm["space"]:
        facts |= {
            "sampler": arm["sampler"], "trials planned": arm["trials"], "tuned on splits": spans(arm["tune_splits"]),
            "pruned across tuned splits": arm["prune"], "chosen by": arm["selection"],
            "journal": written.search(arm["search_id"]),
        }  # fmt: skip
    else:
        facts["space"] = "nothing is searched"
    if chosen is None:
        return facts | {"choice": "not tuned yet"}
    if arm["space"]:
        facts["optuna"] = chosen.get("optuna", "unknown")  # older records lack it
    states = [trial["state"] for trial in chosen["trials"]]
    facts["trials"] = (
        ", ".join(f"{states.count(s)} {s}" for s in ("complete", "pruned", "failed")) if states else "none"
    )
    if chosen["status"] != "ok":
        return facts | {"choice": chosen["reason"]}
    of_choice: dict[str, list[str]] = {}
    for split, trial in chosen["chosen_trial"].items():
        of_choice.setdefault(f"trial {trial}: {canonical_json(chosen['chosen'][split])}", []).append(split)
    if arm["space"]:
        facts |= {f"choice for evaluation splits {spans(map(int, of))}": text for text, of in of_choice.items()}
    return facts


def _evaluation(
    written: Results, evaluation: dict[str, Any] | None, fits: dict[str, tuple[dict[str, Any] | None, str]]
) -> Iterator[str]:
    if evaluation is None:
        yield "  not evaluated yet"
        return
    if evaluation["status"] != "ok":
        yield f"  {evaluation['status']}: {evaluation['reason']}"
    for fit in evaluation["fits"]:
        record, lacking = fits[fit["id"]]
        yield f"  split {fit['split']} repeat {fit['repeat']} seed {fit['seed']}: {_status(record or fit)}"
        if record and record["status"] == "ok":
            yield f"    {_scores(record)}; {_curve(record)}"
        yield f"    {lacking or written.fit(fit['id'])}"


def _scores(record: dict[str, Any]) -> str:
    metric = Metric(record["metric"], record["direction"])
    values = ((part, record[part][record["metric"]]) for part in PARTS)
    shown = (f"{part} {'not finite' if value is None else metric.text(value)}" for part, value in values)
    return f"{metric.title}: {', '.join(shown)}"


def _curve(record: dict[str, Any]) -> str:
    """Tells a fit's validation metric at its first, best and last epoch, counted from 1."""
    metric, curve = Metric(record["metric"], record["direction"]), record["history"]["validation_metric"]
    at = dict.fromkeys((1, record["best_epoch"], len(curve)))
    return "validation " + " → ".join(f"{metric.text(curve[epoch - 1])} (epoch {epoch})" for epoch in at)


def _history(record: dict[str, Any]) -> Iterator[str]:
    history = record["history"]
    if not history or not any(history.values()):
        yield "  none"
        return
    yield "  " + "  ".join(["epoch", *(f"{name:>17}" for name in history)])
    for epoch, values in enumerate(zip(*history.values(), strict=True), start=1):
        shown = ("not finite" if value is None else f"{value:.6g}" for value in values)
        yield "  " + "  ".join([f"{epoch:>5}", *(f"{text:>17}" for text in shown)])


def _made_by(records: list[dict[str, Any]]) -> dict[str, str]:
    """Returns what made some fits; several answers are all given."""
    if not records:
        return {"fits": "none yet"}
    facts = {key: {str(record[key]) for record in records} for key in ("code", "git_commit", "device", "threads")}
    facts["compiled"] = {"yes" if record.get("compiled") else "no" for record in records}  # older records lack it
    names = dict.fromkeys(name for record in records for name in record["versions"])
    facts |= {name: {record["versions"].get(name, "unknown") for record in records} for name in names}
    facts["started"] = {min(record["started"] for record in records)}
    return {key.replace("_", " "): ", ".join(sorted(values)) for key, values in facts.items()}


def _own(made: dict[str, Any]) -> dict[str, str]:
    """Tells the user's class that an arm or a fit aggregates by, if it does."""
    return {"class": f"{made['class']} (code {made['class_code']})"} if made.get("class") else {}


def _runs(plan: dict[str, Any], kind: str, name: str, which: str = "") -> dict[str, str]:
    """Tells how to find what a study logged to MLflow, if it does."""
    tracked = plan["config"]["track"]["enabled"]
    return {"MLflow": f"search for: tags.\"ssma.{kind}\" = '{name}'{which}"} if tracked else {}


def _where(written: Results, plan: dict[str, Any], arm: dict[str, Any]) -> dict[str, Any]:
    jobs = ("tune", "evaluate") if arm["space"] else ("evaluate",)  # nothing to search: no job of its own for it
    return {
        "trials": written.chosen(arm["id"]),
        "fits": written.evaluation(arm["id"]),
        "logs": ", ".join(str(written.log(job, arm["id"])) for job in jobs),
        **_runs(plan, "arm", arm["id"]),
        "again": f"ssma rerun {written.plan} {arm['id']}",
    }


def _read(results: Results, written: Results, fit_id: str) -> tuple[dict[str, Any] | None, str]:
    """Returns a fit's record, or None and what is wrong with it."""
    path = results.fit(fit_id)
    if not path.exists():
        return None, f"{written.fit(fit_id)} is not there"
    try:
        return read_record(path), ""
    except StudyError as error:
        return None, str(error)


def _status(record: dict[str, Any]) -> str:
    return record["status"] + (f": {record['reason']}" if record["reason"] else "")


def _pairs(facts: dict[str, Any], indent: str = "") -> list[str]:
    width = max(map(len, facts), default=0)
    texts = {key: value if isinstance(value, str) else _text(value) for key, value in facts.items()}
    return [f"{indent}{key:<{width}}  {text}" for key, text in texts.items()]


def _text(value: Any) -> str:
    return canonical_json(value) if isinstance(value, bool | int | float | list | dict | None) else str(value)
