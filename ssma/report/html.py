"""One page that tells a study: self-contained, no scripts, opens from disk."""

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ssma.report.kept import split_sizes
from ssma.report.labels import Metric, listing
from ssma.report.table import Cell, Table, table_id
from ssma.report.template import ARM_PAGE, PAGE
from ssma.report.theory import Shown
from ssma.report.words import Words
from ssma.study.cost import counted
from ssma.study.paths import Results
from ssma.study.records import read_record
from ssma.study.settings import ONLY_FOR_LAYERS

if TYPE_CHECKING:
    import pandas
    from jinja2 import Template


@dataclass(frozen=True)
class Picture:
    """A figure of the page: an SVG element; PNG, PDF and the data behind it (CSV) lie in the report by its name."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the page: its figures, what was found, and its tables (of an ablation the comparison first)."""

    name: str
    title: str
    tables: list[Table]
    figures: list[Picture]
    words: Words | None = None


@dataclass(frozen=True)
class BesidePaper:
    """The paper on the page: its tables with a number of ours, those without, its claims and what they rest on."""

    tables: list[Table]
    not_run: list[str]
    claims: Table
    pairs: Table


def page(
    results: Results,
    plan: dict[str, Any],
    frame: "pandas.DataFrame",
    sections: list[Section],
    arms: Table,
    papers: BesidePaper,
    warnings: list[str],
    theory: list[Shown],
    arm_pages: bool,
) -> str:
    """Returns the page as HTML. Files beside it (tables, figures, records, arms' pages if any) are linked."""
    example = next((arm["id"] for arm in plan["arms"]), "ARM")
    return _template(PAGE).render(
        plan=plan,
        config=json.dumps(plan["config"], indent=2, ensure_ascii=False),
        counts=_counts(plan, frame),
        provenance=_provenance(frame),
        data=data_cards(results, plan),
        sections=sections,
        arms=arms,
        papers=papers,
        table_id=table_id,
        warnings=warnings,
        theory=theory,
        example=example,
        arm_pages=arm_pages,
    )


def arm_page(title: str, text: str) -> str:
    """Returns a page of plain text about one arm, with a link back."""
    return _template(ARM_PAGE).render(title=title, text=text)


@cache
def _template(source: str) -> "Template":
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)


def data_cards(results: Results, plan: dict[str, Any]) -> Table:
    """Returns the data sets of the plan with what their cards say; one that is not prepared says so."""
    columns = ["data set", "task", "metric", "graphs", "nodes per graph", "edges", "in-degree (mean, max)", "features"]
    columns += ["outputs", "splits", "data hash"]
    rows, notes = [], []
    for label, dataset in plan["datasets"].items():
        path = results.data(dataset["id"]) / "card.json"
        if path.exists():
            card, splits = read_record(path), split_sizes(results, dataset["id"])
            facts = _card(card)
            facts.insert(-1, _how_split(splits))
            notes += [f"{label}: {note}." for note in card["notes"]]
            layers = dict.fromkeys(arm["layer"] for arm in plan["arms"] if arm["dataset"] == label)
            without = [layer for layer in layers if layer not in ONLY_FOR_LAYERS["edge_features"]]
            if card.get("edge_attr") and without:
                notes.append(f"{label}: its edge features are not used in {listing(without, len(without))}.")
        else:
            facts = ["not prepared", *[""] * 9]
        rows.append([Cell(label), *map(Cell, facts)])
    return Table("data", "The data sets as they were prepared.", columns, rows, notes)


def _how_split(splits: dict[str, Any] | None) -> str:
    if splits is None:
        return "not frozen"
    if splits["scheme"] == "official":
        return f"official split of {splits['items']}"
    if splits["scheme"] == "file":
        return f"{counted(len(splits['splits']), 'split')} of {splits['items']}, from a file"
    return f"{splits['folds']} folds of {splits['items']}, {splits['scheme']}, seed {splits['seed']}"


def _card(card: dict[str, Any]) -> list[str]:
    nodes, degree = card["nodes_per_graph"], card["in_degree"]
    return [
        f"{card['level']} {card['task']}",
        f"{card['metric']} {Metric(card['metric'], card['direction']).arrow}",
        f"{card['num_graphs']:,}",
        f"{nodes['mean']:.1f} ({nodes['min']:.12g}–{nodes['max']:.12g})",
        f"{card['num_edges']:,}",
        f"{degree['mean']:.2f}, {degree['max']:.12g}",
        card["features"],
        str(card["num_outputs"]),
        card["data_hash"][:12],
    ]


def _counts(plan: dict[str, Any], frame: "pandas.DataFrame") -> str:
    evaluated = frame[frame["stage"] == "evaluate"]
    ok = int((evaluated["status"] == "ok").sum())
    arms, fits = counted(len(plan["arms"]), "arm"), counted(frame.loc[frame["device"].notna(), "fit"].nunique(), "fit")
    return f"{arms}; {ok} of {counted(len(evaluated), 'planned evaluation fit')} ok; {fits} in all."


def _provenance(frame: "pandas.DataFrame") -> list[tuple[str, str]]:
    """Says when, with what and where the fits were made."""
    started = frame["started"].dropna()
    facts = [("Fits started", f"{started.min()} to {started.max()}" if len(started) else "none yet")]
    made = frame.drop_duplicates("fit")
    for title, column in (
        ("Code fingerprint", "code"),
        ("Git commit", "git_commit"),
        ("Versions", "versions"),
        ("Device", "device"),
        ("Threads", "threads"),
    ):
        counts = made[column].dropna().value_counts()
        shown = (f"{value} ({counted(count, 'fit')})" for value, count in counts.items())
        facts.append((title, listing(shown, 6) or "unknown"))
    if "compiled" in made:
        facts.append(("Compiled", counted(made["compiled"].sum(), "fit")))
    return facts
