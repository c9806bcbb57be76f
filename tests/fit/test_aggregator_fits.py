"""Every aggregator in a real, tiny fit through a study's settings; the auxiliary loss; degrees of the training part."""

import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from ssma.aggr import AGGREGATORS, SumAggregation
from ssma.data.batches import Batches
from ssma.errors import STOPPED, StudyError
from ssma.fit import run
from ssma.fit.run import run_fit
from ssma.fit.spec import fit_spec
from ssma.fit.summaries import module_summaries
from ssma.fit.training import Task, Training
from ssma.layers.network import Network
from ssma.study.classes import as_declared, parameters_of
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def study():
    return make_plan(parse_study({
        "study": "s",
        "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 24, "num_nodes": 8}},
        "layers": ["gcn", "gat"],
        "splits": {"folds": 3},
        "model": {"num_layers": 1, "budget": 2500, "heads": 2, "dropout": 0.0},
        "training": {"max_epochs": 3, "batch_size": 8, "lr": 0.01},
        "ablations": {"a": {"axes": {"aggregator": list(AGGREGATORS)}}},
    }))  # fmt: skip


def arm_of(study, aggregator, layer="gcn"):
    return next(arm for arm in study["arms"] if (arm["aggregator"], arm["layer"]) == (aggregator, layer)) | {
        "dataset": "d"
    }


def spec_of(study, prepared, aggregator, layer="gcn", **hyperparameters):
    return fit_spec(arm_of(study, aggregator, layer), prepared.card, prepared.splits[0], 0, hyperparameters, 5)


@pytest.mark.parametrize("layer", ["gcn", "gat"])
@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_fit_with_every_aggregator(study, prepared, tmp_path, name, layer):
    record = run_fit(Results(tmp_path), prepared, spec_of(study, prepared, name, layer), CPU)
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["parameters"] <= 2500
    assert all(math.isfinite(value) for part in ("train", "validation", "test") for value in record[part].values())
    assert record["validation"]["mae"] == record["history"]["validation_metric"][record["best_epoch"] - 1]
    extra = record["history"]["auxiliary_loss"]
    assert len(extra) == 3
    assert all(value > 0 for value in extra) if name == "fmean" else extra == [0.0] * 3
    again = run_fit(Results(tmp_path / "again"), prepared, spec_of(study, prepared, name, layer), CPU)
    assert again["history"]["train_loss"] == record["history"]["train_loss"]


def test_pna_is_scaled_by_the_training_part(study, prepared, tmp_path, monkeypatch):
    seen = []
    real = Network.__init__
    monkeypatch.setattr(Network, "__init__", lambda self, *a, **k: real(self, *a, **k) or seen.append(self))
    run_fit(Results(tmp_path), prepared, spec_of(study, prepared, "pna"), CPU)
    graphs, logs = prepared.graphs, []
    for graph in prepared.splits[0]["train"]:
        edges = graphs.edge_index[:, graphs.edge_ptr[graph] : graphs.edge_ptr[graph + 1]]
        for node in range(int(graphs.node_ptr[graph + 1] - graphs.node_ptr[graph])):
            logs.append(math.log(int((edges[1] == node).sum()) + 1))
    delta = seen[-1].blocks[0].conv.aggr_module.delta
    assert delta.item() == pytest.approx(sum(logs) / len(logs), rel=1e-6)


def trained(prepared, network, epochs):
    split = prepared.splits[0]
    train, validation = (Batches(prepared.graphs, split[part], 8, "graph") for part in ("train", "validation"))
    settings = {"lr": 0.01, "weight_decay": 0.0, "max_epochs": epochs, "plateau_factor": 0.5, "plateau_patience": 99,
                "min_lr": 1e-6, "max_minutes": None}  # fmt: skip
    task = Task("l1", "mae", "minimize")
    training = Training(network, train, list(validation.epoch()), task, settings, 0)
    assert training.run(lambda t: None) == ("ok", None)
    return training


def inversion_error(network):
    aggr = network.blocks[0].conv.aggr_module
    aggr.inversion_weight = 1.0
    return aggr.auxiliary_loss().item()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_inverse_becomes_one_only_with_the_auxiliary_loss(study, prepared, seed):
    def network(weight):
        """Networks f and inverse are put away from their start, where they are inverse to each other."""
        torch.manual_seed(seed)
        settings = {"aggregator": {"inversion_weight": weight}, "model": arm_of(study, "fmean")["settings"]["model"]}
        network = Network(prepared.card, "gcn", "fmean", settings, 8)
        aggr = network.blocks[0].conv.aggr_module
        for parameter in [*aggr.f.parameters(), *aggr.f_inverse.parameters()]:
            parameter.data += 0.2 * torch.randn_like(parameter)
        return network

    with_it = trained(prepared, network(1.0), epochs=60)
    without_it = trained(prepared, network(0.0), epochs=60)
    start = with_it.history["auxiliary_loss"][0]
    assert without_it.history["auxiliary_loss"] == [0.0] * 60
    assert with_it.history["auxiliary_loss"][-1] < 0.01 * start
    assert inversion_error(with_it.network) < 0.01 * start < 0.5 * start < inversion_error(without_it.network)


class Penalised(SumAggregation):
    """A user's class: its auxiliary loss pulls its weight to 3."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def auxiliary_loss(self):
        return (self.weight - 3) ** 2


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.aggr = nn.Parameter(torch.zeros(1)), Penalised()

    def forward(self, batch):
        return self.out.expand(batch.num_graphs, 1)


def test_any_module_s_auxiliary_loss_is_minimised_and_recorded_apart(prepared):
    training = trained(prepared, Constant(), epochs=2)
    assert training.history["auxiliary_loss"] == pytest.approx([9.0, (3 - 0.01) ** 2], abs=1e-4)  # one step an epoch
    assert training.network.aggr.weight.item() == pytest.approx(0.02, abs=1e-4)
    y = prepared.graphs.y[prepared.splits[0]["train"]]
    assert training.history["train_loss"][0] == pytest.approx(y.abs().mean().item(), rel=1e-6)


def test_a_function_that_a_module_was_given_is_asked_as_a_method_is(prepared):
    network = Constant()
    network.auxiliary_loss = lambda: network.out.square().sum() + 1
    network.summary = lambda: {"told": 1}
    training = trained(prepared, network, epochs=1)
    assert training.history["auxiliary_loss"] == pytest.approx([10.0])
    assert module_summaries(network) == {"": {"told": 1}}


def test_a_module_inside_a_wrapper_that_hands_its_methods_on_is_asked_once(prepared):
    network = Constant()
    network.aggr = torch.compile(network.aggr)
    assert network.aggr.auxiliary_loss() == 9
    assert trained(prepared, network, epochs=1).history["auxiliary_loss"] == pytest.approx([9.0])


@pytest.mark.parametrize(
    ("value", "found"), [(0.5, "0.5"), (None, "None"), (torch.ones(3), "a tensor of shape [(]3,[)]")]
)
def test_an_auxiliary_loss_that_is_no_scalar_is_refused(prepared, value, found):
    network = Constant()
    network.aggr.auxiliary_loss = lambda: value
    with pytest.raises(StudyError, match=f"of Penalised returned {found} but expected a tensor of one number"):
        trained(prepared, network, epochs=1)


def test_an_auxiliary_loss_that_is_not_finite_ends_the_fit(prepared):
    network = Constant()
    network.aggr.auxiliary_loss = lambda: network.aggr.weight * math.inf
    split = prepared.splits[0]["train"]
    settings = {"lr": 0.01, "weight_decay": 0.0, "max_epochs": 2, "plateau_factor": 0.5, "plateau_patience": 9,
                "min_lr": 1e-6, "max_minutes": None}  # fmt: skip
    batches = Batches(prepared.graphs, split, 99, "graph")
    task = Task("l1", "mae", "minimize")
    status, reason = Training(network, batches, list(batches.epoch()), task, settings, 0).run(lambda t: None)
    assert (status, reason) == ("diverged", "the auxiliary loss was nan in epoch 1")


class Weighted(Constant):
    """Its parameter is pulled to 1."""

    def __init__(self, weight):
        super().__init__()
        self.aggr.weight = nn.Parameter(weight)
        self.aggr.auxiliary_loss = lambda: (self.aggr.weight - 1).abs().square().sum()


@pytest.mark.parametrize("start", [torch.zeros(3, 8)[:, :4], torch.zeros(24)[::2]])
def test_a_parameter_that_is_a_part_of_a_tensor_is_trained_as_one_of_its_own(prepared, start):
    """AdamW in one step takes its memory for one piece, and changes what lies between its entries instead of them."""
    weight = trained(prepared, Weighted(start), epochs=3).network.aggr.weight
    assert weight.flatten().tolist() == pytest.approx([0.03] * 12, abs=1e-3)


def test_complex_and_frozen_whole_parameters_are_no_obstacle(prepared):
    network = Weighted(torch.zeros(2, dtype=torch.complex64))
    network.aggr.order = nn.Parameter(torch.tensor([4, 2]), requires_grad=False)
    trained(prepared, network, epochs=3)
    assert network.aggr.weight.real.tolist() == pytest.approx([0.03] * 2, abs=1e-3)
    assert network.aggr.order.tolist() == [4, 2]


class Late(Constant):
    """It has a parameter that the optimizer has never seen."""

    def forward(self, batch):
        if not hasattr(self, "late"):
            self.late = nn.Parameter(torch.zeros(1))
        return super().forward(batch) + self.late


def test_a_parameter_that_is_made_in_the_first_call_ends_the_fit(prepared):
    network = Late()
    with pytest.raises(StudyError, match="parameter late was made while the network ran, and is neither trained nor"):
        trained(prepared, network, epochs=5)
    assert network.late.item() == 0


class Hiding(SumAggregation):
    """A user's class with a weight that torch does not know of."""

    def __init__(self, in_channels, heads):
        super().__init__()
        self.weight = torch.eye(in_channels, requires_grad=True)

    def forward(self, x, *args, **kwargs):
        return super().forward(x @ self.weight, *args, **kwargs)


class Doubling(torch.autograd.Function):
    """Keeps a number for its way back under a name that torch's own nodes have too."""

    @staticmethod
    def forward(ctx, x):
        ctx.variable = 2.0
        return x * ctx.variable

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.variable


class Doubled(SumAggregation):
    """A user's class with a gradient of its own."""

    def __init__(self, in_channels, heads):
        super().__init__()

    def forward(self, x, *args, **kwargs):
        return super().forward(Doubling.apply(x), *args, **kwargs)


class Probing(Hiding):
    """A user's class that asks how its result changes with something that it makes for one call."""

    def forward(self, x, *args, **kwargs):
        self.weight = torch.eye(x.size(1), requires_grad=True)
        return super().forward(x, *args, **kwargs)


def test_a_weight_that_is_no_parameter_ends_the_fit_and_what_is_made_in_each_step_does_not(study, prepared, tmp_path):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Hiding", "class_code": "c"}
    record = run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record["epochs"]) == ("failed", None)
    assert record["reason"] == (
        "a tensor of shape (36, 36) wants a gradient but is no parameter of the network, so that it is neither trained "
        "nor within the budget; make it a torch.nn.Parameter"
    )
    for kind in ("Probing", "Doubled"):
        record = run_fit(Results(tmp_path), prepared, spec | {"class": f"{__name__}.{kind}", "class_code": kind}, CPU)
        assert (record["status"], record["reason"]) == ("ok", None)


class Sharing(SumAggregation):
    """A user's class with a module as a default, which Python makes once for all networks."""

    def __init__(self, in_channels, heads, act=nn.PReLU()):  # noqa: B008
        super().__init__()
        self.act = act

    def forward(self, x, *args, **kwargs):
        return super().forward(self.act(x), *args, **kwargs)


def test_weights_that_all_networks_share_are_refused_in_the_first_fit(study, prepared, tmp_path, monkeypatch):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Sharing", "class_code": "c"}
    reasons = [run_fit(Results(tmp_path / name), prepared, spec, CPU)["reason"] for name in "ab"]
    start = "parameter blocks.0.conv.aggr_module.act.weight is one and the same in every network, so that a fit would"
    assert all(reason.startswith(start) for reason in reasons)
    monkeypatch.setattr(Sharing.__init__.__defaults__[0].weight, "requires_grad", False)  # a constant may be shared
    assert run_fit(Results(tmp_path), prepared, spec, CPU)["status"] == "ok"


class Normed(SumAggregation):
    """A user's class with a norm as a default: it has no weights, but goes on with the statistics of fits before."""

    def __init__(self, in_channels, heads, norm=nn.BatchNorm1d(1, affine=False), scale=torch.ones(1)):  # noqa: B008
        super().__init__()
        self.norm = norm
        self.register_buffer("scale", scale)  # a constant may be shared

    def forward(self, x, *args, **kwargs):
        return super().forward(self.norm(x.reshape(-1, 1)).view_as(x) * self.scale, *args, **kwargs)


class Global(SumAggregation):
    """A user's class that keeps a mean in an attribute of the class."""

    mean = torch.zeros(1)

    def __init__(self, in_channels, heads, moved=True):
        super().__init__()
        self.moved = moved

    def forward(self, x, *args, **kwargs):
        if self.moved:
            Global.mean += x.detach().mean()
        return super().forward(x - Global.mean, *args, **kwargs)


@pytest.mark.parametrize(
    ("kind", "name", "calm"),
    [
        (Normed, "buffer blocks.0.conv.aggr_module.norm.running_mean", (nn.Identity(), torch.ones(1))),
        (Global, "attribute Global.mean", (False,)),
    ],
)
def test_what_all_networks_share_ends_a_fit_that_changes_it(study, prepared, tmp_path, monkeypatch, kind, name, calm):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.{kind.__name__}", "class_code": "c"}
    assert run_fit(Results(tmp_path / "a"), prepared, spec, CPU)["reason"] == (
        f"{name} is one and the same in every network, and a fit changes it, so that others would begin with what it "
        "has left; make it in __init__, as a buffer, and not as a default or an attribute of the class, of which there "
        "is one for all"
    )
    monkeypatch.setattr(kind.__init__, "__defaults__", calm)
    assert run_fit(Results(tmp_path / "b"), prepared, spec, CPU)["status"] == "ok"


class Spoilt(SumAggregation):
    """A user's class whose first step leaves NaN in a buffer that all networks share."""

    def __init__(self, in_channels, heads, scale=torch.ones(1)):  # noqa: B008
        super().__init__()
        self.register_buffer("scale", scale)

    def forward(self, x, *args, **kwargs):
        if self.training:
            self.scale += float("nan")
        return super().forward(x * self.scale, *args, **kwargs)


def test_what_all_networks_share_ends_a_fit_that_it_made_diverge(study, prepared, tmp_path):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Spoilt", "class_code": "c"}
    record = run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record["reason"].partition(",")[0]) == (
        "failed", "buffer blocks.0.conv.aggr_module.scale is one and the same in every network"
    )  # fmt: skip


class Beside(SumAggregation):
    """A user's class that keeps a mean beside its buffers, or in one."""

    buffer = False

    def __init__(self, in_channels, heads):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1)) if self.buffer else setattr(self, "mean", torch.zeros(1))

    def forward(self, x, *args, **kwargs):
        if self.training:
            self.mean = self.mean + x.detach().mean()
        return super().forward(x - self.mean, *args, **kwargs)


@pytest.mark.parametrize("buffer", [False, True])
def test_what_is_kept_beside_the_buffers_is_warned_of(study, prepared, tmp_path, monkeypatch, caplog, buffer):
    monkeypatch.setattr(Beside, "buffer", buffer)
    monkeypatch.setattr(Training, "_keep_best", first_is_best)
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Beside", "class_code": "c"}
    record = run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record["best_epoch"]) == ("ok", 1)
    then, now = record["history"]["validation_metric"][0], record["validation"]["mae"]
    told = f"fit {record['id']}: the validation mae of its best epoch was {then:g}, and is {now:g} with the weights and"
    assert (then == now) == buffer
    assert any(message.startswith(told) for message in caplog.messages) != buffer


@pytest.mark.parametrize(("change", "warned"), [(1e-6, False), (1e-4, True)])
def test_what_another_cpu_rounds_otherwise_is_not_warned_of(
    study, prepared, tmp_path, monkeypatch, caplog, change, warned
):
    def rounded(training, value, real=Training._keep_best):
        real(training, value)
        training.best["value"] = value * (1 + change)

    monkeypatch.setattr(Training, "_keep_best", rounded)
    assert run_fit(Results(tmp_path), prepared, spec_of(study, prepared, "sum"), CPU)["status"] == "ok"
    assert any("of its best epoch was" in message for message in caplog.messages) == warned


def first_is_best(training, value, real=Training._keep_best):
    if training.epochs == 1:
        real(training, value)


def summary_of(kind, study, prepared, folder):
    """Returns what a user's class tells of itself in the record of a fit with it, which has to be ok."""
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.{kind.__name__}", "class_code": "c"}
    record = run_fit(Results(folder), prepared, spec, CPU)
    assert (record["status"], record["reason"]) == ("ok", None)
    assert list(record["modules"]) == ["blocks.0.conv.aggr_module"]
    return record["modules"]["blocks.0.conv.aggr_module"]


class Indexing(SumAggregation):
    """A user's class that indexes, which torch adds up in no fixed order on several threads unless it is told to."""

    def __init__(self, in_channels, heads):
        super().__init__()

    def forward(self, x, index=None, *args, **kwargs):
        self.fixed = torch.are_deterministic_algorithms_enabled()
        return super().forward(x, index, *args, **kwargs)

    def summary(self):
        return {"fixed": self.fixed}


def test_a_user_s_class_is_added_up_in_a_fixed_order(study, prepared, tmp_path):
    assert summary_of(Indexing, study, prepared, tmp_path) == {"fixed": True}
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_gradient_of_indexing_is_the_same_each_time_on_two_threads():
    """Of 50 rows that 20,000 messages share: torch's own choice differs in about every second call."""
    generator, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    index, weight = torch.randint(50, (20_000,), generator=generator), torch.randn(20_000, 64, generator=generator)

    def gradient():
        x = torch.ones(50, 64, requires_grad=True)
        (x[index] * weight).sum().backward()
        return x.grad

    try:
        torch.set_num_threads(2)
        with run._deterministic(True):
            first = gradient()
            assert all(torch.equal(gradient(), first) for _ in range(10))
    finally:
        torch.set_num_threads(threads)


class Scaled(SumAggregation):
    """A user's class that wants the degrees of the training part."""

    def __init__(self, in_channels, heads, degrees):
        super().__init__()
        self.degrees = degrees.tolist()

    def summary(self):
        return {"degrees": self.degrees}


def test_a_user_s_class_that_names_degrees_gets_those_of_the_training_part(study, prepared, tmp_path):
    told = summary_of(Scaled, study, prepared, tmp_path)["degrees"]
    graphs, train = prepared.graphs, prepared.splits[0]["train"]
    counts = [0] * (1 + int(graphs.in_degrees().max()))
    for number in train:
        first, end = graphs.node_ptr[number : number + 2]
        for degree in graphs.in_degrees()[first:end].tolist():
            counts[degree] += 1
    assert told + [0] * (len(counts) - len(told)) == counts
    assert sum(told) < len(graphs.x)


class Remembering(Indexing):
    """A user's class whose buffer is made in the first call, grows with each step of the training, and spoils it."""

    in_files = True

    def forward(self, x, index=None, *args, **kwargs):
        if not hasattr(self, "sums"):
            self.register_buffer("sums", torch.zeros(0), self.in_files)
        if self.training:
            self.sums = torch.cat([self.sums, x.detach().sum().reshape(1)])
        return super().forward(x, index, *args, **kwargs) * len(self.sums) ** 2

    def summary(self):
        return {"calls": len(self.sums)}


class OutOfFiles(Remembering):
    """A buffer that is no part of the module's state dict."""

    in_files = False


class Counting(Indexing):
    """The same of one size, made at the start."""

    def __init__(self, in_channels, heads):
        super().__init__(in_channels, heads)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x, *args, **kwargs):
        self.calls += self.training
        return super().forward(x, *args, **kwargs) * self.calls**2

    def summary(self):
        return {"calls": int(self.calls)}


class Halving(Indexing):
    """A buffer of whole numbers that becomes one of real numbers."""

    def __init__(self, in_channels, heads):
        super().__init__(in_channels, heads)
        self.register_buffer("level", torch.zeros((), dtype=torch.int64))

    def forward(self, x, *args, **kwargs):
        if self.training:
            self.level = self.level + 0.75
        return super().forward(x, *args, **kwargs) * self.level**2

    def summary(self):
        return {"calls": round(self.level.item() / 0.75)}


@pytest.mark.parametrize("kind", ["Remembering", "OutOfFiles", "Counting", "Halving"])
def test_buffers_that_are_made_while_the_network_runs_are_kept(study, prepared, tmp_path, kill, kind):
    """In a continued fit, and in the best epoch, the buffer has another size, or type, than at the end or at the start."""
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.{kind}", "class_code": "c"}
    whole = run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    assert (whole["status"], whole["best_epoch"], whole["epochs"]) == ("ok", 1, 3)
    assert whole["modules"] == {"blocks.0.conv.aggr_module": {"calls": 1}}
    kill(Results(tmp_path / "b"), prepared, spec)
    resumed = run_fit(Results(tmp_path / "b"), prepared, spec, CPU)
    assert (resumed["status"], resumed["reason"]) == ("ok", None)
    for curve in ("train_loss", "validation_metric"):
        assert resumed["history"][curve] == whole["history"][curve]
    assert (resumed["test"], resumed["modules"]) == (whole["test"], whole["modules"])


class Unsteady(Indexing):
    """A user's class that breaks down in evaluation mode, after the only validation batch of the only epoch."""

    evaluated = 0

    def forward(self, x, index=None, *args, **kwargs):
        Unsteady.evaluated += not self.training
        return super().forward(x, index, *args, **kwargs) * (math.nan if Unsteady.evaluated > 1 else 1)


def test_a_validation_that_is_no_number_at_the_end_ends_a_fit_as_diverged(study, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(Unsteady, "evaluated", 0)
    spec = spec_of(study, prepared, "sum", **{"training.max_epochs": 1})
    record = run_fit(Results(tmp_path), prepared, spec | {"class": f"{__name__}.Unsteady", "class_code": "c"}, CPU)
    assert record["history"]["validation_metric"][0] > 0
    reason = "the validation mae of the best epoch was not finite when it was taken again at the end"
    assert (record["status"], record["reason"]) == ("diverged", reason)
    assert [record[part] for part in ("train", "validation", "test", "modules")] == [None] * 4


class Drawing(Indexing):
    """A user's class that draws in evaluation too."""

    def forward(self, x, index=None, *args, **kwargs):
        return super().forward(x * torch.rand_like(x), index, *args, **kwargs)


def test_what_draws_in_evaluation_draws_the_same_after_a_kill_at_the_end(study, prepared, tmp_path, kill):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Drawing", "class_code": "c"}
    whole = run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    assert (whole["status"], whole["reason"]) == ("ok", None)
    kill(Results(tmp_path / "b"), prepared, spec, epoch=3)
    resumed = run_fit(Results(tmp_path / "b"), prepared, spec, CPU)
    assert resumed["history"]["train_loss"] == whole["history"]["train_loss"]
    for part in ("train", "validation", "test"):
        assert resumed[part] == whole[part]


class Seeding(SumAggregation):
    """A user's class that sets torch's seed, and so decides what the network around it draws."""

    def __init__(self, in_channels, heads, place):
        super().__init__()
        self.place = place
        with torch.random.fork_rng():
            torch.manual_seed(1)
        if place == "init":
            torch.manual_seed(42)

    def forward(self, x, *args, **kwargs):
        if self.place == ("train" if self.training else "evaluation"):
            torch.manual_seed(42)
        return super().forward(x, *args, **kwargs)


@pytest.mark.parametrize("place", ["init", "train", "evaluation"])
def test_a_class_that_sets_the_seed_of_the_network_around_it_is_refused(study, prepared, tmp_path, place):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Seeding", "class_code": place}
    settings = spec["settings"] | {"aggregator": {"place": place}}
    record = run_fit(Results(tmp_path), prepared, spec | {"settings": settings}, CPU)
    found = "torch's seed was set to 42 within a fit, so that fits of all seeds would draw the same from there on; "
    if place == "evaluation":  # which is seeded by itself, as each epoch is
        assert (record["status"], record["reason"]) == ("ok", None)
    else:
        assert (record["status"], record["epochs"]) == ("failed", None)
        assert record["reason"].startswith(found)


class NotTorch(Indexing):
    """A user's class that draws its weights, and what it leaves out, with NumPy's and Python's generators."""

    def __init__(self, in_channels, heads):
        super().__init__(in_channels, heads)
        self.weight = nn.Parameter(torch.from_numpy(np.random.rand(in_channels).astype("float32")))

    def forward(self, x, index=None, *args, **kwargs):
        kept = torch.tensor([random.random() < 0.7 for _ in range(len(x))]) if self.training else np.random.rand()
        return super().forward(x * self.weight * torch.as_tensor(kept).float().reshape(-1, 1), index, *args, **kwargs)


def test_what_draws_with_other_generators_than_torch_s_draws_the_same_each_time(study, prepared, tmp_path):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.NotTorch", "class_code": "c"}
    one, other = (run_fit(Results(tmp_path / name), prepared, spec, CPU) for name in "ab")
    assert (one["status"], one["reason"], one["deterministic"]) == ("ok", None, True)
    for part in ("train", "validation", "test"):
        assert one[part] == other[part]
    assert one["history"]["train_loss"] == other["history"]["train_loss"]
    seeded = run_fit(Results(tmp_path / "a"), prepared, spec | {"seed": 6}, CPU)
    assert seeded["history"]["train_loss"] != one["history"]["train_loss"]


class Naming(SumAggregation):
    """A user's class with a layer and a tensor of the names of methods that a fit asks for."""

    def __init__(self, in_channels, heads):
        super().__init__()
        self.summary = nn.Linear(in_channels, in_channels)

    def forward(self, x, *args, **kwargs):
        self.auxiliary_loss = x.detach().square().mean()
        return self.summary(super().forward(x, *args, **kwargs))


def test_attributes_of_the_names_of_methods_are_no_methods(study, prepared, tmp_path):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Naming", "class_code": "c"}
    record = run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record["reason"], record["modules"]) == ("ok", None, {})
    assert record["history"]["auxiliary_loss"] == [0.0] * 3


class Leaving(Indexing):
    """A user's class that ends the process."""

    code: object = "usage: mine.py [--width WIDTH]"

    def forward(self, x, index=None, *args, **kwargs):
        raise SystemExit(self.code)


def test_a_class_that_ends_the_process_costs_its_fits_and_a_stopped_job_none(study, prepared, tmp_path, monkeypatch):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.Leaving", "class_code": "c"}
    record = run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record["reason"]) == ("failed", "SystemExit: usage: mine.py [--width WIDTH]")
    monkeypatch.setattr(Leaving, "code", STOPPED)
    with pytest.raises(SystemExit):
        run_fit(Results(tmp_path / "stopped"), prepared, spec, CPU)
    assert not list((tmp_path / "stopped").rglob("*.json"))


class Weighing(SumAggregation):
    """A user's class with real options, some of which are trained, and one of whole numbers."""

    def __init__(self, in_channels, heads, gain: float, shares=(0.5, 0.5), most: "float | None" = None, rounds=1):
        super().__init__()
        self.gain, self.shares = (nn.Parameter(torch.tensor(value)) for value in (gain, shares))
        self.given = [gain, *shares, most, rounds]

    def forward(self, x, *args, **kwargs):
        return super().forward(x * (self.gain * self.shares.sum()), *args, **kwargs)

    def summary(self):
        return {"kinds": [type(value).__name__ for value in self.given]}


class HandingOn(Weighing):
    def __init__(self, in_channels, heads, **options):
        super().__init__(in_channels, heads, **options)


@pytest.mark.parametrize("kind", [Weighing, HandingOn])
def test_real_options_of_a_users_class_are_real_numbers_though_they_are_whole(study, prepared, tmp_path, kind):
    spec = spec_of(study, prepared, "sum") | {"class": f"{__name__}.{kind.__name__}", "class_code": "c"}
    given = {"gain": 1, "shares": [1, 2], "most": 3, "rounds": 4}
    record = run_fit(Results(tmp_path), prepared, spec | {"settings": spec["settings"] | {"aggregator": given}}, CPU)
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["modules"]["blocks.0.conv.aggr_module"]["kinds"] == ["float", "float", "float", "float", "int"]


class Loose:
    """A user's class with options that are whole numbers, or may be."""

    def __init__(self, ratio: int | float = 0.5, keep: "float | int | None" = None, limit=math.inf, sizes=(64, 0.5),
                 *, depth: int = 1, by: dict[int, float] | None = None, flag=0.5):  # fmt: skip
        pass


def test_options_that_may_be_whole_numbers_stay_so():
    """To PyG's poolings a ratio of 3 is three nodes; a limit of 3 may be an index."""
    given = {"ratio": 3, "keep": 3, "limit": 3, "sizes": [8, 1], "depth": 2, "by": {"1": 2}, "flag": True}
    made = as_declared(given, parameters_of(Loose))
    assert made == given
    assert [type(each) for value in made.values() for each in (value if isinstance(value, list) else [value])] == [
        int, int, int, int, int, int, dict, bool,
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["module", "class"])
def test_a_class_that_changes_what_tensors_are_changes_no_fit(study, prepared, tmp_path, monkeypatch, where):
    """As one that also trains does: torch.set_default_device("cuda")."""
    text = "import torch\nfrom torch_geometric.nn.aggr import SumAggregation\n\n{module}\n\n\n"
    text += "class Own(SumAggregation):\n    def __init__(self, in_channels, heads):\n        super().__init__()\n"
    text += "        {class}\n"
    monkeypatch.syspath_prepend(tmp_path)
    spec, found = spec_of(study, prepared, "sum"), []
    lines = {"calm": "", "moved": 'torch.set_default_device("meta")', "dull": "torch.set_grad_enabled(False)"}
    try:
        for name, line in (lines | {"wide": "torch.set_default_dtype(torch.float64)"}).items():
            name += f"_{where}"
            (tmp_path / f"{name}.py").write_text(text.format(**{"module": "", "class": ""} | {where: line}))
            own = spec | {"aggregator": "mine", "class": f"{name}.Own"}
            record = run_fit(Results(tmp_path / name), prepared, own, CPU)
            found.append((record["reason"], record["history"] and record["history"]["train_loss"]))
        assert found == [(None, found[0][1])] * 4
        assert torch.zeros(1).device == CPU and torch.zeros(1).dtype == torch.float32 and torch.is_grad_enabled()
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
