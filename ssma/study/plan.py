"""A study becomes a plan: every arm once, with its settings, its search space, its splits and its id."""

import itertools
from collections.abc import Iterable
from typing import Any

from ssma import RESULT_VERSION
from ssma.study.classes import class_fingerprint, options_of
from ssma.study.combinations import idle_axes, impossible, not_given
from ssma.study.config import Ablation, Range, Study, Tune, study_error, track_error
from ssma.study.data_plan import plan_dataset
from ssma.study.ids import canonical, canonical_json, digest, slug
from ssma.study.names import LABEL, name_errors, short, told
from ssma.study.presets import preset
from ssma.study.settings import AGGREGATORS, GROUPS, LAYERS, ONLY_FOR_LAYERS, ONLY_FOR_PARTS
from ssma.study.space import idle_on, idle_settings, table_of
from ssma.study.theory import plan_theory
from ssma.study.tuning import number_of_trials, one_database, storage_error, tuning, unused
from ssma.study.values import typed_value
from ssma.study.wording import A_NAME, did_you_mean

TAKEN = (*GROUPS, "data", "splits")
"""What stands before the dot of names that are no options of an aggregator, in MLflow too."""

WIDTH = ("model.budget", "model.hidden_channels")


def make_plan(study: Study) -> dict[str, Any]:
    """Returns the plan of a study: its arms, data sets and ablations, ready to be written as JSON.

    An arm that two ablations share is listed once. Nothing is read, and torch is not imported.

    Raises:
        StudyError: With every error at once, each with its path in the study file.
    """
    return _Planner(study).plan()


class _Planner:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.errors: list[str] = []
        self.aggregators = {name: {"class": None, "class_code": None} for name in AGGREGATORS}
        self.own: dict[str, dict[str, bool] | None] = {}
        self.defaults: dict[str, dict[str, Any]] = {}
        self.arms: dict[str, dict[str, Any]] = {}

    def plan(self) -> dict[str, Any]:
        study = self.study
        self._read_aggregators()
        self._check_tables()
        defaults = {f"{group}.{key}": value for group in GROUPS for key, value in GROUPS[group]().model_dump().items()}
        stated = {
            f"{group}.{key}": value
            for group in GROUPS
            for key, value in getattr(study, group).model_dump(exclude_unset=True).items()
        }
        self._width("model", study.model.model_dump(exclude_unset=True), defaults | stated)
        own = {label: self._typed(f"datasets.{label}.fixed", data.fixed) for label, data in study.datasets.items()}
        planned = {label: plan_dataset(study, label) for label in study.datasets}
        datasets = {label: entry for label, (entry, _) in planned.items()}
        self.errors += [error for _, errors in planned.values() for error in errors]
        tunes = {label: tuning(study.tune, study.protocol, data["spec"]) for label, data in datasets.items()}
        spaces = {label: self._read_space(tune) for label, tune in tunes.items()}
        ablations = {name: self._read_ablation(name, item) for name, item in study.ablations.items()}
        if self.errors:
            raise study_error(self.errors)
        wrong: dict[str, list[str]] = {}
        for name, ablation in ablations.items():
            for cell in ablation["cells"]:
                dataset = datasets[cell["dataset"]]
                label = dataset["label"]
                base = [defaults, preset(study.protocol, dataset["spec"], cell["layer"]), stated]
                search = (tunes[label], spaces[label])
                cell["arm"] = self._arm(dataset, cell, base, own[label], cell.pop("settings"), search)
            for error in dict.fromkeys(self.errors):
                wrong.setdefault(error, []).append(name)
            self.errors.clear()
        self.errors += [_in_ablations(error, names, len(ablations)) for error, names in wrong.items()]
        self.errors += [error for name, ablation in ablations.items() for error in idle_axes(name, ablation)]
        self.errors += unused(study.tune, [arm["space"] for arm in self.arms.values()])
        if self.errors:
            raise study_error(sorted(set(self.errors)))
        return canonical(
            {
                "kind": "plan",
                "study": study.study,
                "title": study.title or study.study,
                "result_version": RESULT_VERSION,
                "config": study.model_dump(mode="json"),
                "datasets": datasets,
                "arms": list(self.arms.values()),
                "ablations": ablations,
                "theory": plan_theory(study.theory, study.seed),
            }
        )

    def _read_aggregators(self) -> None:
        for name, options in self.study.aggregators.items():
            path = f"aggregators.{name}"
            dotted = options.get("class")
            if name in AGGREGATORS and dotted is not None:
                self.errors.append(f"{path}.class: '{name}' is built in; give your class another name")
            elif name not in AGGREGATORS and not isinstance(dotted, str):
                known = did_you_mean(name, list(AGGREGATORS))
                self.errors.append(f"{path}: unknown aggregator; {known}, or give 'class: package.module.Class'")
            elif not LABEL.fullmatch(name) or "." in name or name in TAKEN:
                self.errors.append(f"{path}: {A_NAME}, here without '.', and is none of {', '.join(TAKEN)}")
            else:
                self.aggregators[name] = {"class": dotted, "class_code": self._read_class(name, path, dotted)}
                self.defaults[name] = {
                    key: typed
                    for key, value in options.items()
                    if key != "class"
                    for typed in self._checked(f"{path}.{key}", f"{name}.{key}", value)
                }

    def _read_class(self, name: str, path: str, dotted: str | None) -> str | None:
        try:
            self.own[name] = options_of(dotted) if dotted is not None else None
            return class_fingerprint(dotted) if dotted is not None else None
        except ValueError as error:
            self.errors.append(f"{path}.class: {error}")
            return None

    def _check_tables(self) -> None:
        study = self.study
        self.errors += name_errors(study)
        self.errors += [
            f"layers: unknown layer '{layer}'; {did_you_mean(layer, LAYERS)}"
            for layer in study.layers
            if layer not in LAYERS
        ]
        for label, data in study.datasets.items():
            if "aggregator" in data.fixed:
                self.errors.append(f"datasets.{label}.fixed.aggregator: name it in an ablation's axes or fixed instead")
            if data.source == "synthetic" and (data.task == "node_classification") == (data.num_graphs is not None):
                rule = "must be left out: the task is one graph" if data.num_graphs else "this key is required"
                self.errors.append(f"datasets.{label}.num_graphs: {rule}")
        if study.splits.file is not None:
            self.errors.append("splits.file: numbers the items of one data set; name it in datasets.NAME.splits")
        official = all(data.has_official_split for data in study.datasets.values())
        if official and "splits" in study.model_fields_set:
            self.errors.append("splits: must be left out, every data set has an official split")
        if official and (study.tune.splits or 1) > 1:
            self.errors.append(f"tune.splits: got {study.tune.splits}, but every data set has one split")
        storage, uri = study.tune.storage, study.track.uri
        self.errors += filter(None, (storage_error(storage), track_error(uri) or one_database(storage, uri)))
        if study.tune.selection == "per_split" and study.tune.splits is not None:
            self.errors.append("tune.splits: must be left out with selection: per_split, which judges every split")

    def _typed(self, path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a table with checked values."""
        return {key: typed for key, value in settings.items() for typed in self._checked(f"{path}.{key}", key, value)}

    def _checked(self, path: str, key: str, value: Any) -> list[Any]:
        """Returns the value of a setting in its type, or nothing and notes the error."""
        try:
            return [typed_value(key, value, self.aggregators, self.own)]
        except ValueError as error:
            self.errors.append(f"{path}: {error}")
            return []

    def _width(self, path: str, given: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
        """Returns budget and width such that one of them is set: naming one clears the other."""
        named = {key: value for key, value in given.items() if f"model.{key}" in WIDTH and value is not None}
        if len(named) == 2:
            self.errors.append(f"{path}: budget and hidden_channels exclude each other; give one")
        if not named and all(base[key] is None for key in WIDTH):
            self.errors.append(f"{path}: give a budget or hidden_channels")
        return {key: None for key in WIDTH if named and key.partition(".")[2] not in named}

    def _read_space(self, tune: Tune) -> dict[str, Any]:
        space = {}
        for key, values in tune.space.items():
            path = f"tune.space.{key}"
            if key == "training.evaluation":
                self.errors.append(f"{path}: cannot be tuned, since it is how results are measured; make it an axis")
            elif key == "aggregator" or key in WIDTH:
                self.errors.append(f"{path}: cannot be tuned, since arms are compared at equal size; make it an axis")
            elif isinstance(values, Range):
                ends = [typed for end in (values.low, values.high) for typed in self._checked(path, key, end)]
                if canonical(values.low) >= canonical(values.high):
                    self.errors.append(f"{path}: low must be below high, got {values.low} and {values.high}")
                if values.log and values.low <= 0:
                    self.errors.append(f"{path}: low must be above 0 for a log range, got {values.low}")
                if bool in map(type, ends):
                    self.errors.append(f"{path}: is true or false and has no range; give the list [false, true]")
                typed = dict(zip(("low", "high"), ends, strict=False))
                space[key] = values.model_dump() | typed | {"kind": self._kind(key, values)}
            else:
                space[key] = self._values(path, key, values)
                for value, other in itertools.combinations(space[key], 2):
                    if value == other:
                        pair = f"{canonical_json(value)} and {canonical_json(other)}"
                        self.errors.append(f"{path}: {pair} are one value to Optuna; leave one out")
        return space

    def _kind(self, key: str, values: Range) -> str:
        """Returns ``int`` or ``float``: the setting's type; of a user's own option, that of the range's ends."""
        group, _, field = key.partition(".")
        model = GROUPS.get(group) or AGGREGATORS.get(group)
        if model is not None and field in model.model_fields:
            return "int" if model.model_fields[field].annotation is int else "float"
        return "int" if isinstance(values.low, int) and isinstance(values.high, int) else "float"

    def _values(self, path: str, key: str, values: Iterable[Any]) -> list[Any]:
        """Returns the values of an axis or of a search in their type, and notes as an error what stands there twice."""
        unique: dict[str, Any] = {}
        for value in [typed for item in values for typed in self._checked(path, key, item)]:
            if (text := canonical_json(value)) in unique:
                self.errors.append(f"{path}: names {text} twice; leave one out")
            unique[text] = value
        return list(unique.values())

    def _read_ablation(self, name: str, ablation: Ablation) -> dict[str, Any]:
        study, path = self.study, f"ablations.{name}"
        for group, known in (("datasets", list(study.datasets)), ("layers", study.layers)):
            self.errors += [
                f"{path}.{group}: '{item}' is not in this study; {did_you_mean(item, known)}"
                for item in getattr(ablation, group) or []
                if item not in known
            ]
        axes = {key: self._values(f"{path}.axes.{key}", key, values) for key, values in ablation.axes.items()}
        fixed = self._typed(f"{path}.fixed", ablation.fixed)
        both = sorted(axes.keys() & fixed.keys())
        self.errors += [f"{path}.fixed.{key}: is an axis of the same ablation" for key in both]
        prefixes = {key.partition(".")[0] for key in [*axes, *fixed]} & self.aggregators.keys()
        compared = axes.get("aggregator") or ([fixed["aggregator"]] if "aggregator" in fixed else None)
        if compared is None and len(prefixes) == 1:
            compared = list(prefixes)
            fixed["aggregator"] = compared[0]
        wrong = any(each.startswith((f"{path}.axes.aggregator:", f"{path}.fixed.aggregator:")) for each in self.errors)
        if compared is None and not wrong:
            self.errors.append(f"{path}: which aggregator? Make 'aggregator' an axis or name it in fixed")
        idle = [] if wrong else sorted(prefixes - set(compared or prefixes))
        self.errors += [f"{path}: settings of '{item}' never apply, since it is not compared" for item in idle]
        cells = [
            {"dataset": dataset, "layer": layer, "point": point, "settings": fixed | point}
            for dataset in ablation.datasets or study.datasets
            for layer in ablation.layers or study.layers
            for values in itertools.product(*axes.values())
            for point in [dict(zip(axes, values, strict=True))]
        ]
        return {"title": ablation.title or name.replace("_", " ").capitalize(), "axes": axes, "cells": cells}

    def _settings(self, layer: str, name: str, parted: bool, levels: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns an arm's options of aggregator, model and training; the first level has them all, later ones win."""
        merged = dict(levels[0])
        for level in levels[1:]:
            model = {key.partition(".")[2]: value for key, value in level.items() if key.startswith("model.")}
            merged |= level | self._width("model", model, merged | level)
        options = AGGREGATORS.get(name)
        aggregator = (options().model_dump() if options else {}) | self.defaults.get(name, {})
        aggregator |= {key.partition(".")[2]: value for key, value in merged.items() if key.startswith(f"{name}.")}
        settings: dict[str, Any] = {"aggregator": aggregator}
        for group, fields in GROUPS.items():
            keys = [key for key in fields.model_fields if _applies(f"{group}.{key}", layer, name, parted)]
            settings[group] = {key: merged[f"{group}.{key}"] for key in keys}
        return settings

    def _arm(
        self,
        dataset: dict[str, Any],
        cell: dict[str, Any],
        base: list[dict[str, Any]],
        own: dict[str, Any],
        given: dict[str, Any],
        search: tuple[Tune, dict[str, Any]],
    ) -> str:
        """Notes the arm of a cell, if it is new, and returns its id.

        Args:
            cell: Data set, layer and point of an ablation.
            base: Settings from weak to strong: defaults, protocol, the study's own.
            own: The data set's fixed settings.
            given: The ablation's fixed settings and the point.
            search: How the data set's arms are tuned, and the search space.
        """
        (tune, space), layer, name = search, cell["layer"], given["aggregator"]
        to, idle = (layer, name, "parts" in dataset["spec"]), idle_on(layer, dataset["spec"])
        given, space = ({key: value for key, value in table.items() if key not in idle} for table in (given, space))
        fixed = {key: value for key, value in (own | given).items() if _applies(key, *to)}
        searched = {key: value for key, value in space.items() if key not in fixed and _applies(key, *to)}
        settings = self._settings(*to, [*base, own, given])
        for key in idle_settings(name, settings, searched):
            group, field = table_of(key, name)
            settings.get(group, {}).pop(field, None)
            for table in (fixed, searched):
                table.pop(key, None)
        self.errors += impossible(layer, name, settings, searched)
        self.errors += not_given(name, self.own.get(name), settings["aggregator"], searched)
        splits = list(range(dataset["use"]))
        arm = {
            "layer": layer,
            "aggregator": name,
            **self.aggregators[name],
            "settings": settings,
            "space": searched,
            "tune_splits": splits[: tune.splits] if searched else [],
            "sampler": tune.sampler if searched else "none",
            "prune": tune.prune and bool(searched),
            "seed": self.study.seed,
        }
        trials, wrong = number_of_trials(tune, searched)
        self.errors += [wrong] if wrong else []
        effort = {
            "trials": trials,
            "splits": splits,
            "repeats": self.study.evaluate.repeats,
            "selection": tune.selection if searched else "none",
        }
        used = {"dataset": dataset["id"], "settings": _without(settings, searched, name), "version": RESULT_VERSION}
        search = arm | used  # a default that is searched over changes nothing
        arm_id = f"{slug(dataset['label'])}-{layer}-{slug(name)}-{digest(search | effort)}"
        shown = " ".join(f"{short(key)}={told(value)}" for key, value in given.items() if key in fixed)
        label = f"{dataset['label']} / {layer} / {name}" + (f" ({shown})" if shown else "")
        names = {"id": arm_id, "label": label, "dataset": dataset["label"]}
        self.arms.setdefault(arm_id, {**names, **arm, **effort, "fixed": fixed, "search_id": digest(search)})
        return arm_id


def _in_ablations(error: str, names: list[str], of: int) -> str:
    """Returns an error with the ablations whose arms have it, but where all have it: then it may be the study's."""
    return error if len(names) == of else f"{error} (in the ablation{'s' * (len(names) > 1)} {', '.join(names)})"


def _applies(key: str, layer: str, aggregator: str, parted: bool) -> bool:
    """Returns whether a setting changes an arm's numbers; ``parted``: its data set is one graph, cut into parts."""
    if key in ONLY_FOR_PARTS and not parted:
        return False
    group, _, field = key.partition(".")
    if key == "model.pna_mix" and aggregator == "pna":
        return False  # the mix itself
    return group == aggregator or (group in GROUPS and layer in ONLY_FOR_LAYERS.get(field, (layer,)))


def _without(settings: dict[str, Any], searched: dict[str, Any], aggregator: str) -> dict[str, Any]:
    """Returns settings without those that a search sets."""
    sought = {table_of(key, aggregator) for key in searched}
    return {
        group: {key: value for key, value in values.items() if (group, key) not in sought}
        for group, values in settings.items()
    }
