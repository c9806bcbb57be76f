"""Small graphs and arms that the tests of the layers share."""

from types import SimpleNamespace

import torch

from ssma.layers.network import Network
from ssma.study.settings import AGGREGATORS, LAYERS, ONLY_FOR_LAYERS, ModelSettings

MODEL = ModelSettings().model_dump() | {"num_layers": 2, "heads": 4, "towers": 2, "dropout": 0.0}
DEGREES = torch.tensor([1, 2, 6, 1])
SSMA = {"kappa": 2, "selection": "attention", "compression": 0.25}
CARD = {"x": {"kind": "continuous", "width": 7}, "edge_attr": None, "level": "graph", "num_outputs": 3}
EDGE_CARD = CARD | {"edge_attr": {"kind": "continuous", "width": 5}}
WITH_EDGES = ONLY_FOR_LAYERS["edge_features"]
EVERY_LAYER = LAYERS


def settings(options=None, **model):
    """The settings of an arm."""
    return {"aggregator": options or {}, "model": MODEL | model}


def network(layer, aggregator="sum", card=CARD, width=8, seed=0, **model):
    """A network in evaluation mode, none of whose few units of the head is dead."""
    torch.manual_seed(seed)
    options = SSMA if aggregator == "ssma" else AGGREGATORS[aggregator]().model_dump()
    made = Network(card, layer, aggregator, settings(options, **model), width, degrees=DEGREES).eval()
    for linear in (made.head[0], made.head[2]):
        torch.nn.init.constant_(linear.bias, 2)
    return made


def graph(sizes=(6, 3, 1), seed=0, steps=0):
    """A batch of rings; the second graph's last node and the graph of one node are isolated."""
    generator = torch.Generator().manual_seed(seed)
    edges, start = [], 0
    for size in sizes:
        ring = [(i, (i + 1) % (size - 1)) for i in range(size - 1)] if size > 2 else []
        chord = [(0, size - 2)] if size > 3 else []
        edges += [(start + a, start + b) for pair in ring + chord for a, b in (pair, pair[::-1])]
        start += size
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()
    return SimpleNamespace(
        x=torch.randn(start, 7, generator=generator), edge_index=edge_index,
        edge_attr=torch.randn(edge_index.size(1), 5, generator=generator),
        batch=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)), num_graphs=len(sizes), target=None,
        pe=torch.rand(start, steps, generator=generator) if steps else None,
    )  # fmt: skip


def with_(batch, /, **changes):
    """The batch with some tensors replaced."""
    return SimpleNamespace(**vars(batch) | changes)


def part(batch, number):
    """One graph of a batch, as a batch of its own."""
    nodes, edges = batch.batch == number, batch.batch[batch.edge_index[0]] == number
    first = int(nodes.nonzero()[0])
    return SimpleNamespace(
        x=batch.x[nodes], edge_index=batch.edge_index[:, edges] - first, edge_attr=batch.edge_attr[edges],
        batch=batch.batch[nodes] - number, num_graphs=1, target=None, pe=None if batch.pe is None else batch.pe[nodes],
    )  # fmt: skip
