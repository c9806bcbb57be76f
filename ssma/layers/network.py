"""The network around an aggregation: encoder, message-passing blocks, readout, head."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv, MessagePassing, global_add_pool, global_mean_pool
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr import SSMAAggregation, make_aggregation
from ssma.aggr.grouped import group_extremum
from ssma.aggr.registry import imported
from ssma.layers.convs import LAYERS, Parts
from ssma.study.classes import as_declared, parameters_of
from ssma.study.settings import ONLY_FOR_LAYERS, WIDTH_MULTIPLE_OF

READOUTS = {"sum": global_add_pool, "mean": global_mean_pool, "max": partial(group_extremum, reduce="amax")}


class FeatureEncoder(nn.Module):
    """Maps features to the network's width: a linear map of continuous ones, a sum of embeddings of categorical ones.

    Args:
        kind: ``{"kind": "continuous", "width": ...}`` or ``{"kind": "categorical", "cardinalities": [...]}``.
        width: Output width.
        small: Embeddings start as those of OGB's encoders of atoms and bonds do (Xavier), not standard normal.
    """

    def __init__(self, kind: dict[str, Any], width: int, small: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(kind["width"], width) if kind["kind"] == "continuous" else None
        self.embeddings = nn.ModuleList(nn.Embedding(size, width) for size in kind.get("cardinalities", ()))
        if small:
            for embed in self.embeddings:
                nn.init.xavier_uniform_(embed.weight)

    def forward(self, x: Tensor) -> Tensor:
        if self.linear is not None:
            return self.linear(x)
        return torch.stack([embed(x[:, column]) for column, embed in enumerate(self.embeddings)]).sum(0)


def walk_steps(model: dict[str, Any]) -> int:
    """Returns the channels of the positional encoding that the ``model`` settings ask for, 0 without one."""
    return model["walk_steps"] if model["positional_encoding"] == "random_walk" else 0


def compile_products(network: nn.Module) -> bool:
    """Turns to compiled kernels (:class:`ssma.aggr.SSMAAggregation`'s ``compiled``) wherever a network multiplies
    slots; says whether it does so anywhere."""
    operators = (module for module in network.modules() if isinstance(module, SSMAAggregation))
    products = [operator for operator in operators if operator.mixing != "sum"]
    for product in products:
        product.compiled = True
    return bool(products)


class Network(nn.Module):
    """A message-passing network for one data set and one arm.

    A positional encoding (the batch's ``pe``: return probabilities of random walks) is batch-normed and concatenated
    to the encoded features, which are narrower by as much.

    Args:
        card: The data card: kinds of node and edge features, level, number of outputs.
        layer: Name of the layer.
        aggregator: Name of the aggregator.
        settings: ``{"aggregator": options, "model": ...}`` of the arm.
        width: Hidden width.
        path: Dotted path of the aggregator's class, if it is the user's own.
        degrees: Histogram of the in-degrees of the training nodes, for aggregators that need it.

    Raises:
        ValueError: If the layer or the positional encoding cannot have this width.
    """

    def __init__(
        self,
        card: dict[str, Any],
        layer: str,
        aggregator: str,
        settings: dict[str, Any],
        width: int,
        path: str | None = None,
        degrees: Tensor | None = None,
    ) -> None:
        super().__init__()
        kind, model = LAYERS[layer], settings["model"]
        self.on_targets = kind.on_targets
        takes_edges = layer in ONLY_FOR_LAYERS["edge_features"] and model["edge_features"]
        has_edges = takes_edges and card["edge_attr"] is not None
        steps = walk_steps(model)
        _check_width(width, layer, model)
        options = settings["aggregator"]
        if path is not None:
            options = as_declared(options, parameters_of(imported(path)))

        def aggregation(channels: int, heads: int) -> nn.Module:
            return make_aggregation(aggregator, channels, heads, path, degrees, **options)

        parts = Parts(width, width if has_edges else None, model, aggregator, aggregation, degrees)
        molecules = card.get("source") in ("lrgb", "ogbg")
        self.encoder = FeatureEncoder(card["x"], width - steps, molecules)
        self.walk_norm = nn.BatchNorm1d(steps) if steps else None
        self.edge_encoder = FeatureEncoder(card["edge_attr"], width, molecules) if has_edges else None
        self.blocks = nn.ModuleList(kind.block(kind.make(parts), width, model) for _ in range(model["num_layers"]))
        self.readout = READOUTS[model["readout"]] if card["level"] == "graph" else None
        half, quarter = max(1, width // 2), max(1, width // 4)
        self.head = nn.Sequential(
            nn.Linear(width, half),
            nn.ReLU(),
            nn.Linear(half, quarter),
            nn.ReLU(),
            nn.Linear(quarter, card["num_outputs"]),
        )

    def encode(self, batch: Any) -> Tensor:
        """Returns the nodes' first states, ``[n, width]``."""
        x = self.encoder(batch.x)
        return x if self.walk_norm is None else torch.cat([x, self.walk_norm(batch.pe)], dim=1)

    def encode_edges(self, edge_attr: Tensor | None) -> Tensor | None:
        """Returns the states of edges, ``[e, width]``, or None where the layers get none."""
        return None if self.edge_encoder is None else self.edge_encoder(edge_attr)

    def forward(self, batch: Any) -> Tensor:
        """Returns the outputs of the batch's graphs (or target nodes), ``[G, num_outputs]``."""
        x, edge_attr = self.encode(batch), self.encode_edges(batch.edge_attr)
        for block in self.blocks:
            x = block(x, batch.edge_index, edge_attr, batch.batch)
        if self.readout is not None:
            x = self.readout(x, batch.batch, batch.num_graphs)
        elif batch.target is not None:
            x = x[batch.target]
        return self.head(x)


def _check_width(width: int, layer: str, model: dict[str, Any]) -> None:
    multiple, steps = WIDTH_MULTIPLE_OF.get(layer), walk_steps(model)
    if multiple is not None and width % model[multiple]:
        raise ValueError(f"{layer} got width {width} but expected a multiple of its {model[multiple]} {multiple}")
    if width <= steps:
        raise ValueError(f"the network got width {width} but expected more than its {steps} walk_steps")


def describe(network: nn.Module) -> str:
    """Returns a line for each layer, aggregation and other leaf module.

    Two arms of one width that differ in the aggregator differ in the lines of the aggregations only.
    """
    kept = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, MessagePassing | Aggregation | GPSConv) or not any(True for _ in module.children())
    ]
    return "\n".join(f"{name}: {' '.join(repr(module).split())}" for name, module in kept)
