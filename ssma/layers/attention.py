"""Attention among all nodes of a graph, in batches whose graphs differ in size."""

from typing import Any

from torch import Tensor
from torch.nn import MultiheadAttention

SAVED = 2**15
"""Pairs of nodes for which it is worth while to call the attention once more."""


class SizedAttention(MultiheadAttention):
    """`torch.nn.MultiheadAttention` of padded graphs, in groups of graphs of like size.

    A graph is attended to among as many nodes as the largest of its group has, not of the batch: time and memory are
    nearer the sum of the squared sizes than the number of graphs times the largest squared size. The result is the
    same; in training, dropout draws other weights.
    """

    made = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made = True

    def _reset_parameters(self) -> None:
        """Draws new weights, also those of the output, which torch draws where it makes the module and never again."""
        if self.made:
            self.out_proj.reset_parameters()
        super()._reset_parameters()

    def forward(self, x: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor, **options: Any) -> tuple:
        """Attends among the nodes of each graph.

        Args:
            x: Padded states of the nodes, queries, keys and values alike, ``[graphs, nodes, channels]``.
            key: ``x``.
            value: ``x``.
            key_padding_mask: True where a row of a graph is padding; its nodes come first, ``[graphs, nodes]``.
            options: As for `MultiheadAttention`.

        Returns:
            The new states, with zeros where a graph outside the largest group is padded, and None.
        """
        sizes, order = (~key_padding_mask).sum(1).sort(descending=True)
        groups = groups_of_like_size(sizes.tolist())
        if len(groups) == 1:
            return self._attend(x, key_padding_mask, options)
        out = None
        for (start, stop), size in groups.items():
            graphs = order[start:stop]
            nodes, padding = x[graphs, :size], key_padding_mask[graphs, :size]
            attended = self._attend(nodes, padding, options)[0]
            if out is None:  # under autocast of another type than x
                out = attended.new_zeros(x.shape)
            out[graphs, :size] = attended
        return out, None

    def _attend(self, x: Tensor, padding: Tensor, options: dict[str, Any]) -> tuple:
        """Attends among the nodes of graphs of like size.

        Of a key that is the query itself torch attends in evaluation by steps that hold all weights at once, of padded
        graphs on a GPU too, where those of training hold none.
        """
        key = x.view_as(x) if x.is_cuda and not self.training else x
        return super().forward(x, key, key, key_padding_mask=padding, **options)


def groups_of_like_size(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Returns where each group of graphs starts and stops, and the size of its largest graph.

    A group ends where the graphs behind it, which have at most two thirds of its nodes, save ``SAVED`` pairs of nodes
    by being padded less. Graphs without nodes are in no group.

    Args:
        sizes: Numbers of nodes, from the largest to the smallest.
    """
    sizes = [size for size in sizes if size]
    groups, start = {}, 0
    while start < len(sizes):
        largest, stop = sizes[start], start + 1
        while stop < len(sizes) and not _worth_a_group(sizes[stop], largest, len(sizes) - stop):
            stop += 1
        groups[start, stop] = largest
        start = stop
    return groups


def _worth_a_group(size: int, largest: int, graphs: int) -> bool:
    return 3 * size <= 2 * largest and graphs * (largest**2 - size**2) >= SAVED
