"""The yardstick of a fit: the same network and epoch as one would write them from the paper with PyG alone."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    PNAConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr import SSMAAggregation
from ssma.bench.paper import PaperSSMA

POOLS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}
LOSSES = {"cross_entropy": nn.functional.cross_entropy, "l1": nn.functional.l1_loss}


class PaperAggregation(Aggregation):
    """:class:`ssma.bench.paper.PaperSSMA` as an aggregation; heads are nodes of their own.

    Args:
        in_channels: Width of a message (of one head).
        **options: ``kappa``, ``selection``, ``compression`` and other options that the paper has.
    """

    def __init__(self, in_channels: int, **options: Any) -> None:
        super().__init__()
        self.paper = PaperSSMA(SSMAAggregation(in_channels, **options))

    def forward(
        self,
        x: Tensor,
        index: Tensor,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Aggregates messages ``[E, d]`` or ``[E, heads, d]``."""
        heads = x[0, ..., :1].numel()
        group = index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)
        return self.paper(x.flatten(0, -2), group.flatten(), dim_size * heads).view(dim_size, *x.shape[1:])


class PlainNetwork(nn.Module):
    """Encoder, PyG's layers with batch norm, ReLU, residual and dropout, readout, head.

    Args:
        card: The data card.
        layer: ``gcn``, ``gin``, ``gat`` or ``pna``.
        aggregator: ``ssma``; another one is the layer's own.
        settings: Settings of the arm.
        width: Hidden width.
        degrees: Histogram of the in-degrees of the training nodes.
    """

    def __init__(
        self, card: dict[str, Any], layer: str, aggregator: str, settings: dict[str, Any], width: int, degrees: Tensor
    ) -> None:
        super().__init__()
        self.model = model = settings["model"]
        self.options = settings["aggregator"] if aggregator == "ssma" else None
        edge_width = width if layer in ("gat", "pna") and card["edge_attr"] is not None else None
        self.node_encoder = _encoder(card["x"], width)
        self.edge_encoder = None if edge_width is None else _encoder(card["edge_attr"], width)
        make = {"gcn": self._gcn, "gin": self._gin, "gat": self._gat, "pna": self._pna}[layer]
        depth = range(model["num_layers"])
        self.convs = nn.ModuleList(make(width, edge_width, degrees) for _ in depth)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in depth)
        self.dropout = nn.Dropout(model["dropout"])
        half, quarter = max(1, width // 2), max(1, width // 4)
        self.head = nn.Sequential(
            nn.Linear(width, half),
            nn.ReLU(),
            nn.Linear(half, quarter),
            nn.ReLU(),
            nn.Linear(quarter, card["num_outputs"]),
        )

    def _aggr(self, width: int) -> str | Aggregation:
        return "sum" if self.options is None else PaperAggregation(width, **self.options)

    def _gcn(self, width: int, edge_width: int | None, degrees: Tensor) -> nn.Module:
        return GCNConv(width, width, add_self_loops=False, aggr=self._aggr(width))

    def _gin(self, width: int, edge_width: int | None, degrees: Tensor) -> nn.Module:
        mlp = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))
        return GINConv(mlp, train_eps=True, aggr=self._aggr(width))

    def _gat(self, width: int, edge_width: int | None, degrees: Tensor) -> nn.Module:
        heads = self.model["heads"]
        aggr = self._aggr(width // heads)
        return GATConv(width, width // heads, heads, add_self_loops=False, edge_dim=edge_width, aggr=aggr)

    def _pna(self, width: int, edge_width: int | None, degrees: Tensor) -> nn.Module:
        mix = ["mean", "max", "min", "std"] + ([] if self.options is None else [self._aggr(width)])
        scalers = ["identity", "amplification", "attenuation"]
        return PNAConv(width, width, mix, scalers, degrees, edge_width, self.model["towers"])

    def forward(self, batch: Batch) -> Tensor:
        """Returns the outputs of the batch's graphs."""
        x, edge_index, edge_attr = self.node_encoder(batch.x), batch.edge_index, batch.edge_attr
        if self.options is not None and self.options["selection"] == "random":
            kept = draw_neighbours(edge_index, batch.num_nodes, self.options["kappa"])
            edge_index, edge_attr = edge_index[:, kept], None if edge_attr is None else edge_attr[kept]
        edges = {} if self.edge_encoder is None else {"edge_attr": self.edge_encoder(edge_attr)}
        for conv, norm in zip(self.convs, self.norms, strict=True):
            out = norm(conv(x, edge_index, **edges)).relu()
            x = self.dropout(out + x if self.model["residual"] else out)
        return self.head(POOLS[self.model["readout"]](x, batch.batch, batch.num_graphs))


class _Embeddings(nn.Module):
    def __init__(self, sizes: list[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        return sum(table(x[:, column]) for column, table in enumerate(self.tables))


def _encoder(kind: dict[str, Any], width: int) -> nn.Module:
    if kind["kind"] == "continuous":
        return nn.Linear(kind["width"], width)
    return _Embeddings(kind["cardinalities"], width)


def draw_neighbours(edge_index: Tensor, num_nodes: int, kappa: int) -> Tensor:
    """Returns the numbers of at most kappa incoming edges of every node, drawn node by node."""
    kept = []
    for node in range(num_nodes):
        incoming = (edge_index[1] == node).nonzero().flatten()
        kept.append(incoming[torch.randperm(incoming.numel(), device=incoming.device)[:kappa]])
    return torch.cat(kept)


def plain_epoch(
    network: PlainNetwork, train: list[Data], validation: list[Data], loss_name: str, settings: dict[str, Any],
    device: torch.device,
) -> Callable[[], float]:  # fmt: skip
    """Returns a call that trains and validates for an epoch, and returns the validation loss."""
    loss_of, size = LOSSES[loss_name], settings["batch_size"]
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"])
    train_loader = DataLoader(train, batch_size=size, shuffle=True)
    validation_loader = DataLoader(validation, batch_size=size)

    def epoch() -> float:
        network.train()
        for batch in train_loader:
            batch = batch.to(device)
            optimizer.zero_grad()
            loss = loss_of(network(batch), batch.y)
            loss.backward()
            optimizer.step()
        network.eval()
        total = 0.0
        with torch.no_grad():
            for batch in validation_loader:
                batch = batch.to(device)
                total += loss_of(network(batch), batch.y).item() * batch.num_graphs
        return total / len(validation)

    return epoch
