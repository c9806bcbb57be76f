"""Message-passing layers, each taking any aggregation."""

from collections.abc import Callable
from dataclasses import dataclass

from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr import use_aggregation

MakeAggregation = Callable[[int, int], Aggregation]
"""From the width and the heads of a layer's messages to an aggregation."""


@dataclass(frozen=True)
class LayerKind:
    """How a layer is built: ``make(width, edge_width, settings, make_aggregation)``.

    Edge features reach only layers that take them; ``edge_width`` is None without them.
    """

    make: Callable[[int, int | None, dict, MakeAggregation], MessagePassing]
    takes_edge_features: bool = False
    by_heads: bool = False


def gcn(width: int, edge_width: int | None, settings: dict, make_aggregation: MakeAggregation) -> MessagePassing:
    """GCN (Kipf and Welling 2017), messages normalised by both degrees."""
    conv = GCNConv(width, width, add_self_loops=settings["self_loops"])
    return use_aggregation(conv, make_aggregation(width, 1))


def gin(width: int, edge_width: int | None, settings: dict, make_aggregation: MakeAggregation) -> MessagePassing:
    """GIN (Xu et al. 2019): a two-layer MLP with batch norm, learnable epsilon."""
    mlp = Sequential(Linear(width, width), BatchNorm1d(width), ReLU(), Linear(width, width))
    return use_aggregation(GINConv(mlp, train_eps=True), make_aggregation(width, 1))


def gat(width: int, edge_width: int | None, settings: dict, make_aggregation: MakeAggregation) -> MessagePassing:
    """GAT (Velickovic et al. 2018): concatenated heads, together as wide as the layer."""
    heads = settings["heads"]
    conv = GATConv(width, width // heads, heads, add_self_loops=settings["self_loops"], edge_dim=edge_width)
    return use_aggregation(conv, make_aggregation(width // heads, heads))


LAYERS = {"gcn": LayerKind(gcn), "gin": LayerKind(gin), "gat": LayerKind(gat, takes_edge_features=True, by_heads=True)}
