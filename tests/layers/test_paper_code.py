"""In what networks differ from those of the paper's code: measured, and told in docs/studies.md and below its tables."""

from pathlib import Path

import pytest
import torch
from made_networks import CARD, EDGE_CARD, graph, network
from torch_geometric.nn import GATv2Conv, GPSConv, PNAConv, ResGatedGraphConv

from ssma.aggr import LSTMAggregation, SSMAAggregation, use_aggregation
from ssma.data.ogb import import_ogb
from ssma.data.zinc import ATOM_TYPES
from ssma.layers.width import count_parameters
from ssma.report.paper_tables import NEVER

STUDIES = (Path(__file__).parents[2] / "docs/studies.md").read_text(encoding="utf-8")
ROWS = STUDIES.split("\n| | the paper's code | here |\n| --- | --- | --- |\n")[1].split("\n\n")[0].splitlines()
WIDTH, TOWERS, HEADS = 8, 2, 4


def told(subject, theirs, below):
    """Whether a difference stands in the table of the docs, and in the line below the paper's tables."""
    return any(row.startswith(f"| {subject} | ") and theirs in row for row in ROWS) and below in NEVER


def test_pna_has_no_map_of_edge_features_before_those_of_its_towers():
    scalers = ["identity", "amplification", "attenuation"]
    theirs = PNAConv(WIDTH, WIDTH, ["mean", "max", "min", "std"], scalers, torch.tensor([1, 2]), WIDTH, TOWERS)
    ours = network("pna", "pna", EDGE_CARD, WIDTH).blocks[0].conv
    assert (
        count_parameters(theirs) - count_parameters(ours) == count_parameters(theirs.edge_encoder) == WIDTH**2 + WIDTH
    )
    assert told(
        "pna", "edge features pass a linear map of each layer", "a map of edge features before those of the towers"
    )


def test_gps_has_nothing_around_its_layer_unless_it_is_asked_for():
    block = network("gps", "sum", CARD, WIDTH).blocks[0]
    plain = GPSConv(WIDTH, ResGatedGraphConv(WIDTH, WIDTH), heads=HEADS)
    assert count_parameters(block) == count_parameters(plain)
    batch = graph()
    x = torch.randn(batch.x.size(0), WIDTH, generator=torch.Generator().manual_seed(0))
    out = block(x, batch.edge_index, None, batch.batch)
    assert torch.equal(out, block.conv(x, batch.edge_index, batch.batch)) and float(out.detach().min()) < 0


def test_the_compressor_has_one_bias():
    aggr = SSMAAggregation(WIDTH, kappa=2, selection="random", compression=0.5)
    theirs = torch.nn.Sequential(torch.nn.Linear(aggr.m1 * aggr.m2, aggr.rank), torch.nn.Linear(aggr.rank, WIDTH))
    assert count_parameters(theirs) - count_parameters(aggr) == aggr.rank
    assert told("ssma", "a bias between the two maps of the compressor", "a bias inside the compressor")


@pytest.mark.parametrize("selection", ["attention", "random"])
def test_a_node_without_neighbours_has_the_unit_impulse(selection):
    aggr = SSMAAggregation(3, kappa=2, selection=selection, compression=1)
    out = aggr(torch.ones(1, 3), torch.tensor([1]), dim_size=2)[0]
    impulse, zeros = aggr.weight[:, 0, 0] + aggr.bias, aggr.weight[:, 2, 0] + aggr.bias
    assert torch.allclose(out, impulse, atol=1e-5) and not torch.allclose(out, zeros, atol=1e-2)
    assert told("ssma", "kappa slots of zeros", "slots of zeros for nodes without neighbours")


def test_attention_scores_see_the_target_as_gatv2_maps_targets():
    aggr = SSMAAggregation(WIDTH // HEADS, heads=HEADS, kappa=2)
    conv, shown = use_aggregation(GATv2Conv(WIDTH, WIDTH // HEADS, HEADS, add_self_loops=False), aggr), []
    aggr.register_forward_pre_hook(lambda *_: shown.append(aggr.node_features))
    x = torch.randn(3, WIDTH)
    conv(x, torch.tensor([[0, 1], [1, 2]]))
    assert torch.allclose(shown[0].source.flatten(1), conv.lin_l(x), atol=1e-6)
    assert torch.allclose(shown[0].target.flatten(1), conv.lin_r(x), atol=1e-6)
    assert told("ssma", "gatv2 maps that of sources", "attention scores of other states of a node")


def test_an_lstm_reads_each_head_by_itself():
    assert count_parameters(LSTMAggregation(WIDTH // HEADS, HEADS)) == 8 * ((WIDTH // HEADS) ** 2 + WIDTH // HEADS)
    assert any(row.startswith("| lstm | one for all heads of gat and gatv2") for row in ROWS)


@pytest.mark.parametrize(("source", "as_ogb"), [("ogbg", True), ("lrgb", True), ("zinc", False), ("file", False)])
def test_embeddings_of_molecules_start_as_those_of_ogb(source, as_ogb):
    import_ogb()  # its own import would look for a newer version
    from ogb.graphproppred.mol_encoder import AtomEncoder

    codes = {"kind": "categorical", "cardinalities": [119, 12]}
    net = network("gat", "sum", CARD | {"x": codes, "edge_attr": codes, "source": source}, 200)
    theirs = AtomEncoder(200).atom_embedding_list[0].weight.detach()
    assert theirs.shape == (119, 200)
    for encoder in (net.encoder, net.edge_encoder):
        for size, embedding in zip((119, 12), encoder.embeddings, strict=True):
            found, bound = embedding.weight.detach(), (6 / (size + 200)) ** 0.5
            assert float(found.std()) == pytest.approx(bound / 3**0.5 if as_ogb else 1, rel=0.05)
            assert (float(found.abs().max()) <= bound) == as_ogb
        first = encoder.embeddings[0].weight.detach().std()
        assert float(first) == pytest.approx(float(theirs.std()) if as_ogb else 1, rel=0.05)


def test_what_the_data_keep_otherwise_is_told():
    assert ATOM_TYPES == 28
    assert told("encoders", "the 21 atom types of ZINC's training part", "on ZINC embeddings of the 21 atom types")
    assert told("ogbn", "self-loops of the data stay", "self-loops of ogbn")


def test_nothing_is_added_to_magnitudes():
    aggr = SSMAAggregation(1, kappa=2, selection="random", compression=1)
    out = aggr(torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 0]), dim_size=1)[0]
    roots = torch.exp(-2j * torch.pi * torch.arange(3) / 3)
    factors = torch.stack([roots - 1, roots + 1])  # the first one has a zero

    def result(added):
        magnitude, angle = (factors.abs() + added).prod(0).sqrt(), factors.angle().sum(0)
        mixed = torch.fft.ifft(torch.polar(magnitude, angle)).real
        return (aggr.weight[0, :, 0] * mixed).sum() + aggr.bias

    assert torch.allclose(out, result(0), atol=1e-6) and not torch.allclose(out, result(1e-6), atol=1e-5)
    assert told("ssma", "1e-6 added to each magnitude", "1e-6 added to magnitudes")
