"""What a report keeps of its study, so that tables and figures can be made from it again without the results."""

from pathlib import Path
from typing import Any

from ssma import paper
from ssma.study.lookup import read_plan
from ssma.study.names import FURTHER
from ssma.study.paths import Results
from ssma.study.records import PARTS, read_record, write_record

SIZES = "split_sizes.json"
OF_DATA = ("card.json", "sanity.json")
ENDINGS = {"tables": ("csv", "md", "tex"), "figures": ("csv", "pdf", "png")}


def forget(report: Results) -> None:
    """Removes the tables, figures and pages of the plan that a report was last made of, and what it kept of data sets
    and theory experiments: those which the study has no more would stand among its results. Files of other names stay.
    """
    if not report.plan.exists():
        return
    last = read_plan(report.plan)
    names = [f"theory-{name}" for name in last.get("theory", {})]
    for ablation in last["ablations"]:
        names += [ablation, *(f"{ablation}-{kind}" for kind in FURTHER)]
    names += [f"paper/{table.name}{kind}" for table in paper.tables() for kind in ("", "-improvement")]
    files = [Path(folder, f"{name}.{end}") for name in names for folder, ends in ENDINGS.items() for end in ends]
    for file in [*files, *(Path("arms", f"{arm['id']}.html") for arm in last["arms"])]:
        (report.root / file).unlink(missing_ok=True)
    kept = [report.data(dataset["id"]) / name for dataset in last["datasets"].values() for name in (*OF_DATA, SIZES)]
    for file in [*kept, *(report.theory(experiment["id"]) for experiment in last.get("theory", {}).values())]:
        file.unlink(missing_ok=True)


def keep(results: Results, plan: dict[str, Any], report: Results) -> None:
    """Writes the plan, the records of theory experiments, and of every data set that is prepared its card, its constant
    predictors and its split sizes.

    With the frame beside them they are a results folder of which everything but the fits is there.
    """
    write_record(report.plan, plan)
    for dataset in plan["datasets"].values():
        source, target = results.data(dataset["id"]), report.data(dataset["id"])
        for name in OF_DATA:
            if (source / name).exists():
                write_record(target / name, read_record(source / name))
        if sizes := split_sizes(results, dataset["id"]):
            write_record(target / SIZES, sizes)
    for experiment in plan.get("theory", {}).values():  # older plans have none
        if (source := results.theory(experiment["id"])).exists():
            write_record(report.theory(experiment["id"]), read_record(source))


def split_sizes(results: Results, dataset_id: str) -> dict[str, Any] | None:
    """Returns the frozen splits of a data set with the number of items in place of the items; None if unprepared."""
    folder = results.data(dataset_id)
    if (folder / SIZES).exists():
        return read_record(folder / SIZES)
    if not (folder / "splits.json").exists():
        return None
    splits = read_record(folder / "splits.json")
    counts = [{part: len(split[part]) for part in PARTS} | {"hash": split["hash"]} for split in splits["splits"]]
    return splits | {"kind": "split sizes", "splits": counts}


def test_train_ratio(results: Results, dataset: dict[str, Any]) -> float | None:
    """Returns n_test / n_train, averaged over the splits of a data set that the study uses; None if it is not prepared.

    Args:
        dataset: Its entry in the plan.
    """
    sizes = split_sizes(results, dataset["id"])
    if sizes is None:
        return None
    ratios = [split["test"] / split["train"] for split in sizes["splits"][: dataset["use"]]]
    return sum(ratios) / len(ratios)
