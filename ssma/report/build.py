"""Everything a study has to show, from its plan and frame: page, tables, figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.report import checks, figures
from ssma.report.arms import arms
from ssma.report.frame import collect, read_frame, read_plan, write_frame
from ssma.report.html import Section, page
from ssma.report.statistics import summarise
from ssma.report.table import Table
from ssma.report.tables import comparison, paired
from ssma.report.theory import theory
from ssma.study.ids import code_fingerprint
from ssma.study.paths import Results
from ssma.study.records import read_record, write_atomic

if TYPE_CHECKING:
    import pandas


def build(results: Results, out: Path) -> None:
    """Writes ``index.html``, ``tables/``, ``figures/`` and ``records.parquet`` to ``out``.

    Reads the frame at ``results.frame``, or collects the records if there is none. Works with whatever there is: a
    study half done, all failed, or only planned.

    Raises:
        StudyError: If there is no plan, a record is broken, or the frame does not know an arm of the plan.
    """
    plan = read_plan(results)
    frame = read_frame(results.frame) if results.frame.exists() else collect(results)
    unknown = {arm["id"] for arm in plan["arms"]} - set(frame["arm"])
    if unknown:
        raise StudyError(f"{results.frame}: has no rows of arm {min(unknown)!r}; the plan is newer, collect again")
    ratios = {label: _test_train_ratio(results, dataset["id"]) for label, dataset in plan["datasets"].items()}
    sections = [_section(plan, name, frame, ratios, out) for name in plan["ablations"]]
    all_arms = arms(plan, frame)
    for table in [table for section in sections for table in section.tables] + [all_arms]:
        _write_table(table, out / "tables")
    write_frame(frame, out / "records.parquet")
    shown = theory(results, plan, out / "figures")
    html = page(results, plan, frame, sections, all_arms, _warnings(plan, frame), shown)
    write_atomic(out / "index.html", html.encode())


def _section(
    plan: dict[str, Any], name: str, frame: "pandas.DataFrame", ratios: dict[str, float | None], out: Path
) -> Section:
    tables = [comparison(plan, name, frame), paired(plan, name, frame, ratios)]
    image, _ = figures.save(figures.draw(plan, name, frame), out / "figures", name)
    title = plan["ablations"][name]["title"]
    return Section(name, title, [table for table in tables if table], image, figures.caption(plan, name))


def _warnings(plan: dict[str, Any], frame: "pandas.DataFrame") -> list[str]:
    lines = checks.gaps(summarise(frame), frame) + checks.mixed_code(frame, code_fingerprint())
    lines += checks.over_budget(frame) + checks.chosen_by_test(plan, [arm["id"] for arm in plan["arms"]])
    for name, ablation in plan["ablations"].items():
        if checks.unequal_treatment(plan, name):
            lines.append(f"Arms of “{ablation['title']}” were not treated alike: see the lines under its table.")
    return lines


def _test_train_ratio(results: Results, dataset_id: str) -> float | None:
    """n_test / n_train, averaged over the splits of a data set; None if it is not prepared."""
    path = results.data(dataset_id) / "splits.json"
    if not path.exists():
        return None
    ratios = [len(split["test"]) / len(split["train"]) for split in read_record(path)["splits"]]
    return sum(ratios) / len(ratios)


def _write_table(table: Table, folder: Path) -> None:
    for kind, text in (("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())):
        write_atomic(folder / f"{table.name}.{kind}", text.encode())
