"""Message-passing layers, each taking any aggregation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ReLU, Sequential
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, GINEConv, GPSConv, ResGatedGraphConv
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr import use_aggregation
from ssma.layers.attention import SizedAttention
from ssma.layers.blocks import Block, TransformerBlock
from ssma.layers.lean import lean
from ssma.layers.pna import DegreeScaledMix, PNATowersConv, plain_mix


@dataclass(frozen=True)
class Parts:
    """What a layer is made of.

    Args:
        width: Width of the nodes' states, in and out.
        edge_width: Width of the edges' states, None where the layer gets none.
        model: The ``model`` settings of the arm.
        aggregator: Name of the aggregator.
        make_aggregation: From the width of a message (of one head) and the number of heads to a new aggregation.
        degrees: Histogram of the in-degrees of the training nodes, or None.
    """

    width: int
    edge_width: int | None
    model: dict[str, Any]
    aggregator: str
    make_aggregation: Callable[[int, int], Aggregation]
    degrees: Tensor | None


@dataclass(frozen=True)
class Neighbourhoods:
    """Some nodes of a graph, the targets, with all edges into them.

    Args:
        x: States of the targets and, behind them, of the other sources of these edges.
        targets: Number of targets.
        edge_index: The edges, which number the rows of ``x``.
        edge_attr: States of the edges, or None.
        in_degree: Edges into each row of ``x`` in the whole graph.
        loops: How many of them are self-loops.
    """

    x: Tensor
    targets: int
    edge_index: Tensor
    edge_attr: Tensor | None
    in_degree: Tensor
    loops: Tensor


def on_targets(conv: Module, part: Neighbourhoods) -> Tensor:
    """Returns what a layer would give the targets in the whole graph, ``[targets, width]``.

    For layers that take states of sources and targets apart, and nothing else of the graph than a node's own edges.
    """
    edges = {} if part.edge_attr is None else {"edge_attr": part.edge_attr}
    return conv((part.x, part.x[: part.targets]), part.edge_index, **edges)


def gcn_on_targets(conv: GCNConv, part: Neighbourhoods) -> Tensor:
    """Returns what :func:`on_targets` does, with messages normalised by the degrees in the whole graph."""
    edge_index, degree = part.edge_index, part.in_degree
    if conv.add_self_loops:
        others = edge_index[:, edge_index[0] != edge_index[1]]
        own = torch.arange(part.targets, device=edge_index.device)
        edge_index, degree = torch.cat([others, own.expand(2, -1)], dim=1), degree - part.loops + 1
    scale = torch.where(degree > 0, degree.to(part.x.dtype).pow(-0.5), 0)
    weight = scale[edge_index[0]] * scale[edge_index[1]]
    x = conv.lin(part.x)
    return conv.propagate(edge_index, x=(x, x[: part.targets]), edge_weight=weight) + conv.bias


@dataclass(frozen=True)
class LayerKind:
    """How a layer is made, the block around it, and how it computes some nodes only.

    ``on_targets`` is None for a layer that sees more of the graph than a node's neighbours.
    """

    make: Callable[[Parts], Module]
    block: type[Module] = Block
    on_targets: Callable[[Module, Neighbourhoods], Tensor] | None = on_targets


def gcn(parts: Parts) -> Module:
    r"""GCN from `"Semi-Supervised Classification with Graph Convolutional Networks" <https://arxiv.org/abs/1609.02907>`_.

    A message is normalised by the degrees of both ends, :math:`W x_j / \sqrt{n_i n_j}`; edge features are not used.
    """
    conv = lean(GCNConv(parts.width, parts.width, add_self_loops=parts.model["self_loops"]))
    return use_aggregation(conv, parts.make_aggregation(parts.width, 1))


def gat(parts: Parts) -> Module:
    """GAT from `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_.

    The heads are concatenated and together as wide as the layer. An added self-loop has the mean of its node's edge
    features.
    """
    return _attention(GATConv, parts)


def gatv2(parts: Parts) -> Module:
    """GATv2 from `"How Attentive are Graph Attention Networks?" <https://arxiv.org/abs/2105.14491>`_.

    Heads and self-loops are as in GAT.
    """
    return _attention(GATv2Conv, parts)


def gin(parts: Parts) -> Module:
    r"""GIN from `"How Powerful are Graph Neural Networks?" <https://arxiv.org/abs/1810.00826>`_.

    :math:`\mathrm{MLP}((1 + \epsilon) x_i + \bigoplus_j x_j)`, with two layers and batch norm; edge features are not
    used.
    """
    conv = lean(GINConv(_mlp(parts.width), train_eps=parts.model["learn_eps"]))
    return use_aggregation(conv, parts.make_aggregation(parts.width, 1))


def gine(parts: Parts) -> Module:
    r"""GINE from `"Strategies for Pre-training Graph Neural Networks" <https://arxiv.org/abs/1905.12265>`_.

    GIN whose messages are :math:`\mathrm{ReLU}(x_j + e_{ji})`. Without edge features it is GIN.
    """
    if parts.edge_width is None:
        return gin(parts)
    conv = GINEConv(_mlp(parts.width), train_eps=parts.model["learn_eps"])
    return use_aggregation(conv, parts.make_aggregation(parts.width, 1))


def resgated(parts: Parts) -> Module:
    r"""Residual gated layer from `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_.

    A message is :math:`\sigma(K x_i + Q x_j) \odot V x_j`; edge features are concatenated to the states before each
    map.
    """
    conv = ResGatedGraphConv(parts.width, parts.width, edge_dim=parts.edge_width)
    return use_aggregation(conv, parts.make_aggregation(parts.width, 1))


def pna(parts: Parts) -> Module:
    """PNA from `"Principal Neighbourhood Aggregation for Graph Nets" <https://arxiv.org/abs/2004.05718>`_.

    Its mix is mean, max, min and standard deviation under three scalers of the degree. ``pna_mix`` says what the
    requested aggregation does: with ``add`` it is the fifth of the mix, as in the authors' code; with ``replace`` it
    stands alone under the scalers. The aggregator ``pna`` is the mix itself.
    """
    towers = parts.model["towers"]
    mix = plain_mix()
    if parts.aggregator != "pna":
        requested = parts.make_aggregation(parts.width, towers)
        mix = [*mix, requested] if parts.model["pna_mix"] == "add" else [requested]
    scaled = DegreeScaledMix(mix, parts.degrees)
    return use_aggregation(PNATowersConv(parts.width, scaled.factor, towers, parts.edge_width), scaled)


def gps(parts: Parts) -> Module:
    """GraphGPS from `"Recipe for a General, Powerful, Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_.

    A residual gated layer with the requested aggregation, and attention among all nodes of a graph; their sum goes
    through an MLP. Each of the three parts has its own batch norm and residual connection.
    """
    heads, dropout = parts.model["heads"], parts.model["attention_dropout"]
    norm = "batch_norm" if parts.model["batch_norm"] else None
    conv = GPSConv(parts.width, resgated(parts), heads=heads, norm=norm)
    conv.attn = SizedAttention(parts.width, heads, dropout, batch_first=True)
    return conv


def _attention(conv_class: type[GATConv] | type[GATv2Conv], parts: Parts) -> Module:
    heads, loops = parts.model["heads"], parts.model["self_loops"]
    channels = parts.width // heads
    conv = lean(conv_class(parts.width, channels, heads, add_self_loops=loops, edge_dim=parts.edge_width))
    return use_aggregation(conv, parts.make_aggregation(channels, heads))


def _mlp(width: int) -> Sequential:
    return Sequential(Linear(width, width), BatchNorm1d(width), ReLU(), Linear(width, width))


LAYERS = {
    "gcn": LayerKind(gcn, on_targets=gcn_on_targets),
    "gat": LayerKind(gat),
    "gatv2": LayerKind(gatv2),
    "gin": LayerKind(gin),
    "gine": LayerKind(gine),
    "resgated": LayerKind(resgated),
    "pna": LayerKind(pna),
    "gps": LayerKind(gps, TransformerBlock, on_targets=None),
}
