"""Everything a study has to show, from its plan and frame: page, tables, figures."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.report import checks, drawn, figures, selection_figure, selection_table
from ssma.report.affine import FIGURE_CAPTION, affine_data, affine_figure, affine_table
from ssma.report.arms import arms
from ssma.report.axes import axis_table
from ssma.report.claims import claim_tables
from ssma.report.evidence import Records
from ssma.report.flags import flags
from ssma.report.floor import floor_table, floors
from ssma.report.frame import collect, read_frame, write_frame
from ssma.report.html import BesidePaper, Picture, Section, arm_page, page
from ssma.report.kept import forget, keep, split_sizes, test_train_ratio
from ssma.report.paired import paired
from ssma.report.paper_cells import paper_dataset
from ssma.report.paper_tables import beside, improvement_table, results_table
from ssma.report.ranking import diagram, diagram_caption, rank, ranks_table
from ssma.report.sanity import Repeated, copies_marked, copy_notes, read_copies, read_sanity
from ssma.report.selection_bias import Bias, biases
from ssma.report.show import describe_arm, prepared
from ssma.report.statistics import summarise
from ssma.report.svg import inline_svg
from ssma.report.table import Table
from ssma.report.tables import comparison
from ssma.report.theory import theory
from ssma.report.words import words
from ssma.study.ids import code_fingerprint
from ssma.study.jobs import older_than_records
from ssma.study.lookup import named, read_plan
from ssma.study.part import compares, part
from ssma.study.paths import Results
from ssma.study.records import write_atomic

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

ONE_MARK = "No figure: each panel would show one setting, beside no other and no baseline."


def build(results: Results, out: Path, ablation: str | None = None) -> None:
    """Writes ``index.html``, ``arms/``, ``tables/``, ``figures/``, ``records.parquet`` and what it takes to make them
    again (`keep`) to ``out``.

    Reads the frame at ``results.frame``, or collects the records if there is none or it shows others than there are.
    Works with whatever there is: a study half done, all failed, or only planned; and a report's own folder, where the
    pages of arms stay as they are.

    Args:
        ablation: Report this one alone. Its records are collected anew, where there are any.

    Raises:
        StudyError: If there is no plan or no such ablation, a record is broken, or the frame does not know an arm of
            the plan; if the results are a report and ``out`` is another folder or one ablation is asked for; if ``out``
            are results without fits, or other ones.
    """
    plan, in_place = read_plan(results.plan), results.root.resolve() == out.resolve()
    if results.is_report and (ablation or not in_place):
        told = "is a report without the records of fits, which can be made again whole and in its own folder only"
        raise StudyError(f"{results.root}: {told}; give --out {results.root}, or the plan in the results folder")
    if in_place and not (results.frame.exists() or results.fits.exists()):
        told = "holds no records of fits, and would be a report with one in it, in which no job runs"
        raise StudyError(f"{results.root}: {told}; give another folder to --out")
    prepared_there = Results(out).plan.exists() and any(out.glob("data/*/splits.json"))  # of which a report has sizes
    if not in_place and (Results(out).fits.exists() or prepared_there):
        told = "is another results folder, whose plan and table of all records those of the report would replace"
        raise StudyError(f"{out}: {told}; give another folder to --out")
    if ablation:
        named(plan["ablations"], ablation, "ablation")
        plan = part(plan, ablation)
    ids = [arm["id"] for arm in plan["arms"]]
    frame = None if ablation else _known(results, ids)
    frame = collect(results, plan) if frame is None else frame
    unknown = set(ids) - set(frame["arm"])
    if unknown:
        raise StudyError(f"{results.frame}: has no rows of arm {min(unknown)!r}; the plan is newer, collect again")
    if not in_place:
        forget(Results(out))
    ratios = {label: test_train_ratio(results, dataset) for label, dataset in plan["datasets"].items()}
    sanity = read_sanity(results, plan)
    copies, bias = read_copies(results, plan), biases(frame)
    sections = [_section(plan, name, frame, ratios, sanity, out) for name in plan["ablations"]]
    sections.append(_selection_bias(results, plan, frame, bias, ratios, out))
    for section in sections:
        section.tables[:] = [_written(table, copies, out) for table in section.tables]
    all_arms = _written(arms(plan, frame, bias), copies, out)
    papers = _beside_paper(plan, frame, ratios, sanity, copies, out)
    if not (in_place and ablation):  # which the results have of all arms
        write_frame(frame, out / "records.parquet")
    warnings = _warnings(results, plan, frame, sanity, sections) + copy_notes(copies)
    with_arms = not in_place or any(out.glob("arms/*.html"))
    shown = theory(results, plan, out / "figures")
    html = page(results, plan, frame, sections, all_arms, papers, warnings, shown, with_arms)
    write_atomic(out / "index.html", html.encode())
    if in_place:
        return
    keep(results, plan, Results(out))
    as_run = Results(Path("results", plan["study"]))  # a page that is passed on names no folder of one machine
    data = {label: prepared(results, dataset["id"]) for label, dataset in plan["datasets"].items()}
    for arm in plan["arms"]:
        text = describe_arm(results, plan, arm, as_run, data[arm["dataset"]])
        write_atomic(out / "arms" / f"{arm['id']}.html", arm_page(arm["label"], text).encode())


def _known(results: Results, arms: list[str]) -> "pandas.DataFrame | None":
    """Returns the frame at ``results.frame``, if no record was written after it, and none that it has was deleted."""
    if not results.frame.exists() or older_than_records(results.frame, results, arms):
        return None
    frame = read_frame(results.frame)
    whole = not results.fits.exists() or all(results.fit(fit).exists() for fit in frame["fit"].dropna().unique())
    return frame if whole else None


def _section(
    plan: dict[str, Any],
    name: str,
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    sanity: dict[str, dict[str, Any]],
    out: Path,
) -> Section:
    ranking = rank(plan, name, frame)
    against = floors(plan, name, frame, sanity, ratios)
    tables = [comparison(plan, name, frame, sanity, against), paired(plan, name, frame, ratios)]
    tables.append(floor_table(plan, name, against))
    tables += [axis_table(plan, name, frame, ratios), affine_table(plan, name, frame)]
    pictures, found = [], words(plan, name, frame, ratios, against)
    if compares(plan, name):
        data, text = drawn.data_csv(plan, name, frame), drawn.caption(plan, name, frame)
        pictures.append(_picture(figures.draw(plan, name, frame), out, name, text, data))
    else:
        claim = drawn.claim_of(plan, name)  # which else stands in the caption
        found = replace(found, overall=[*found.overall, ONE_MARK, *([f"The paper: {claim}"] if claim else [])])
    if maps := affine_figure(plan, name, frame):
        numbers = affine_data(plan, name, frame).to_csv(index=False)
        pictures.append(_picture(maps, out, f"{name}-map", FIGURE_CAPTION, numbers))
    if ranking:
        tables.append(ranks_table(name, ranking))
        if figure := diagram(plan, name, ranking):
            pictures.append(_picture(figure, out, f"{name}-ranks", diagram_caption(ranking), tables[-1].csv()))
    return Section(name, plan["ablations"][name]["title"], [table for table in tables if table], pictures, found)


def _picture(figure: "Figure", out: Path, name: str, caption: str, data: str) -> Picture:
    """Writes a figure (PNG, PDF) with the data behind it (CSV), and returns it for the page."""
    svg = inline_svg(figure, name)
    figures.save(figure, out / "figures", name)
    write_atomic(out / "figures" / f"{name}.csv", data.encode())
    return Picture(name, svg, caption)


def _beside_paper(
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    sanity: dict[str, dict[str, Any]],
    copies: dict[str, Repeated],
    out: Path,
) -> BesidePaper:
    found = beside(plan, frame, ratios)
    in_the_paper = {paper_dataset(plan["datasets"][label]["spec"]) or label: one for label, one in copies.items()}
    run = [table for table in found.values() if table.run]
    made = [each for table in run for each in (results_table(table, sanity), improvement_table(table))]
    tables = [_written(table, in_the_paper, out) for table in made if table]
    not_run = [f"{table.source.number} ({table.source.name})" for table in found.values() if not table.run]
    claims = [_written(table, {}, out) for table in claim_tables(Records(plan, frame, ratios, found))]
    return BesidePaper(tables, not_run, *claims)


def _selection_bias(
    results: Results,
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    found: dict[str, Bias],
    ratios: dict[str, float | None],
    out: Path,
) -> Section:
    name, pictures = selection_table.NAME, []
    table = selection_table.table(plan, frame, found, ratios)
    if figure := selection_figure.draw(plan, frame, found):
        sizes = {label: split_sizes(results, dataset["id"]) for label, dataset in plan["datasets"].items()}
        pictures = [_picture(figure, out, name, selection_figure.caption(plan, found, sizes), table.csv())]
    return Section(name, "Selection bias", [table], pictures)


def _warnings(
    results: Results,
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    sanity: dict[str, dict[str, Any]],
    sections: list[Section],
) -> list[str]:
    prepared = {label for label, item in plan["datasets"].items() if (results.data(item["id"]) / "card.json").exists()}
    lines = checks.gaps(summarise(frame), frame) + checks.mixed_code(frame, code_fingerprint())
    lines += checks.mixed_data(frame) + checks.over_budget(frame)
    lines += checks.chosen_by_test(plan, [arm["id"] for arm in plan["arms"]])
    lines += checks.without_sanity(plan, prepared, set(sanity)) + checks.unknown_constants(frame)
    for section in sections:
        if any(note.startswith(checks.UNEQUAL) for note in section.tables[0].notes):
            lines.append(f"Arms of “{section.title}” were not treated alike: see the lines under its table.")
    return lines + flags(plan, frame)


def _written(table: Table, copies: dict[str, Repeated], out: Path) -> Table:
    """Writes a table and returns it as the page has it: with the marks of ``copies``, which the page explains once."""
    marked = copies_marked(table, copies)
    for kind, text in (("md", marked.markdown()), ("csv", marked.csv()), ("tex", marked.latex())):
        write_atomic(out / "tables" / f"{table.name}.{kind}", text.encode())
    return replace(marked, footnotes=table.footnotes)
