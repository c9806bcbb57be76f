import dataclasses
import errno
import gc
import math
import os
import shutil
import weakref
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ssma.data.batches import Batches
from ssma.errors import StudyError
from ssma.fit import run
from ssma.fit.metrics import evaluate, loss_terms, metric_value
from ssma.fit.spec import fit_id, fit_spec
from ssma.fit.training import Task, Training
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record

CPU = torch.device("cpu")
TIMES = ("seconds", "seconds_per_step", "peak_memory_mb", "started", "seal")


@pytest.fixture(scope="module")
def study():
    return make_plan(parse_study({
        "study": "s",
        "datasets": {"d": {"source": "synthetic", "task": "product_classification", "num_graphs": 33, "num_nodes": 8}},
        "layers": ["gcn"],
        "splits": {"folds": 3},
        "model": {"num_layers": 1, "budget": 1500, "dropout": 0.2},
        "training": {"max_epochs": 6, "batch_size": 8, "lr": 0.01},
        "ablations": {"a": {"axes": {"ssma.selection": ["random", "attention"]}, "fixed": {"ssma.kappa": 2}}},
    }))  # fmt: skip


def spec_of(study, prepared, arm=0, split=1, seed=5, **hyperparameters):
    return fit_spec(
        study["arms"][arm] | {"dataset": "d"}, prepared.card, prepared.splits[split], split, hyperparameters, seed
    )


def comparable(record):
    history = {key: value for key, value in record["history"].items() if key != "seconds"}
    return {key: value for key, value in record.items() if key not in TIMES} | {"history": history}


@pytest.mark.parametrize("arm", [0, 1])
def test_the_same_fit_twice_gives_the_same_record_but_for_times(study, prepared, tmp_path, arm):
    spec = spec_of(study, prepared, arm)
    first = run.run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    second = run.run_fit(Results(tmp_path / "b"), prepared, spec, CPU)
    assert first["status"] == "ok"
    assert comparable(first) == comparable(second)
    other = run.run_fit(Results(tmp_path / "a"), prepared, spec_of(study, prepared, arm, seed=6), CPU)
    assert other["history"]["train_loss"] != first["history"]["train_loss"]


def test_a_record_says_what_was_measured_at_the_best_validation_epoch(study, prepared, tmp_path):
    record = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared), CPU)
    curve = record["history"]["validation_metric"]
    assert record["epochs"] == len(curve) == 6
    assert record["best_epoch"] == max(range(6), key=lambda e: (curve[e], e)) + 1
    assert record["validation"]["accuracy"] == max(curve)
    assert record["parameters"] <= record["budget"] == 1500
    assert record["test"]["accuracy"] == pytest.approx(round(record["test"]["accuracy"] * 11) / 11)
    assert (record["threads"], record["device"], record["deterministic"]) == (torch.get_num_threads(), "cpu", True)
    assert "SSMAAggregation" in record["model"]


def test_a_finished_fit_is_read_and_a_failed_one_is_tried_again(study, prepared, tmp_path, monkeypatch):
    results, spec = Results(tmp_path), spec_of(study, prepared)
    real = run._train

    def out_of_memory(*arguments):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(run, "_train", out_of_memory)
    failed = run.run_fit(results, prepared, spec, CPU)
    assert (failed["status"], failed["reason"], failed["test"]) == ("failed", "OutOfMemoryError: no memory", None)
    monkeypatch.setattr(run, "_train", real)
    assert run.run_fit(results, prepared, spec, CPU)["status"] == "ok"
    monkeypatch.setattr(run, "_train", out_of_memory)
    assert run.run_fit(results, prepared, spec, CPU)["status"] == "ok"
    assert read_record(results.fit(fit_id(spec)))["status"] == "ok"


def test_a_failed_fit_leaves_its_memory_to_the_next_one(study, prepared, tmp_path, monkeypatch):
    """At once: nobody collects garbage for a GPU that is full."""
    networks = []

    def out_of_memory(training, after_epoch):
        networks.append(weakref.ref(training.network))
        raise torch.OutOfMemoryError("of the GPU")

    monkeypatch.setattr(Training, "run", out_of_memory)
    monkeypatch.setattr(run.log, "disabled", True)  # pytest keeps what is logged, and the frames with it
    gc.disable()
    try:
        failed = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared), CPU)
        assert (failed["reason"], [network() for network in networks]) == ("OutOfMemoryError: of the GPU", [None])
    finally:
        gc.enable()


def test_a_reason_has_no_characters_that_a_report_cannot_show(study, prepared, tmp_path, monkeypatch):
    def coloured(*arguments):
        raise OSError("\x1b[31mno\x00 file\r\n\tcaf\udce9 é")

    monkeypatch.setattr(run, "_train", coloured)
    failed = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared), CPU)
    assert failed["reason"] == "OSError: \\x1b[31mno\\x00 file\\r\n\tcaf\\udce9 é"


def test_peak_memory_is_in_mb_on_macos_too(monkeypatch):
    monkeypatch.setattr(run.resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=3 * 2**20))
    for platform, expected in (("linux", 3 * 2**10), ("darwin", 3)):
        monkeypatch.setattr(run.sys, "platform", platform)
        assert run._peak_memory(CPU) == expected


def test_a_killed_fit_continues_as_if_nothing_had_happened(study, prepared, tmp_path, monkeypatch, kill):
    spec = spec_of(study, prepared)
    whole = run.run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    kill(Results(tmp_path / "b"), prepared, spec, epoch=3)
    stopped = datetime.now(UTC)
    monkeypatch.setattr(run, "datetime", SimpleNamespace(now=lambda zone: datetime(2100, 1, 1, tzinfo=zone)))
    epochs = []
    monkeypatch.setattr(Training, "_epoch", lambda self, real=Training._epoch: epochs.append(self.epochs) or real(self))
    resumed = run.run_fit(Results(tmp_path / "b"), prepared, spec, CPU)
    assert epochs == [3, 4, 5]
    assert comparable(resumed) == comparable(whole)
    assert datetime.fromisoformat(whole["started"]) <= datetime.fromisoformat(resumed["started"]) <= stopped
    assert list((tmp_path / "b").glob("fits/*/*.ckpt")) == []


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler")
def test_a_compiled_fit_is_the_same_up_to_rounding_and_says_so(study, prepared, tmp_path):
    spec = spec_of(study, prepared, arm=1)
    run.check_compiler(CPU)
    plain = run.run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    compiled = run.run_fit(Results(tmp_path / "b"), prepared, spec, CPU, compiled=True)
    assert (plain["compiled"], compiled["compiled"]) == (False, True)
    assert compiled["model"] == plain["model"].replace("compiled=False", "compiled=True") != plain["model"]
    assert compiled["history"]["train_loss"] == pytest.approx(plain["history"]["train_loss"], rel=1e-4)
    assert (compiled["id"], compiled["status"]) == (plain["id"], "ok")


def test_a_fit_without_a_product_is_not_said_to_be_compiled(study, prepared, tmp_path):
    spec = spec_of(study, prepared, **{"ssma.mixing": "sum"})
    record = run.run_fit(Results(tmp_path), prepared, spec, CPU, compiled=True)
    assert (record["status"], record["compiled"]) == ("ok", False)
    assert "mixing=sum" in record["model"] and "compiled=True" not in record["model"]


def test_a_study_that_cannot_be_compiled_is_refused_before_its_fits(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no compiler is there")

    monkeypatch.setattr(run, "SSMAAggregation", refuse)
    with pytest.raises(StudyError, match="compiled: true was asked for; no compiler is there"):
        run.check_compiler(CPU)


def test_an_unreadable_checkpoint_costs_its_epochs_only(study, prepared, tmp_path):
    spec = spec_of(study, prepared)
    checkpoint = Results(tmp_path).fit(fit_id(spec)).with_suffix(".ckpt")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"half a file")
    assert run.run_fit(Results(tmp_path), prepared, spec, CPU)["status"] == "ok"


def test_a_checkpoint_with_a_changed_bit_is_not_continued(study, prepared, tmp_path, caplog, kill):
    """torch reads over it: the fit went on from another weight, and its record was ok."""
    spec = spec_of(study, prepared)
    whole = run.run_fit(Results(tmp_path / "a"), prepared, spec, CPU)
    kill(Results(tmp_path / "b"), prepared, spec, epoch=3)
    checkpoint = Results(tmp_path / "b").fit(whole["id"]).with_suffix(".ckpt")
    with zipfile.ZipFile(checkpoint) as parts:
        weights = max(parts.infolist(), key=lambda part: part.file_size if "/data/" in part.filename else 0)
        with parts.open(weights) as content:
            held = content.read()
    written = checkpoint.read_bytes()
    place = written.index(held) + 3  # sign and exponent of the first number
    checkpoint.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
    assert comparable(run.run_fit(Results(tmp_path / "b"), prepared, spec, CPU)) == comparable(whole)
    assert f"{checkpoint} cannot be read (Bad CRC-32 for file {weights.filename!r}); the fit starts" in caplog.text


def test_a_full_disk_costs_no_training_and_leaves_no_half_checkpoint(study, prepared, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(run, "CHECKPOINT_SECONDS", 0)
    spec = spec_of(study, prepared)

    def replace(path, target):
        if target.suffix == ".ckpt":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(path, target)

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", replace)
        record = run.run_fit(Results(tmp_path / "full"), prepared, spec, CPU)
    assert comparable(record) == comparable(run.run_fit(Results(tmp_path / "free"), prepared, spec, CPU))
    path = Results(tmp_path / "full").fit(record["id"])
    told = f"{path.with_suffix('.ckpt')}: cannot be written (No space left on device); the fit goes on"
    assert caplog.text.count(told) == 1  # the next try is a minute later
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("what", ["code", "threads", "versions"])
def test_a_checkpoint_that_was_made_otherwise_is_not_continued(
    study, prepared, tmp_path, monkeypatch, caplog, kill, what
):
    """The record names what made the fit: it would be true of the last epochs alone, and a rerun would differ."""
    spec = spec_of(study, prepared)
    kill(Results(tmp_path), prepared, spec)
    other = {"code": "other", "threads": torch.get_num_threads() + 1, "versions": run._versions() | {"torch": "1.0"}}
    names = {"code": "code_fingerprint", "threads": "torch.get_num_threads", "versions": "_versions"}
    monkeypatch.setattr(f"ssma.fit.run.{names[what]}", lambda: other[what])
    epochs = []
    monkeypatch.setattr(Training, "_epoch", lambda self, real=Training._epoch: epochs.append(self.epochs) or real(self))
    record = run.run_fit(Results(tmp_path), prepared, spec, CPU)
    assert (record["status"], record[what], epochs) == ("ok", other[what], [0, 1, 2, 3, 4, 5])
    assert f"was made by other {what}; the fit starts from its first epoch" in caplog.text


def test_test_data_that_cannot_be_measured_change_no_status(study, prepared, tmp_path):
    """The search must not learn from the test set, not even that its metric is infinite."""
    spec = spec_of(study, prepared)
    x, owner = prepared.graphs.x.clone(), torch.repeat_interleave(torch.arange(33), prepared.graphs.node_ptr.diff())
    x[torch.isin(owner, torch.tensor(prepared.splits[1]["test"]))] = 3e38
    wild = dataclasses.replace(prepared, graphs=dataclasses.replace(prepared.graphs, x=x))
    record = run.run_fit(Results(tmp_path), wild, spec, CPU)
    assert (record["status"], record["test"]) == ("ok", {"loss": None, "accuracy": None})
    assert record["validation"]["accuracy"] is not None


def test_a_budget_that_fits_nothing_is_said_without_a_traceback(study, prepared, tmp_path, caplog):
    record = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared, **{"model.budget": 20}), CPU)
    assert record["status"] == "failed"
    assert record["reason"].startswith("model.budget: 20 parameters are too few")
    assert all(entry.exc_info is None for entry in caplog.records)


def test_a_diverged_fit_has_no_numbers(study, prepared, tmp_path):
    record = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared, **{"training.lr": 1e30}), CPU)
    assert record["status"] == "diverged"
    assert "loss was" in record["reason"]
    assert (record["train"], record["validation"], record["test"]) == (None, None, None)


def test_a_time_limit_is_kept_and_recorded(study, prepared, tmp_path):
    record = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared, **{"training.max_minutes": 1e-9}), CPU)
    assert (record["status"], record["epochs"], record["test"]) == ("timeout", 1, None)


def test_a_fit_whose_last_epoch_passes_the_time_limit_has_ended(study, prepared, tmp_path):
    settings = {"training.max_minutes": 1e-9, "training.max_epochs": 1}
    record = run.run_fit(Results(tmp_path), prepared, spec_of(study, prepared, **settings), CPU)
    assert (record["status"], record["epochs"]) == ("ok", 1) and record["test"]["accuracy"] is not None


def test_a_fit_that_continues_beyond_its_time_limit_trains_no_more(prepared, monkeypatch):
    training = scripted_training(monkeypatch, prepared, [0.5] * 4, {"max_minutes": 1.0})
    training.history["seconds"].append(61.0)  # of an epoch after which the fit was killed
    assert training.run(lambda t: None)[0] == "timeout" and training.epochs == 0


def test_everything_that_changes_a_number_changes_the_id(study, prepared):
    specs = [
        spec_of(study, prepared),
        spec_of(study, prepared, arm=1),
        spec_of(study, prepared, split=0),
        spec_of(study, prepared, seed=6),
        spec_of(study, prepared, **{"training.lr": 0.02}),
        spec_of(study, prepared, **{"ssma.kappa": 3}),
        spec_of(study, prepared, **{"model.dropout": 0.0}),
    ]
    assert len({fit_id(spec) for spec in specs}) == len(specs)
    assert fit_id(specs[0]) == fit_id(spec_of(study, prepared, **{"training.lr": 0.01}))


class Scripted(torch.nn.Module):
    """Answers the same for every graph, its weights."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))

    def forward(self, batch):
        return self.weight.expand(batch.num_graphs, 2)


def scripted_training(monkeypatch, prepared, curve, settings=None, direction="maximize", losses=None):
    """Trains for nothing: validation scores are scripted, epoch by epoch."""
    batches = Batches(prepared.graphs, list(range(6)), 6, "graph")
    options = {"lr": 1.0, "weight_decay": 0.0, "max_epochs": len(curve), "plateau_factor": 0.5, "plateau_patience": 1,
               "min_lr": 0.2, "max_minutes": None}  # fmt: skip
    training = Training(Scripted(), batches, [], Task("cross_entropy", "m", direction), options | (settings or {}), 0)
    scores = iter(
        [{"loss": loss, "m": value} for value, loss in zip(curve, losses or range(len(curve), 0, -1), strict=True)]
    )
    monkeypatch.setattr("ssma.fit.training.evaluate", lambda *a: next(scores))
    return training


@pytest.mark.parametrize(
    ("curve", "direction", "best"),
    [([0.6, 0.9, 0.7], "maximize", 2), ([0.6, 0.9, 0.9, 0.1], "maximize", 3), ([0.6, 0.2, 0.4], "minimize", 2)],
)
def test_best_epoch_is_the_best_validation_metric_and_of_equals_the_later(
    prepared, monkeypatch, curve, direction, best
):
    training = scripted_training(monkeypatch, prepared, curve, direction=direction)
    assert training.run(lambda t: None) == ("ok", None)
    assert training.best["epoch"] == best


def test_what_is_minimised_is_the_mean_over_the_labels_that_are_known(prepared, monkeypatch):
    monkeypatch.setattr("ssma.fit.training.adamw", lambda network, **_: torch.optim.SGD(network.parameters(), lr=1.0))
    training = scripted_training(monkeypatch, prepared, [0.5])
    labels = torch.tensor([[1.0, math.nan], [math.nan, 1.0], [1.0, 0.0]])
    training.train = SimpleNamespace(epoch=lambda order: [SimpleNamespace(num_graphs=3, y=labels)])
    training.task = Task("bce", "m", "maximize")
    training.run(lambda t: None)
    assert training.network.weight.tolist() == [(0.5 + 0.5) / 4, (0.5 - 0.5) / 4]  # of four labels, not of three graphs
    assert training.history["train_loss"] == pytest.approx([math.log(2)])


def test_each_epoch_has_an_order_and_random_numbers_of_its_own(prepared, monkeypatch):
    training, seeds = scripted_training(monkeypatch, prepared, [0.5] * 3), []
    batches = training.train

    def epoch(order):
        seeds.append((order.initial_seed(), torch.initial_seed()))
        return batches.epoch(order)

    training.train = SimpleNamespace(epoch=epoch)
    training.run(lambda t: None)
    assert [len(set(each)) for each in zip(*seeds, strict=True)] == [3, 3]


def test_the_rate_is_halved_on_a_plateau_and_training_ends_below_its_floor(prepared, monkeypatch):
    training = scripted_training(monkeypatch, prepared, [0.5] * 40, losses=[1.0] * 40)
    training.run(lambda t: None)
    assert training.history["lr"] == [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    falls = scripted_training(monkeypatch, prepared, [0.5] * 7, {"weight_decay": 0.25})
    falls.run(lambda t: None)
    assert falls.history["lr"] == [1.0] * 7  # the validation loss falls, whatever that of training does
    assert falls.optimizer.param_groups[0]["weight_decay"] == 0.25


@pytest.mark.parametrize("floor", [3e-5, 3e-5 * (1 + 1e-15)])
def test_a_rate_at_its_floor_is_trained_with_although_rounding_puts_it_below(prepared, monkeypatch, floor):
    settings = {"lr": 3e-4, "plateau_factor": 0.1, "min_lr": floor}
    assert settings["lr"] * settings["plateau_factor"] < 3e-5
    training = scripted_training(monkeypatch, prepared, [0.5] * 40, settings, losses=[1.0] * 40)
    training.run(lambda t: None)
    assert training.history["lr"] == [3e-4] * 3 + [3e-5] * 2


def test_a_tiny_rate_is_cut_too(prepared, monkeypatch):
    settings = {"lr": 4e-8, "min_lr": 2e-9}
    training = scripted_training(monkeypatch, prepared, [0.5] * 40, settings, losses=[1.0] * 40)
    training.run(lambda t: None)
    assert training.history["lr"] == [4e-8] * 3 + [2e-8] * 2 + [1e-8] * 2 + [5e-9] * 2 + [2.5e-9] * 2


def test_metrics_do_not_depend_on_the_batch_size(prepared):
    torch.manual_seed(0)

    class Mean(torch.nn.Module):
        def forward(self, batch):
            total = torch.zeros(batch.num_graphs, batch.x.size(1)).index_add(0, batch.batch, batch.x)
            return total[:, :2]

    for size in (1, 7, 32, 33):
        scores = evaluate(
            Mean(), list(Batches(prepared.graphs, list(range(33)), size, "graph").epoch()), "cross_entropy", "accuracy"
        )
        if size == 1:
            first = scores
        assert scores["accuracy"] == first["accuracy"]
        assert scores["loss"] == pytest.approx(first["loss"], rel=1e-6)


def test_losses_and_metrics_by_hand():
    nan = math.nan
    output, y = torch.tensor([[2.0, -1.0], [0.0, 3.0]]), torch.tensor([[1.0, nan], [0.5, 0.0]])
    loss, count = loss_terms("l1", output, y)
    assert (loss.item(), count) == (1.0 + 0.5 + 3.0, 3)
    assert metric_value("mae", output, y) == 1.5
    assert metric_value("accuracy", output, torch.tensor([0, 0])) == 0.5
    labels = torch.tensor([[1.0, 0.0], [0.0, nan], [1.0, 0.0]])
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.9], [0.1, 0.2]])
    # column 0: ranks 1 and 3 are positive: (1/1 + 2/3) / 2; column 1 has one class only
    assert metric_value("ap", scores, labels) == pytest.approx((1 + 2 / 3) / 2)
    with pytest.raises(ValueError, match="ap is undefined"):
        metric_value("ap", scores[:, 1:], labels[:, 1:])


def test_missing_labels_have_no_gradient_and_an_unlabelled_batch_is_harmless():
    output = torch.zeros(3, 2, requires_grad=True)
    y = torch.tensor([[1.0, math.nan], [math.nan, 0.0], [math.nan, math.nan]])
    loss, count = loss_terms("bce", output, y)
    (loss / count).backward()
    assert count == 2
    assert output.grad.ne(0).tolist() == [[True, False], [False, True], [False, False]]
    loss, count = loss_terms("bce", output, torch.full((3, 2), math.nan))
    assert (loss.item(), count) == (0.0, 0)


@pytest.mark.parametrize("shape", [(4,), (4, 2), (1, 4)])
def test_labels_are_never_broadcast(shape):
    with pytest.raises(ValueError, match="labels have the shape"):
        loss_terms("l1", torch.zeros(4, 1), torch.zeros(shape))


def test_device_names():
    assert run.pick_device("cpu") == CPU
    if not torch.cuda.is_available():
        assert run.pick_device("auto") == CPU
        with pytest.raises(StudyError, match="no GPU; use 'cpu' or 'auto', or install a CUDA build"):
            run.pick_device("cuda")


@pytest.mark.parametrize(
    ("build", "told"),
    [("cuda", "nvidia-smi shows one and a driver for CUDA"), ("hip", "rocm-smi shows one and a driver for ROCm")],
)
def test_a_gpu_that_a_cuda_build_does_not_find_is_not_said_to_want_one(monkeypatch, build, told):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(f"torch.version.{build}", "12.8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(StudyError, match=rf"no GPU; .*{told} 12\.8, and that CUDA_VISIBLE_DEVICES=7 names it$"):
        run.pick_device("cuda")
