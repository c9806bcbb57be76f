"""The settings of the paper's experiments, and sounder ones. Torch-free.

What a data set asks for (depth, readout, size, batch, optimiser) is the same in both protocols; they differ in what an
experiment allows itself. Read from the authors' code where the paper says nothing.
"""

from typing import Any

_COLUMNS = (
    "model.num_layers", "model.readout", "model.residual", "model.dropout", "model.budget", "training.batch_size",
    "training.weight_decay", "training.plateau_patience",
)  # fmt: skip
_TU = (6, "max", True, 0.05, 500_000, 32, 1e-5, 5)
_OF_DATASET: dict[str, tuple[Any, ...]] = {
    "ZINC": (10, "sum", False, 0.0, 100_000, 128, 3e-6, 20),
    "Peptides-func": (5, "mean", True, 0.0, 2_000_000, 16, 1e-5, 5),
    "Peptides-struct": (5, "mean", True, 0.0, 2_000_000, 32, 1e-5, 5),
    "ogbg-molhiv": (10, "mean", True, 0.0, 500_000, 32, 1e-5, 5),
    "ogbg-molpcba": (5, "mean", True, 0.0, 2_000_000, 32, 1e-5, 5),
    "ogbn-arxiv": (3, None, True, 0.0, 500_000, 2, 1e-5, 5),  # a batch is two parts of the graph
    "ogbn-products": (3, None, True, 0.0, 500_000, 2, 1e-5, 5),
}
_COMMON = {
    "model.batch_norm": True, "model.heads": 8, "model.towers": 5, "model.pna_mix": "add", "model.learn_eps": True,
    "model.attention_dropout": 0.5, "model.positional_encoding": "none", "model.walk_steps": 20, "training.lr": 1e-3,
    "training.plateau_factor": 0.5, "training.min_lr": 1e-6,
}  # fmt: skip
_OF_LAYER = {"gps": {"model.heads": 4, "training.evaluation": "per_part"}}
_OF_PROTOCOL = {
    # training ends by its rate, not by the number of epochs: the cap is one that a fit does not reach
    "paper": {
        "model.self_loops": False, "model.edge_features": True, "model.outer_block": True, "training.max_epochs": 5000,
        "training.keep_cut_edges": False, "training.evaluation": "per_part",
    },
    "fair": {
        "model.self_loops": True, "model.edge_features": True, "model.outer_block": False,
        "training.keep_cut_edges": True, "training.evaluation": "whole",
    },
}  # fmt: skip
_WITHOUT_EDGE_FEATURES = ("ogbn-arxiv", "ogbn-products")  # in the paper

SPLIT_SCHEME = {"paper": "shuffle", "fair": "stratified"}
"""Protocol -> scheme of the folds, where a study names none."""


def preset(protocol: str | None, spec: dict[str, Any], layer: str) -> dict[str, Any]:
    """Returns the settings that a protocol gives to a layer on a data set, none without a protocol.

    Every TU set has those of the paper's five. Data of no source of the paper (synthetic, one's own) have no settings
    of their own: only what the protocol says for all.

    Args:
        protocol: ``paper``, ``fair`` or None.
        spec: The data set's entry in the plan, ``{"source", "name", ...}``.
    """
    if protocol is None:
        return {}
    source = spec["source"]
    name = "ZINC" if source == "zinc" else spec["name"] if source in ("lrgb", "ogbg", "ogbn") else None
    values = _TU if source == "tu" else _OF_DATASET.get(name, (None,) * len(_COLUMNS))
    settings = {key: value for key, value in zip(_COLUMNS, values, strict=True) if value is not None}
    settings |= _COMMON | _OF_PROTOCOL[protocol] | _OF_LAYER.get(layer, {})
    if protocol == "paper" and name in _WITHOUT_EDGE_FEATURES:
        settings["model.edge_features"] = False
    return settings
