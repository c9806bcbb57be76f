"""One large graph, cut into parts of about equal size."""

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from ssma.errors import StudyError
from ssma.study.cost import counted


def partition(edge_index: Tensor, num_nodes: int, parts: int, seed: int) -> Tensor:
    """Returns the part of each node, int64 [num_nodes], with few edges between parts, as `"Cluster-GCN"
    <https://arxiv.org/abs/1905.07953>`_ does: by METIS, which gives the same parts for the same seed.

    Args:
        edge_index: Edges, ``[2, E]``; directions, repetitions and self-loops make no difference.
        parts: Number of parts; 1 leaves the graph whole.
        seed: Seed of METIS.

    Raises:
        StudyError: If METIS is not installed, or makes a part of less than two nodes, on which batch norm cannot train.
    """
    if parts == 1:
        return torch.zeros(num_nodes, dtype=torch.int64)
    if 2 * parts > num_nodes:
        raise StudyError(
            f"parts: got {parts} for {counted(num_nodes, 'node')}, a part needs two; use at most {num_nodes // 2}"
        )
    try:
        import pymetis
    except ImportError as error:
        raise StudyError("parts: to cut a graph needs METIS; pip install pymetis, or set parts to 1") from error
    edges = to_undirected(remove_self_loops(edge_index)[0], num_nodes=num_nodes)  # sorted by its first row
    starts = torch.searchsorted(edges[0].contiguous(), torch.arange(num_nodes + 1))
    graph = pymetis.CSRAdjacency(starts.int().numpy(), edges[1].int().contiguous().numpy())
    # the seeds 0 and 1 are one to the generator that METIS uses
    found = pymetis.part_graph(parts, graph, options=pymetis.Options(seed=seed + 1)).vertex_part
    part = torch.tensor(found, dtype=torch.int64)
    smallest = int(part.bincount(minlength=parts).min())
    if smallest < 2:
        raise StudyError(
            f"parts: METIS made {parts} parts, one with {counted(smallest, 'node')}; a part needs two, use fewer parts"
        )
    return part


def count_cut_edges(edge_index: Tensor, part: Tensor) -> int:
    """Returns how many edges join nodes of different parts."""
    source, target = part[edge_index]
    return int((source != target).sum())
