"""Everything a study has to show, from its plan and frame: page, tables, figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.report import checks, figures, selection_bias
from ssma.report.affine import affine_caption, affine_data, affine_figure, affine_table
from ssma.report.arms import arms
from ssma.report.axes import axis_table
from ssma.report.claims import claim_tables
from ssma.report.evidence import Records
from ssma.report.frame import collect, read_frame, read_plan, write_frame
from ssma.report.html import BesidePaper, Picture, Section, arm_page, page
from ssma.report.paired import paired
from ssma.report.paper_tables import beside, improvement_table, results_table
from ssma.report.ranking import diagram, diagram_caption, rank, ranks_table
from ssma.report.sanity import read_sanity
from ssma.report.show import describe_arm
from ssma.report.statistics import summarise
from ssma.report.table import Table
from ssma.report.tables import comparison
from ssma.report.theory import theory
from ssma.report.units import units_of
from ssma.study.ids import code_fingerprint
from ssma.study.paths import Results
from ssma.study.records import read_record, write_atomic

if TYPE_CHECKING:
    import pandas


def build(results: Results, out: Path) -> None:
    """Writes ``index.html``, ``arms/``, ``tables/``, ``figures/`` and ``records.parquet`` to ``out``.

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
    sanity = read_sanity(results, plan)
    sections = [_section(plan, name, frame, ratios, sanity, out) for name in plan["ablations"]]
    sections.append(_selection_bias(plan, frame, out))
    all_arms, papers = arms(plan, frame), _beside_paper(plan, frame, ratios, sanity)
    for table in [*(table for section in sections for table in section.tables), all_arms, *papers.all_tables]:
        _write_table(table, out / "tables")
    write_frame(frame, out / "records.parquet")
    warnings, shown = _warnings(results, plan, frame, sanity, sections), theory(results, plan, out / "figures")
    html = page(results, plan, frame, sections, all_arms, papers, warnings, shown)
    for arm in plan["arms"]:
        text = describe_arm(results, plan, arm)
        write_atomic(out / "arms" / f"{arm['id']}.html", arm_page(arm["label"], text).encode())
    write_atomic(out / "index.html", html.encode())


def _section(
    plan: dict[str, Any],
    name: str,
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    sanity: dict[str, dict[str, Any]],
    out: Path,
) -> Section:
    ranking = rank(plan, name, frame)
    tables = [comparison(plan, name, frame, sanity), paired(plan, name, frame, ratios)]
    tables += [axis_table(plan, name, frame, ratios), affine_table(plan, name, frame)]
    drawn = [(name, figures.draw(plan, name, frame), figures.caption(plan, name))]
    if ranking:
        tables.append(ranks_table(name, ranking))
        drawn.append((f"{name}-ranks", diagram(plan, name, ranking), diagram_caption(ranking)))
    if maps := affine_figure(plan, name, frame):
        drawn.append((f"{name}-map", maps, affine_caption()))
        numbers = affine_data(plan, name, frame).to_csv(index=False)
        write_atomic(out / "figures" / f"{name}-map.csv", numbers.encode())
    pictures = [Picture(figures.save(figure, out / "figures", stem)[0], text) for stem, figure, text in drawn if figure]
    return Section(name, plan["ablations"][name]["title"], [table for table in tables if table], pictures)


def _beside_paper(
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    sanity: dict[str, dict[str, Any]],
) -> BesidePaper:
    units = units_of(frame)
    found = beside(plan, units)
    run = [table for table in found.values() if table.run]
    tables = [drawn for table in run for drawn in (results_table(table, sanity), improvement_table(table)) if drawn]
    not_run = [f"{table.source.number} ({table.source.name})" for table in found.values() if not table.run]
    return BesidePaper(tables, not_run, *claim_tables(Records(plan, frame, ratios, units, found)))


def _selection_bias(plan: dict[str, Any], frame: "pandas.DataFrame", out: Path) -> Section:
    name, found = selection_bias.NAME, selection_bias.biases(frame)
    figure = selection_bias.draw(plan, frame, found)
    pictures = []
    if figure:
        pictures = [Picture(figures.save(figure, out / "figures", name)[0], selection_bias.caption(plan, found))]
    return Section(name, "Selection bias", [selection_bias.table(plan, frame, found)], pictures)


def _warnings(
    results: Results,
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    sanity: dict[str, dict[str, Any]],
    sections: list[Section],
) -> list[str]:
    prepared = {label for label, item in plan["datasets"].items() if (results.data(item["id"]) / "card.json").exists()}
    lines = checks.gaps(summarise(frame), frame) + checks.mixed_code(frame, code_fingerprint())
    lines += checks.over_budget(frame) + checks.chosen_by_test(plan, [arm["id"] for arm in plan["arms"]])
    lines += checks.without_sanity(plan, prepared, set(sanity)) + checks.unknown_constants(frame)
    for section in sections:
        if any(note.startswith(checks.UNEQUAL) for note in section.tables[0].notes):
            lines.append(f"Arms of “{section.title}” were not treated alike: see the lines under its table.")
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
