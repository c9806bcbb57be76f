"""What a reader of the numbers should know about data and splits: graphs that are alike, edges that stand for less or
more than they seem, classes and codes never trained on, metrics that a part of a split cannot have.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ssma.data.colours import refine
from ssma.data.graphs import Graphs, owners
from ssma.data.loaded import Loaded
from ssma.data.splits import OWN
from ssma.errors import StudyError
from ssma.study.cost import counted
from ssma.study.records import PARTS

SIZES = (0.005, 500.0)
"""Between them are the sizes of targets and features that the rates of a study fit: networks start with weights and
outputs near 1, and AdamW changes a weight by about the rate in a step, however large what it learns is."""
MOST_NAMED = 20  # splits in a note
MOST_APART = 100.0  # sizes of columns that are learned together
KINDS = {
    "multilabel": "labels with both classes",
    "regression": "targets that are known",
    "multiclass": "classes that a part has, and those that are predicted there",
}
"""Task -> what a metric is a mean over."""


def find_copies(loaded: Loaded, splits: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Returns how many graphs are exact copies of others, and a note if there are any.

    Two graphs are copies if their nodes have equal features in the order in which they are stored, and the same edges
    with equal features in whatever order; their targets may differ, and graphs that are only isomorphic are not found.
    ``graphs`` counts all that have a copy, ``leaked`` the validation and test graphs with a copy in the training part,
    split by split.
    """
    found = _repeated(_contents(loaded.graphs) if loaded.level == "graph" else [], splits)
    note = (
        f"{found['graphs']} graphs are exact copies of other graphs, targets aside; of the validation and test graphs "
        f"of a split up to {max(found['leaked'])} with a copy in its training part"
    )
    return found, [note] if found["graphs"] else []


def find_alike(loaded: Loaded, splits: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Returns how many graphs no message passing tells from others (see :func:`ssma.data.colours.refine`), exact
    copies and isomorphic graphs among them, and notes if there are any, and if their targets differ; counts as those of
    ``find_copies``.
    """
    content = refine(loaded.graphs).tolist() if loaded.level == "graph" else []
    found = _repeated(content, splits)
    note = (
        f"{found['graphs']} graphs are alike to message passing as isomorphic ones are, targets aside; of the "
        f"validation and test graphs of a split up to {max(found['leaked'])} like one in its training part"
    )
    return found, [note, *_contradictions(content, loaded, splits)] if found["graphs"] else []


def _contradictions(content: Sequence[Any], loaded: Loaded, splits: list[dict[str, Any]]) -> list[str]:
    """Returns a note if graphs of the same content have different classes or real targets: on the best that one answer
    for each content reaches, the class that most have, or the median, or by rmse the mean. Graphs in no part of any
    split do not count.
    """
    if loaded.task == "multilabel":
        return []
    held = sorted({item for split in splits for part in PARTS for item in split[part]})
    y, count, missed = loaded.graphs.y, 0, 0.0
    alike: dict[Any, list[int]] = {}
    for number in held:
        if not y[number].isnan().all():
            alike.setdefault(content[number], []).append(number)
    for own in (y[numbers] for numbers in alike.values() if len(numbers) > 1):
        if loaded.task == "multiclass":
            wrong = len(own) - int(own.bincount().max())
        elif loaded.metric == "rmse":
            wrong = float((own.double() - own.double().nanmean(dim=0)).square().nansum())
        else:
            wrong = float((own - own.nanmedian(dim=0).values).abs().double().nansum())
        count, missed = count + len(own) * (wrong > 0), missed + wrong
    if loaded.metric == "f1":
        most = _most_f1([y[numbers] for numbers in alike.values()], loaded.num_outputs)
        best = f"has an f1 above {most:.3g} over all"
    elif loaded.task == "multiclass":
        best = f"gets more than {len(held) - missed:.0f} of {len(held)} right"
    else:
        error = missed / int((~y[held].isnan()).sum())
        best = f"has an {loaded.metric} below {error**0.5 if loaded.metric == 'rmse' else error:.3g} over all"
    told = f"y: {count} graphs are like others with another target; no network that treats them alike {best}"
    return [told] if count else []


def _most_f1(contents: Sequence[Tensor], classes: int) -> float:
    """Returns what no macro F1 of one answer for each content exceeds: the mean of the largest that each class could
    have by itself. That is by the contents of which it has the largest shares, down to some share.
    """
    counts = torch.stack([own.bincount(minlength=classes) for own in contents]).double()
    sizes, found = counts.sum(dim=1), []
    for own in counts.unbind(dim=1):
        order = (own / sizes).argsort(descending=True)
        found.append(float((2 * own[order].cumsum(0) / (sizes[order].cumsum(0) + own.sum())).max()))
    return sum(found) / classes


def _repeated(content: Sequence[Any], splits: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts the graphs whose content another one has: all, and the validation and test graphs of each split whose
    content a training graph has.
    """
    counts = Counter(content)
    leaked = [0] * len(splits)
    for number, split in enumerate(splits if content else []):
        trained = {content[item] for item in split["train"]}
        leaked[number] = sum(content[item] in trained for part in PARTS[1:] for item in split[part])
    return {"graphs": sum(count for count in counts.values() if count > 1), "leaked": leaked}


def missing_classes(loaded: Loaded, splits: list[dict[str, Any]]) -> list[str]:
    """Returns a note for each class that a training part lacks, or on the labels and targets that it says nothing of:
    test parts may ask for them all the same.
    """
    if loaded.task != "multiclass":
        lacking = [loaded.num_outputs - _usable_targets(loaded, split["train"]) for split in splits]
        parts = [f"{count} in split {number}" for number, count in enumerate(lacking) if count]
        what = "both classes of labels" if loaded.task == "multilabel" else "known values of targets"
        return [f"training parts lack {what}: of {loaded.num_outputs}, {_listed(parts)}"] if parts else []
    notes = []
    present = [set(loaded.graphs.y[split["train"]].tolist()) for split in splits]
    for place in range(loaded.num_outputs):
        lacking = [number for number, classes in enumerate(present) if place not in classes]
        if lacking:
            where = _listed(map(str, lacking))
            notes.append(f"class {loaded.label(place)} is missing in the training part of split {where}")
    return notes


def minus_one(loaded: Loaded) -> list[str]:
    """Returns a note if -1 is a class beside 0, 1, ..., as many data sets write what is not known."""
    labels = sorted(map(int, loaded.label_mapping or {}))
    if len(labels) < 3 or labels != list(range(-1, len(labels) - 1)):
        return []
    count = int((loaded.graphs.y == loaded.label_mapping["-1"]).sum())
    remedy = "name splits in a file that leave these nodes out" if loaded.level == "node" else "leave these graphs out"
    return [
        f"labels: -1 is a class, of {count} {loaded.level}s, beside 0 to {labels[-1]}; if it stands for a label that "
        f"is not known, {remedy}"
    ]


def untrained_codes(loaded: Loaded, splits: list[dict[str, Any]]) -> list[str]:
    """Returns a note for node and for edge features if validation or test graphs have codes, or in columns of real
    numbers other values than 0, that no training graph has: the weights for them are as they were drawn, or decayed.
    """
    if loaded.level != "graph":
        return []
    graphs, notes = loaded.graphs, []
    trained, asked = torch.zeros(2, len(splits), graphs.num_graphs, dtype=torch.bool)
    for number, split in enumerate(splits):
        trained[number, split["train"]] = True
        asked[number, split["validation"] + split["test"]] = True
    for name, value, ptr in (("x", graphs.x, graphs.node_ptr), ("edge_attr", graphs.edge_attr, graphs.edge_ptr)):
        if value is None:
            continue
        counts = enumerate(_lacking_codes(value, owners(ptr), trained, asked))
        found = [
            f"{codes} in {counted(others, 'graph')} of split {number}" for number, (codes, others) in counts if codes
        ]
        what = "columns with values other than 0" if value.is_floating_point() else "codes"
        told = f"{name}: {what} in no training graph, so that nothing is learned of them"
        notes += [f"{told}: {_listed(found)}"] if found else []
    return notes


def lost_digits(what: str, values: Tensor, columns: Sequence[int] | None = None) -> list[str]:
    """Returns a note if float32, which is computed with, takes more than one in a hundred different values of a column
    of ``values`` [rows, columns] for another one; so it is with times in seconds, or energies of the order of 1e6. What
    is too small for it needs a smaller unit, in which the numbers are larger; to others that is of no help. ``columns``
    are their numbers, from 0 by default.
    """
    found: dict[str, list[str]] = {}
    if values.dtype != torch.float64:
        return []
    for number, column in zip(columns or range(values.size(1)), values.unbind(dim=1), strict=True):
        different = column[~column.isnan()].unique()
        lost = different.numel() - different.float().unique().numel()
        if lost > different.numel() / 100:
            found.setdefault(_remedy(different), []).append(f"{lost} of {different.numel()} in column {number}")
    return [
        f"{what}: different numbers that are one as float32: {', '.join(columns)}; {remedy} to keep them apart"
        for remedy, columns in found.items()
    ]


def _remedy(values: Tensor) -> str:
    small = bool((values.abs() < torch.finfo(torch.float32).tiny).all())
    return "give them in a smaller unit" if small else "subtract a constant"


def hard_targets(loaded: Loaded) -> list[str]:
    """Returns a note on targets whose mean is more than ten standard deviations from 0, as with energies, one on those
    that have one value alone, one if some have a hundred times the standard deviation of others, as in other units, and
    one on those whose standard deviation is not within ``SIZES``.
    """
    found, single, spreads = [], [], {}
    for place, column in enumerate(loaded.graphs.y.unbind(dim=1) if loaded.task == "regression" else ()):
        number, known = loaded.column(place), column[~column.isnan()].double()
        if known.unique().numel() > 1:
            spreads[number] = float(known.std())
            away = float(known.mean().abs()) / spreads[number]
            found += [f"{away:.3g} in column {number}"] if away > 10 else []
        else:
            single.append(str(number))
    far = (
        f"y: learned as it is, and its mean is many standard deviations from 0: {', '.join(found)}; subtract it, or "
        "fits spend their steps on it"
    )
    notes = [far] if found else []
    if single:
        notes.append(
            f"y: one value alone in column {', '.join(single)}; loss and {loaded.metric} are means over all columns, "
            "which it makes smaller; leave it out"
        )
    least, most = (pick(spreads, key=spreads.get, default=None) for pick in (min, max))
    if spreads and spreads[most] > MOST_APART * spreads[least]:
        notes.append(
            f"y: loss and {loaded.metric} are means over all columns, and the standard deviation is "
            f"{spreads[least]:.3g} in column {least} but {spreads[most]:.3g} in column {most}; bring them to one "
            "scale, or little is learned and told of the small ones"
        )
    if sizes := [f"{spread:.3g} in column {number}" for number, spread in spreads.items() if not _fits(spread)]:
        notes.append(
            f"y: learned as it is, and its standard deviation is {', '.join(sizes)}; give it in another unit, in which "
            "that is about 1, or little is learned"
        )
    return notes


def uneven_features(graphs: Graphs) -> list[str]:
    """Returns a note on node and one on edge features of real numbers if some columns hold numbers a hundred times as
    large as others, or if that of the largest is not within ``SIZES``: networks start with equal weights for all
    columns. The size of a column is the root mean square of its values other than 0.
    """
    notes = []
    for name, value in (("x", graphs.x), ("edge_attr", graphs.edge_attr)):
        if value is None or not value.is_floating_point():
            continue
        columns = (column[column != 0].double() for column in value.unbind(dim=1))
        sizes = {number: float(held.square().mean().sqrt()) for number, held in enumerate(columns) if held.numel()}
        least, most = (pick(sizes, key=sizes.get, default=None) for pick in (min, max))
        if sizes and sizes[most] > MOST_APART * sizes[least]:
            notes.append(
                f"{name}: used as it is, and where it is not 0 its size is {sizes[least]:.3g} in column {least} but "
                f"{sizes[most]:.3g} in column {most} (root mean square); bring the columns to one scale, or little is "
                "learned of the small ones"
            )
        elif sizes and not _fits(sizes[most]):
            notes.append(
                f"{name}: used as it is, and where it is not 0 its size is up to {sizes[most]:.3g}, in column {most} "
                "(root mean square); give it in another unit, in which that is about 1, or little is learned of it"
            )
    return notes


def _fits(size: float) -> bool:
    return SIZES[0] <= size <= SIZES[1]


def edge_notes(graphs: Graphs) -> list[str]:
    """Returns a note if there is no edge, or edges without one that leads back, that are repeated, or self-loops, and
    one on nodes that only send, of which gcn makes nothing."""
    if not graphs.num_edges:
        return ["edges: there are none, so that no node has a neighbour whose message could be aggregated"]
    source, target = graphs.ends(0), graphs.ends(1)
    there, back = (source * graphs.num_nodes + target).unique(), (target * graphs.num_nodes + source).unique()
    counts = {
        "have none that leads back": int((~torch.isin(there, back, assume_unique=True)).sum()),
        "are repetitions": graphs.num_edges - there.numel(),
        "are self-loops": int((source == target).sum()),
    }
    found = [f"{count} {what}" for what, count in counts.items() if count]
    notes = [f"edges: of {graphs.num_edges}, {', '.join(found)}; they are used as they are"] if found else []
    if silent := int(((graphs.out_degrees() > 0) & (graphs.in_degrees() == 0)).sum()):
        notes.append(
            f"nodes: {silent} have edges to others and none into them; gcn normalises by the edges into both ends, so "
            "that it leaves their messages out unless model.self_loops is true"
        )
    return notes


def measurable_labels(loaded: Loaded, splits: list[dict[str, Any]]) -> list[str]:
    """Returns a note on the labels that have one class only in a validation or test part, where the metric is an
    average over the other labels, or by f1 on the classes that such a part lacks.

    Raises:
        StudyError: If there is only one class or value; if a validation or test part has no value of the metric at all,
            so that no epoch could be chosen there, or no fit be told of; or if a training part teaches nothing.
    """
    if loaded.task == "multiclass":
        if loaded.num_outputs < 2:
            raise StudyError("labels: every item is of one class, so that there is nothing to learn; mend the data set")
        if loaded.metric != "f1":
            return []
    if loaded.task == "regression" and all(
        column[~column.isnan()].unique().numel() == 1 for column in loaded.graphs.y.t()
    ):
        raise StudyError(
            "targets: all are the same number as float32, so that there is nothing to learn; mend the data set, or "
            f"{_remedy(loaded.graphs.y.nan_to_num())} if their difference is small"
        )
    usable = [{part: _usable_targets(loaded, split[part]) for part in PARTS} for split in splits]
    undefined = f"{loaded.metric} is undefined on"
    for part, told in (("validation", undefined), ("test", undefined), ("train", "there is nothing to learn from")):
        for number in (number for number, counts in enumerate(usable) if not counts[part]):
            what = "label has both classes" if loaded.task == "multilabel" else "target is known"
            raise StudyError(
                f"splits: {told} the {part} part of split {number}, where no {what}; set other splits.folds, "
                f"splits.seed or splits.file ({OWN}), or mend the data set"
            )
    fewer = [
        f"{counts[part]} in the {part} part of split {number}"
        for number, counts in enumerate(usable)
        for part in PARTS[1:]
        if counts[part] < loaded.num_outputs
    ]
    told = f"{loaded.metric} is taken over the {KINDS[loaded.task]}: of {loaded.num_outputs}, {_listed(fewer)}"
    return [told] if fewer else []


def _listed(found: Iterable[str]) -> str:
    """Returns "a, b, c" of what holds in some splits, of thousands of which the first ones are named."""
    found = list(found)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _usable_targets(loaded: Loaded, items: list[int]) -> int:
    """Returns the number of targets that have a value of the metric on some items, or of classes that these have."""
    y = loaded.graphs.y[items]
    if loaded.task == "multiclass":
        return y.unique().numel()
    if loaded.task == "regression":
        return int((~y.isnan()).any(dim=0).sum())
    return int(((y == 0).any(dim=0) & (y == 1).any(dim=0)).sum())


def _lacking_codes(value: Tensor, owner: Tensor, trained: Tensor, asked: Tensor) -> list[tuple[int, int]]:
    """Returns for each split how many codes of validation and test graphs no training graph has, and how many of these
    graphs have such codes.

    Args:
        value: Codes of nodes (or edges); a column of real numbers is one code, which is where it is not 0.
        owner: The graph of each node (or edge).
        trained: Whether a graph is in the training part, ``[splits, graphs]``.
        asked: Whether it is in the validation or test part.
    """
    codes, graphs = [0] * len(trained), torch.zeros_like(trained)
    for column in value.unbind(dim=1):
        used = column != 0 if value.is_floating_point() else torch.ones_like(column, dtype=torch.bool)
        own = owner[used]
        kinds, code = (used if value.is_floating_point() else column)[used].unique(return_inverse=True)
        for number in range(len(trained)):
            seen = torch.zeros(kinds.numel(), dtype=torch.bool)
            seen[code[trained[number, own]]] = True
            lacking = ~seen[code] & asked[number, own]
            codes[number] += code[lacking].unique().numel()
            graphs[number, own[lacking]] = True
    return list(zip(codes, graphs.sum(dim=1).tolist(), strict=True))


def _contents(graphs: Graphs) -> list[bytes]:
    x = graphs.x.numpy() + 0  # and not -0, which is equal to 0 but has other bytes
    edge_attr = None if graphs.edge_attr is None else graphs.edge_attr.numpy() + 0
    ends = (graphs.ends(1) * graphs.num_nodes + graphs.ends(0)).numpy()
    order = ends.argsort(stable=True)
    if edge_attr is not None and (np.diff(ends[order]) == 0).any():  # repeated edges go by their features
        order = np.lexsort([*edge_attr.T[::-1], ends])
    edge_index, edge_attr = graphs.edge_index.numpy()[:, order], None if edge_attr is None else edge_attr[order]
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    digests = []
    for number in range(graphs.num_graphs):
        own = slice(edges[number], edges[number + 1])
        # the sizes first: bytes of features and of edges could stand for each other
        content = hashlib.sha256(f"{nodes[number + 1] - nodes[number]} {own.stop - own.start} ".encode())
        content.update(x[nodes[number] : nodes[number + 1]].tobytes())
        content.update(edge_index[:, own].tobytes())
        if edge_attr is not None:
            content.update(edge_attr[own].tobytes())
        digests.append(content.digest())
    return digests
