"""What stands around a layer: norm, nonlinearity, residual connection, dropout."""

from typing import Any

from torch import Tensor, nn

from ssma.layers.dropout import Dropout


class Block(nn.Module):
    """Layer, batch norm, ReLU, residual, dropout, in this order.

    Args:
        layer: A message-passing layer that keeps the width.
        width: Width of the nodes' states.
        model: The ``model`` settings of the arm.
    """

    def __init__(self, layer: nn.Module, width: int, model: dict[str, Any]) -> None:
        super().__init__()
        self.conv = layer
        self.norm = nn.BatchNorm1d(width) if model["batch_norm"] else nn.Identity()
        self.dropout = Dropout(model["dropout"])
        self.residual = model["residual"]

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor) -> Tensor:
        """Returns the nodes' new states, ``[n, width]``."""
        edges = {} if edge_attr is None else {"edge_attr": edge_attr}
        return self.finish(self.conv(x, edge_index, **edges), x)

    def finish(self, out: Tensor, x: Tensor) -> Tensor:
        """Returns the new states of nodes, ``[n, width]``, from what the layer gave them and their states ``x``."""
        out = self.norm(out).relu()
        return self.dropout(out + x if self.residual else out)


class TransformerBlock(Block):
    """A GraphGPS layer, whose norms and residual connections are inside, and dropout; with ``outer_block`` what stands
    around other layers too.

    The layer gets each node's graph, so that no node attends to another graph and a prediction does not depend on what
    else is in the batch. Attention is quadratic in the size of a graph.

    Args:
        layer: A `GPSConv`.
        width: Width of the nodes' states.
        model: The ``model`` settings of the arm.
    """

    def __init__(self, layer: nn.Module, width: int, model: dict[str, Any]) -> None:
        self.outer = model.get("outer_block", False)  # which the plans of older versions do not name
        super().__init__(layer, width, model if self.outer else model | {"batch_norm": False, "residual": False})

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor) -> Tensor:
        """Returns the nodes' new states, ``[n, width]``; ``batch`` is sorted."""
        edges = {} if edge_attr is None else {"edge_attr": edge_attr}
        out = self.conv(x, edge_index, batch, **edges)
        return self.finish(out, x) if self.outer else self.dropout(out)
