"""Fits on a GPU are those on the CPU: nothing of them stays on the host. The GPU is pretended, its numbers are real."""

import sys
from contextlib import nullcontext
from itertools import cycle

import pretended_gpu as pretended
import pytest
import torch
from pretended_gpu import GPU, OnGPU, pretended_gpu

from ssma.aggr import SumAggregation, make_aggregation
from ssma.data.graphs import Graphs, pointer
from ssma.data.prepare import Prepared
from ssma.errors import StudyError
from ssma.fit import run
from ssma.fit.training import Training
from ssma.study.paths import Results
from ssma.study.records import read_record
from ssma.study.settings import AGGREGATORS, LAYERS, ModelSettings, TrainingSettings

SIZES = torch.tensor([6, 5, 1, 7, 4, 6, 5, 3])
CARD = {
    "x": {"kind": "continuous", "width": 4}, "edge_attr": {"kind": "categorical", "cardinalities": [3]},
    "metric": "mae", "direction": "minimize", "loss": "l1", "level": "graph", "num_outputs": 2,
}  # fmt: skip
NODE_CARD = CARD | {"metric": "accuracy", "direction": "maximize", "loss": "cross_entropy", "level": "node"}
MODEL = {"num_layers": 1, "hidden_channels": 8, "heads": 2, "towers": 2, "dropout": 0.0, "walk_steps": 2}


def prepared(parts=False):
    """Some graphs with targets, of which one is unknown; or all of them as one graph with classes, in three parts."""
    generator = torch.Generator().manual_seed(0)
    nodes, counts = int(SIZES.sum()), 3 * SIZES
    ends = (torch.rand(2, int(counts.sum()), generator=generator) * SIZES.repeat_interleave(counts)).long()
    x = torch.randn(nodes, 4, generator=generator)
    edge_attr = torch.randint(3, (ends.size(1), 1), generator=generator)
    if parts:
        ends = ends + pointer(SIZES)[:-1].repeat_interleave(counts)
        ends[0, ::5] = torch.arange(len(ends[0, ::5]))  # into other parts
        ptrs = (torch.tensor([0, nodes]), torch.tensor([0, ends.size(1)]))
        graphs = Graphs(x, ends, edge_attr, torch.arange(nodes) % 2, *ptrs, part=torch.arange(nodes) // 13)
        order = torch.randperm(nodes, generator=generator).tolist()
    else:
        y = torch.randn(8, 2, generator=generator)
        y[1, 0] = torch.nan
        graphs, order = Graphs(x, ends, edge_attr, y, pointer(SIZES), pointer(counts)), list(range(8))
    split = {"train": order[:-4], "validation": order[-4:-2], "test": order[-2:], "hash": "h"}
    return Prepared(graphs, NODE_CARD if parts else CARD, [split])


def spec_of(layer, aggregator, options=None, **settings):
    own = AGGREGATORS[aggregator](**options or {}).model_dump()
    training = TrainingSettings(max_epochs=1, batch_size=4, lr=0.01).model_dump()
    model = ModelSettings().model_dump() | MODEL
    for group in (model, training):
        group |= {key: value for key, value in settings.items() if key in group}
    return {
        "layer": layer, "aggregator": aggregator, "class": None, "split": 0, "seed": 5,
        "settings": {"aggregator": own, "model": model, "training": training},
    }  # fmt: skip


def numbers(record):
    parts = [record[name][key] for name in ("train", "validation", "test") for key in ("loss", record["metric"])]
    return [*record["history"]["train_loss"], *record["history"]["validation_loss"], *parts]


def assert_same_fit(folder, data, spec):
    ours = run.run_fit(Results(folder / "cpu"), data, spec, torch.device("cpu"))
    with pretended_gpu():
        theirs = run.run_fit(Results(folder / "gpu"), data, spec, GPU)
    assert (ours["reason"], theirs["reason"]) == (None, None)
    assert (theirs["device"], theirs["deterministic"], theirs["peak_memory_mb"]) == ("pretended", False, 3.0)
    assert numbers(theirs) == pytest.approx(numbers(ours), rel=1e-3)


def test_what_the_gpu_refuses():
    with pretended_gpu():
        there, here = torch.randn(3, 2, device=GPU), torch.ones(3, 2)
        assert isinstance(there, OnGPU) and (there @ there.t()).device == GPU
        assert there.cpu().device.type == "cpu" and bool((here.to(GPU).sum() == 6).item())
        for mixed in (lambda: there + here, lambda: here[there[:, 0].long()], lambda: torch.cat([there, here])):
            with pytest.raises(RuntimeError, match="same device, but found cuda:0 and cpu"):
                mixed()
        with pytest.raises(RuntimeError, match="expected a generator of cuda:0"):
            torch.randn(2, device=GPU, generator=torch.Generator())


@pytest.mark.parametrize(("aggregator", "layer"), list(zip(AGGREGATORS, cycle(LAYERS))))
def test_every_aggregator_and_layer(tmp_path, aggregator, layer):
    assert_same_fit(tmp_path, prepared(), spec_of(layer, aggregator))


@pytest.mark.parametrize(("aggregator", "readout"), [("sum", "max"), ("mul", "mean"), ("std", "mean")])
def test_no_step_is_left_to_torch_scatter(tmp_path, monkeypatch, aggregator, readout):
    """Whose gradients of products and maxima are others; PyG asks it on a GPU only, and no record would tell."""
    monkeypatch.setattr("torch_geometric.typing.WITH_TORCH_SCATTER", True)
    monkeypatch.setattr("torch_geometric.utils._scatter.torch_scatter", None)
    assert_same_fit(tmp_path, prepared(), spec_of("gin", aggregator, readout=readout))


def test_a_factor_of_zero_has_its_gradient_on_a_gpu(monkeypatch):
    monkeypatch.setattr("torch_geometric.typing.WITH_TORCH_SCATTER", True)
    with pretended_gpu():
        x, index = torch.tensor([[0.0], [3.0], [2.0]]).to(GPU).requires_grad_(), torch.zeros(3, dtype=torch.long)
        (grad,) = torch.autograd.grad(make_aggregation("mul", 1)(x, index.to(GPU), dim_size=1).sum(), x)
    assert grad.tolist() == [[6.0], [0.0], [0.0]]


@pytest.mark.parametrize(
    "options",
    [
        {"selection": "random", "learn_affine": True},
        {"mixing": "product", "normalisation": "log"},
        {"mixing": "sum", "slots_from": "features"},
    ],
)
def test_the_operator_s_options(tmp_path, options):
    assert_same_fit(tmp_path, prepared(), spec_of("gin", "ssma", options, positional_encoding="random_walk"))


@pytest.mark.parametrize(("layer", "evaluation"), [("gcn", "whole"), ("gat", "per_part")])
def test_a_graph_in_parts(tmp_path, layer, evaluation):
    settings = {"evaluation": evaluation, "self_loops": True, "positional_encoding": "random_walk", "batch_size": 2}
    assert_same_fit(tmp_path, prepared(parts=True), spec_of(layer, "ssma", **settings))


def test_a_killed_fit_goes_on(tmp_path, kill):
    data, spec = prepared(), spec_of("gin", "fmean", max_epochs=2)
    with pretended_gpu():
        kill(Results(tmp_path / "gpu"), data, spec, device=GPU)
    assert len(list(tmp_path.rglob("*.ckpt"))) == 1
    assert_same_fit(tmp_path, data, spec)


def test_recurrent_networks_train_in_float32_as_all_others(tmp_path, monkeypatch):
    seen, real = [], Training.run

    def state():
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32

    monkeypatch.setattr(Training, "run", lambda *arguments: seen.append(state()) or real(*arguments))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)  # torch's default
    with pretended_gpu():
        record = run.run_fit(Results(tmp_path), prepared(), spec_of("gcn", "lstm"), GPU)
    assert (record["reason"], seen, state()) == (None, [(False, False)], (True, False))


class Seeding(SumAggregation):
    """A user's class that sets the seed of a GPU: for what it draws itself, or for the layers after it too."""

    def __init__(self, in_channels, heads, alone):
        super().__init__()
        self.alone = alone

    def forward(self, x, *args, **kwargs):
        with torch.random.fork_rng([0], enabled=self.alone, device_type="cuda"):
            torch.cuda.manual_seed(42)
        return super().forward(x, *args, **kwargs)


@pytest.mark.parametrize(
    ("alone", "reason"), [(True, None), (False, "torch's seed was set to 42 within a fit, so that fits of all seeds")]
)
def test_a_class_that_sets_the_seed_of_a_gpu_is_refused(tmp_path, alone, reason):
    """Dropout of the layers after it would be the same with every seed of a fit."""
    spec = spec_of("gcn", "sum") | {"class": f"{__name__}.Seeding", "class_code": "c"}
    spec |= {"settings": spec["settings"] | {"aggregator": {"alone": alone}}}
    with pretended_gpu():
        record = run.run_fit(Results(tmp_path), prepared(), spec, GPU)
    assert (record["reason"] and record["reason"].partition(" would")[0]) == reason


def rounded_to():
    """Returns what matrix products, recurrent networks and convolutions may round to, on a GPU and on a CPU."""
    gpu, cpu = (torch.backends.cuda.matmul, torch.backends.cudnn), (torch.backends.mkldnn.matmul, torch.backends.mkldnn)
    places = [(matmul, others.rnn, others.conv) for matmul, others in (gpu, cpu)]
    return [[place.fp32_precision for place in group] for group in places]


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="torch has its older names alone")
@pytest.mark.parametrize(
    ("setting", "asked"),
    [  # the first is that of NVIDIA's containers
        ("torch.set_float32_matmul_precision('high')", [["tf32"] * 3, ["tf32", "ieee", "ieee"]]),
        ("torch.set_float32_matmul_precision('medium')", [["tf32"] * 3, ["bf16", "ieee", "ieee"]]),
        ("torch.backends.cuda.matmul.allow_tf32 = True", [["tf32"] * 3, ["ieee"] * 3]),
        ("torch.backends.fp32_precision = 'tf32'", [["tf32"] * 3] * 2),
        ("torch.backends.fp32_precision = 'bf16'", [["ieee", "tf32", "tf32"], ["bf16"] * 3]),
        ("torch.backends.mkldnn.conv.fp32_precision = 'bf16'", [["ieee", "tf32", "tf32"], ["ieee", "ieee", "bf16"]]),
    ],
)
@pytest.mark.parametrize("where", ["module", "class"])
@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_nothing_rounds_whoever_asked_for_it(tmp_path, monkeypatch, device, where, setting, asked):
    of_module, of_class = (setting, "") if where == "module" else ("", setting)
    code = f"import torch\nfrom ssma.aggr import MaxAggregation\n{of_module}\n\n\nclass Own(MaxAggregation):\n"
    code += f"    def __init__(self, in_channels, heads):\n        super().__init__()\n        {of_class}\n"
    (tmp_path / "rounding.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rounding", raising=False)
    seen, real = [], Training.run
    monkeypatch.setattr(Training, "run", lambda *arguments: seen.append(rounded_to()) or real(*arguments))
    spec = spec_of("gcn", "max") | {"class": "rounding.Own", "class_code": "c"}
    try:
        torch.backends.cudnn.allow_tf32 = True  # torch's default
        with pretended_gpu() if device == "gpu" else nullcontext():
            place = GPU if device == "gpu" else torch.device("cpu")
            records = [run.run_fit(Results(tmp_path), prepared(), spec | {"seed": seed}, place) for seed in (5, 6)]
        assert [record["reason"] for record in records] == [None, None]
        assert seen == [[["ieee"] * 3] * 2] * 2, "the first fit imports the module, each makes the class"
        assert rounded_to() == asked, "as it was outside of fits"
    finally:
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        for places in (
            torch.backends.cuda.matmul,
            torch.backends.mkldnn.matmul,
            torch.backends.mkldnn.rnn,
            torch.backends.mkldnn.conv,
        ):
            places.fp32_precision = "none"
        torch.backends.cudnn.allow_tf32 = True


def test_a_job_ends_with_the_fit_that_leaves_a_gpu_unusable(tmp_path, monkeypatch):
    """As after a failed assertion in a kernel, when each call fails; other errors cost one fit."""
    error, spec, results = RuntimeError("CUDA error: assert\nSearch for it"), spec_of("gcn", "sum"), Results(tmp_path)

    def fails(*arguments):
        raise error

    with pretended_gpu(), monkeypatch.context() as patch:
        patch.setattr(Training, "run", fails)
        assert run.run_fit(results, prepared(), spec, GPU)["status"] == "failed"

        def breaks(*arguments):
            for name in ("synchronize", "get_device_name", "max_memory_allocated"):
                patch.setattr(torch.cuda, name, fails)
            fails()

        patch.setattr(Training, "run", breaks)
        with pytest.raises(StudyError, match=r"failed \(RuntimeError: CUDA error: assert\) and left a GPU on which"):
            run.run_fit(results, prepared(), spec | {"seed": 6}, GPU)
    records = [read_record(path) for path in sorted(results.fits.glob("*/*.json"))]
    assert [(record["status"], record["device"]) for record in records] == [("failed", "pretended")] * 2


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_lengths_of_sequences_are_read_from_the_gpu_once(monkeypatch, name):
    """It is waited for each time."""
    read, real = [], pretended.computed

    def watched(function, args, kwargs):
        if str(function).startswith(("aten._local_scalar_dense", "aten._to_copy")) and isinstance(args[0], OnGPU):
            read.append(str(function))
        return real(function, args, kwargs)

    with pretended_gpu():
        aggr = make_aggregation(name, 4).to(GPU)
        x, index = torch.ones(5, 4, device=GPU), torch.tensor([0, 0, 1, 3, 3], device=GPU)
        monkeypatch.setattr(pretended, "computed", watched)
        assert aggr(x, index, dim_size=4).device == GPU
    assert read == ["aten._to_copy.default"]


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_more_neighbours_than_cudnn_takes_are_read_step_by_step(monkeypatch, name):
    """Of a node with more than 65,535 of them, with an error that it is not supported."""
    aggr, x, index = make_aggregation(name, 4), torch.randn(5, 4), torch.tensor([0, 0, 1, 0, 3])
    with torch.no_grad():
        expected = aggr.eval()(x, index, dim_size=4)
    monkeypatch.setattr("ssma.aggr.recurrent.LONG", 2)
    monkeypatch.setattr(f"torch.{name}", None)
    with pretended_gpu():
        found = aggr.to(GPU)(x.to(GPU), index.to(GPU), dim_size=4).cpu()
    torch.testing.assert_close(found, expected)


def test_evaluation_attends_by_the_steps_of_training(tmp_path, monkeypatch):
    """Others of torch hold the weights of all pairs of nodes at once, for which the memory of a GPU may not be enough."""
    seen, real = set(), pretended.computed
    monkeypatch.setattr(pretended, "computed", lambda function, *rest: seen.add(str(function)) or real(function, *rest))
    with pretended_gpu():
        assert run.run_fit(Results(tmp_path), prepared(), spec_of("gps", "sum"), GPU)["reason"] is None
    assert "aten._safe_softmax.default" in seen
    assert not [name for name in seen if "native_multi_head_attention" in name]
