"""The study file, typed. Unknown keys are refused, every error is reported at once with its path."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError, field_validator

from ssma.errors import UNPRINTABLE, StudyError, printable
from ssma.study.datasets import AnyDataset, Splits
from ssma.study.reading import read_study
from ssma.study.settings import (
    AGGREGATORS,
    LIMIT,
    Integer,
    ModelSettings,
    NotNegative,
    Number,
    PositiveInt,
    Strict,
    Text,
    TrainingSettings,
    no_groups,
    no_value_twice,
)
from ssma.study.theory import Theory
from ssma.study.values import wrong_settings
from ssma.study.wording import did_you_mean, sentence

RULES = ("all", "collect", "evaluate", "experiment", "prepare", "report", "store", "theory", "tune")
"""The workflow's own rules: an ablation becomes a rule of its name beside them."""

LONGEST_NAME = 100
"""Files are named after studies, data sets, aggregators and ablations; a file's name has at most 255 bytes."""

ABSENT = r"None|NULL|null|NaN|nan|NA|<NA>|N/A|n/a|#N/?A|-nan|-NaN|-?1\.#(IND|QNAN)"
"""What pandas takes in a CSV file for a missing value, so that its rows are in no group."""

TRACKING = re.compile(
    r"sqlite(\+pysqlite)?:///[^:?].*|https?://[^/#][^#]*|(?!(sqlite|file|https?)\b)\w[\w+.-]*://.+|databricks"
)
"""An address at which MLflow can keep runs."""

Values = Annotated[list[Any], Field(min_length=1)]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(no_value_twice)]


class Range(Strict):
    """A range to search: of whole numbers where the setting is one (of your own class: both ends are), else of real."""

    low: Annotated[int | float, Field(gt=-LIMIT, lt=LIMIT), Number]
    """Smallest value."""
    high: Annotated[int | float, Field(gt=-LIMIT, lt=LIMIT), Number]
    """Largest value."""
    log: bool = False
    """Search the exponent."""


SINGLE = str | int | float
Dimension = Annotated[
    Annotated[list[Any], Field(min_length=2), Tag("list")] | Annotated[Range, Tag("Range")],
    Discriminator(
        lambda value: "Range" if isinstance(value, dict | Range) else None if isinstance(value, SINGLE) else "list",
        custom_error_type="dimension",
        custom_error_message="expected a list of values, or a table of low and high",
    ),
]
"""What is wrong with a range is told of a range alone, not that it is no list."""


class Ablation(Strict):
    """A named comparison: data sets x layers x the axes' values."""

    title: str | None = None
    """Heading in the report."""
    claim: str | None = None
    """What the paper says of it, with the section; the report shows it beside what was found."""
    axes: Annotated[dict[str, Values], Field(min_length=1)]
    """Setting -> values, e.g. `ssma.kappa: [2, 3, 4]`; `aggregator` is a setting too."""
    fixed: dict[str, Any] = {}
    """Settings that all its arms share."""
    datasets: Names | None = None
    """Data sets; all by default."""
    layers: Names | None = None
    """Layers; all by default."""

    _dots = field_validator("axes", "fixed", mode="before")(no_groups)

    @field_validator("datasets", "layers", mode="before")
    @classmethod
    def _are_not_empty(cls, names: Any) -> Any:
        if names is None:
            raise ValueError("is empty; fill it in, or leave it out to have all")
        return names


class Tune(Strict):
    """The search of every arm; judged on validation."""

    trials: PositiveInt = 8
    """Configurations per arm (fewer where its space has fewer); of a grid all, whatever the default."""
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    """Optuna's TPE; random ones; or the whole grid in order. None of them repeats a configuration."""
    splits: PositiveInt | None = None
    """Judge on the first so many splits; all by default."""
    selection: Literal["validation", "per_split", "test"] = "validation"
    """One configuration per arm, one per split, or (biased) the paper's choice by the test metric."""
    prune: bool = True
    """Stop a trial that is worse than the best one on the splits it has seen."""
    space: dict[str, Dimension] = {}
    """Setting -> values or range. A setting that an arm fixes is not searched in it."""
    storage: str | None = None
    """`journal`: files beside the results, or `postgresql://USER@HOST/DATABASE`; SSMA_TUNE_STORAGE by default."""

    _dots = field_validator("space", mode="before")(no_groups)


class Evaluate(Strict):
    """The fits behind the reported numbers: the chosen configuration with fresh seeds, on every split."""

    repeats: PositiveInt = 1
    """Seeds per split."""


class Report(Strict):
    """How numbers are compared in the report. It changes no number and trains nothing again."""

    rope: dict[Literal["accuracy", "f1", "ap", "auroc", "mae", "rmse"], NotNegative] = {}
    """Metric -> difference, in printed units, up to which arms are equivalent; else 1 point of a metric in percent, or
    1 % of the mean of the reference."""
    missing: Literal["not_testable", "drop", "worst"] = "not_testable"
    """Fits that are not ok: no test, a test of what there is, or the worst metric of the data set in their place."""


class Data(Strict):
    """Where raw data come from."""

    mirror: Text | None = None
    """Folder with raw data sets; else the variable SSMA_DATA_MIRROR; else they are downloaded."""


class Track(Strict):
    """MLflow."""

    enabled: bool = True
    """Log to MLflow while the study runs."""
    uri: str | None = None
    """Tracking server; a SQLite store beside the results by default."""


class Study(Strict):
    """A study: the whole experiment in one file."""

    study: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=LONGEST_NAME)]
    """Name; results go to results/<study>, the report to reports/<study>."""
    title: str = ""
    """Heading of the report."""
    seed: Integer = 0
    """Fits, searches and theory experiments have their seeds from it; folds and made data have seeds of their own."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where fits run."""
    compiled: bool = False
    """Compile SSMA's product, in seconds of each job; results are the same up to rounding."""
    datasets: Annotated[dict[str, AnyDataset], Field(min_length=1)]
    """Label -> data set."""
    layers: Names
    """Message-passing layers."""
    aggregators: dict[str, dict[str, Any]] = {}
    """Name -> options where they differ from the defaults; `class: dotted.path` adds an aggregator of one's own."""
    ablations: Annotated[dict[str, Ablation], Field(min_length=1)]
    """Name -> comparison."""
    protocol: Literal["paper", "fair"] | None = None
    """Start from the settings of the paper's experiments, or from sounder ones, in place of the defaults."""
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    splits: Splits = Splits()
    tune: Tune = Tune()
    evaluate: Evaluate = Evaluate()
    report: Report = Report()
    data: Data = Data()
    track: Track = Track()
    theory: Theory = Theory()

    @field_validator("device", mode="before")
    @classmethod
    def _is_no_numbered_gpu(cls, device: Any) -> Any:
        if isinstance(device, str) and (number := re.fullmatch(r"(?:cuda|gpu):?(\d+)", device)):
            raise ValueError(
                f"expected 'auto', 'cpu' or 'cuda', got {device!r}; write cuda, and start the study with "
                f"CUDA_VISIBLE_DEVICES={number[1]} in the environment: a job takes one of the GPUs named there"
            )
        return device

    @field_validator("datasets", "aggregators", "ablations")
    @classmethod
    def _name_files(cls, tables: dict[str, Any]) -> dict[str, Any]:
        if long := [name for name in tables if len(name) > LONGEST_NAME]:
            raise ValueError(f"rename {', '.join(long)}: a name has at most {LONGEST_NAME} characters")
        if absent := [name for name in tables if re.fullmatch(ABSENT, name)]:
            raise ValueError(f"rename {', '.join(absent)}: readers of CSV files take it for a missing value")
        return tables

    @field_validator("ablations")
    @classmethod
    def _are_no_rules(cls, ablations: dict[str, Ablation]) -> dict[str, Ablation]:
        if taken := [name for name in ablations if name in RULES]:
            raise ValueError(f"rename {', '.join(taken)}: the workflow has a rule of this name")
        return ablations


def load_study(path: Path) -> Study:
    """Reads a study file (YAML).

    Raises:
        StudyError: If it cannot be read, or with every error in it and its path.
    """
    return parse_study(read_study(path))


def parse_study(raw: dict[str, Any]) -> Study:
    """Returns the typed study of a parsed file (or of Snakemake's config).

    Raises:
        StudyError: With every error at once, each with its path.
    """
    wrong = [*_broken_texts(raw), *_unknown_options(raw.get("aggregators"))]
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        told = [sentence(item, raw, Study) for item in error.errors()]
        raise study_error([*told, *wrong, *wrong_settings(raw)]) from error
    if wrong:
        raise study_error(wrong)
    return study


def _broken_texts(value: Any, path: str = "") -> Iterator[str]:
    """Yields a sentence for each text that no file could hold, such as Latin-1 from a command line, or no figure show,
    such as the colours of a terminal."""
    if isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            place = printable(f"{path}.{key}".strip("."))
            yield from _broken_texts(key, place)
            yield from _broken_texts(item, place)
    elif isinstance(value, str):
        try:
            text = value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            yield f"{path}: holds what is no character in UTF-8, got {value!r}"
        else:
            if found := UNPRINTABLE.search(text):
                yield f"{path}: holds {found[0]!r}, which no page or figure can show; leave it out, got {value!r}"


def _unknown_options(aggregators: Any) -> Iterator[str]:
    """Yields a sentence for each option that an aggregator of the package does not have."""
    tables = aggregators if isinstance(aggregators, dict) else {}
    for name in AGGREGATORS:
        known, given = list(AGGREGATORS[name].model_fields), tables.get(name)
        for key in given if isinstance(given, dict) else ():
            if key not in (*known, "class"):
                yield f"aggregators.{name}.{key}: unknown setting; {did_you_mean(key, known)}"


def study_error(sentences: Sequence[str]) -> StudyError:
    """Returns one error for all that is wrong in a study file."""
    different = list(dict.fromkeys(sentences))
    count = f"{len(different)} error{'s' if len(different) > 1 else ''} in the study file:"
    return StudyError("\n  - ".join([count, *different]))


def track_error(uri: str | None) -> str | None:
    """Returns what is wrong with ``track.uri``, never with a password in it.

    MLflow keeps no runs in plain folders any more, and a database in memory would be another one in each job.
    """
    if uri is None:
        return None
    try:
        has_password, _ = urlsplit(uri).password is not None, urlsplit(uri).port
    except ValueError:  # the host or the port is none; its text may have the password
        has_password, uri = False, ""
    if not TRACKING.fullmatch(uri):
        return "track.uri: is no address; expected one like sqlite:////folder/mlflow.db or https://host:5000"
    if not has_password:
        return None
    return (
        "track.uri: holds a password, which would be written into plan.json and report; put it into the variable "
        "MLFLOW_TRACKING_PASSWORD and the user into MLFLOW_TRACKING_USERNAME; of PostgreSQL, into PGPASSWORD; of "
        "MySQL, into a file, named by mysql+pymysql://...?read_default_file="
    )
