"""The benchmark of a fit: the plain network is the same network, and the numbers are those of an epoch."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch_geometric.data import Batch

from ssma.aggr import SSMAAggregation
from ssma.bench import fit
from ssma.bench.fit import FIT_QUICK, FitGrid, Sample, run_fit_bench
from ssma.bench.measure import Limits, Measured
from ssma.bench.paper import PaperSSMA
from ssma.bench.plain import PaperAggregation, PlainNetwork, draw_neighbours
from ssma.bench.sets import as_data_list, bench_set
from ssma.bench.tables import FIT_CELL, MEASURED, as_frame, fit_page
from ssma.data.batches import Batches
from ssma.layers.network import Network

CPU = torch.device("cpu")
SMALL = {"model.budget": 20_000, "model.num_layers": 2, "model.dropout": 0.0}


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    arms = [(layer, aggregator, {}) for layer in ("gcn", "gin", "gat", "pna") for aggregator in ("sum", "ssma")]
    return bench_set("MUTAG", None, tmp_path_factory.mktemp("sets"), [*arms, ("pna", "pna", {})], SMALL)


def sample_of(bench, layer, aggregator, steps=1):
    (arm,) = [arm for arm in bench.arms if (arm["layer"], arm["aggregator"]) == (layer, aggregator)]
    return Sample.of(bench.prepared, arm, steps)


@pytest.mark.parametrize("layer", ["gcn", "gin", "gat"])
def test_plain_network_is_the_same_network(bench, layer):
    """With the same weights, and a sum, both compute the same."""
    sample = sample_of(bench, layer, "sum")
    card, settings = bench.prepared.card, sample.arm["settings"]
    torch.manual_seed(0)
    network = Network(card, layer, "sum", settings, sample.width, degrees=sample.degrees)
    plain = PlainNetwork(card, layer, "sum", settings, sample.width, sample.degrees)
    pairs = [(plain.node_encoder, network.encoder), (plain.head, network.head)]
    pairs += [(conv, block.conv) for conv, block in zip(plain.convs, network.blocks, strict=True)]
    pairs += [(norm, block.norm) for norm, block in zip(plain.norms, network.blocks, strict=True)]
    if plain.edge_encoder is not None:
        pairs.append((plain.edge_encoder, network.edge_encoder))
    copied = 0
    with torch.no_grad():
        for theirs, mine in pairs:
            for weight, value in zip(theirs.parameters(), mine.parameters(), strict=True):
                weight.copy_(value)
                copied += weight.numel()
    for module in (plain, network):
        assert copied == sum(weight.numel() for weight in module.parameters())
    items = sample.train[:5]
    (batch,) = Batches(bench.prepared.graphs, items, 5, "graph").epoch()
    theirs = Batch.from_data_list(as_data_list(bench.prepared.graphs, items))
    torch.testing.assert_close(plain(theirs), network(batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("layer", "aggregator"), [("gcn", "ssma"), ("gin", "ssma"), ("gat", "ssma"), ("pna", "pna"),
                                                   ("pna", "ssma")])  # fmt: skip
def test_plain_network_has_about_as_many_parameters(bench, layer, aggregator):
    """But for the scores of attention slots, which heads and towers share in the plain one."""
    sample = sample_of(bench, layer, aggregator)
    network, _ = sample.ours(CPU)
    plain = PlainNetwork(bench.prepared.card, layer, aggregator, sample.arm["settings"], sample.width, sample.degrees)
    mine, theirs = (
        sum(weight.numel() for name, weight in module.named_parameters() if "score" not in name)
        for module in (network, plain)
    )
    assert theirs == pytest.approx(mine, rel=0.1)


def test_heads_are_aggregated_one_by_one():
    torch.manual_seed(0)
    aggr = PaperAggregation(4, kappa=2, compression=0.5)
    x, index = torch.randn(9, 3, 4), torch.tensor([0, 2, 2, 0, 1, 1, 1, 2, 0])
    out = aggr(x, index, dim_size=4, dim=0)
    for head in range(3):
        torch.testing.assert_close(out[:, head], aggr.paper(x[:, head], index, 4))
    torch.testing.assert_close(aggr(x[:, 0], index, dim_size=4), out[:, 0])
    assert isinstance(aggr.paper, PaperSSMA) and not isinstance(aggr.paper, SSMAAggregation)


def test_a_draw_keeps_at_most_kappa_edges_of_every_node():
    torch.manual_seed(0)
    edge_index = torch.stack([torch.arange(12), torch.tensor([0, 1, 1, 1, 1, 3, 3, 3, 1, 0, 0, 3])])
    drawn = set()
    for _ in range(40):
        kept = draw_neighbours(edge_index, 5, 2)
        assert edge_index[1, kept].bincount(minlength=5).tolist() == [2, 2, 0, 2, 0]
        assert kept.unique().numel() == 6
        drawn |= set(kept.tolist())
    assert drawn == set(range(12))


def test_a_sample_is_the_same_share_of_training_and_validation(bench):
    sample, split = sample_of(bench, "gcn", "sum", steps=2), bench.prepared.splits[0]
    assert sample.train == split["train"][:64]
    assert sample.share == 64 / len(split["train"])
    assert len(sample.validation) == round(sample.share * len(split["validation"]))
    assert (sample.first(1).train, sample.first(0).steps, sample.first(9).steps) == (split["train"][:32], 1, 2)
    whole = sample_of(bench, "gcn", "sum", steps=99)
    assert (whole.share, whole.train, whole.validation) == (1, split["train"], split["validation"])


def test_ours_trains_on_every_call(bench):
    network, work = sample_of(bench, "gcn", "sum").ours(CPU)
    states = []
    for _ in range(3):
        work.reset()
        work.run()
        states.append(network.head[0].weight.detach().clone())
    assert not torch.equal(states[0], states[1]) and not torch.equal(states[1], states[2])


def test_each_method_runs_as_many_steps_as_it_takes_in_the_time_of_a_call(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(fit, "_own_step", lambda *_: 0.3)
    monkeypatch.setattr(fit, "_forecast", lambda *_: Measured(1, 0, 0.7))
    grid = replace(FIT_QUICK, arms=(("gcn", "sum", {}),), changes=SMALL)
    ((*rows,),) = run_fit_bench(grid, [CPU], Limits(budget=0.01), None, tmp_path)
    graphs = {row["method"]: round(row["share"] * 150) for row in rows}
    assert graphs == {"package": 96, "PyG": 32}


def test_what_does_not_fit_is_not_called_and_says_so(tmp_path):
    grid = replace(FIT_QUICK, arms=(("gcn", "ssma", {}),), changes=SMALL)
    ((*rows,),) = run_fit_bench(grid, [CPU], Limits(seconds=1e-9, budget=0.01), None, tmp_path)
    assert [row["method"] for row in rows] == ["PyG", "package", "package", "package"]
    assert rows[0]["reason"].startswith("not run: needs about")
    text = fit_page(as_frame(rows, [*FIT_CELL, "share", *MEASURED]), {}, [])
    assert text.count("not run: needs about") == 1
    assert "nan" not in text.lower()


def test_the_page_scales_seconds_to_an_epoch():
    cell = dict(zip(FIT_CELL, ("cpu", "MUTAG", "real", "gcn", "ssma", "random", 8, 1234), strict=True))
    times = {"package": (0.2, 0.4, 0.6), "PyG": (2.0, 1.0, 4.0)}
    rows = [
        cell | {"share": {"package": 0.5, "PyG": 0.25}[method], "method": method, "repeat": number, "seconds": each}
        for method, values in times.items()
        for number, each in enumerate(values)
    ]
    text = fit_page(as_frame(rows, [*FIT_CELL, "share", *MEASURED]), {}, [])
    row = "| cpu | MUTAG | real | gcn | ssma random | 8 | 1,234 | 50% | 25% | 0.8 (0.4..1.2) | 8 (4..16) | 10.0 | 3 |"
    assert row in text


def test_the_grid_counts_its_cells(bench):
    assert len(FitGrid()) == 27
    assert len(FitGrid(compiled=True)) == 27 + 3 * 5
    assert len(bench.arms) == 9


def test_compiled_arms_are_further_rows_with_ssma_compiled_in_all_layers(tmp_path, monkeypatch):
    seen = []

    def cell(row, sample, *rest):
        network, _ = sample.ours(CPU)
        switches = {module.compiled for module in network.modules() if isinstance(module, SSMAAggregation)}
        seen.append((sample.arm["aggregator"], sample.compiled, switches))
        return [row]

    monkeypatch.setattr(fit, "_cell", cell)
    grid = FitGrid(("MUTAG",), FIT_QUICK.arms[:2], FIT_QUICK.changes, compiled=True)
    assert len(list(run_fit_bench(grid, [CPU], Limits(), None, tmp_path))) == len(grid) == 3
    assert seen == [("sum", False, set()), ("ssma", False, {False}), ("ssma", True, {True})]


def test_the_command_writes_page_numbers_and_figure(quick_bench, monkeypatch):
    monkeypatch.setattr(fit, "PROBE", 3)
    folder = quick_bench("fit")
    assert {path.name for path in folder.iterdir()} == {"fit.md", "fit.csv", "fit-cpu.png", "fit-cpu.pdf"}
    frame = pd.read_csv(folder / "fit.csv", keep_default_na=False)
    assert frame.groupby(["layer", "aggregator", "selection", "method"]).size().min() >= 3
    assert frame.groupby(["layer", "aggregator", "selection"]).ngroups == len(FIT_QUICK)


def test_the_docs_tell_what_compiling_saved_as_the_page_has_it():
    cells = pd.read_csv(ROOT / "reports/bench/cpu/fit.csv").query("method == 'package' and aggregator == 'ssma'")
    epochs = cells.assign(seconds=cells["seconds"] / cells["share"])
    seconds = epochs.groupby(["dataset", "layer", "selection"])["seconds"].median().unstack()
    more = pd.concat([seconds[f"{one} compiled"] / seconds[one] - 1 for one in ("attention", "random")]).dropna() * 100
    assert len(more) == 15
    slower, faster = more[more > 0], -more[more <= 0]
    assert list(slower.index) == [("MUTAG", "gcn")] and len(faster) == 14
    told = f"took {faster.min():.0f} to {faster.max():.0f}% less time on two shared cores"
    told += f", and {slower.max():.0f}% more by a random draw on MUTAG"
    assert told in (ROOT / "docs/studies.md").read_text(encoding="utf-8")
