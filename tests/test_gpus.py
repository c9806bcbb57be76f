"""Which GPU a job takes. The GPUs are made up, the locks are real."""

import os
from types import SimpleNamespace

import pytest
import torch

from ssma.aggr.registry import imported
from ssma.errors import StudyError
from ssma.gpus import take_gpu
from ssma.rerun import rerun
from ssma.study.paths import Results


@pytest.fixture
def chosen(monkeypatch, tmp_path):
    """Two GPUs of which torch sees both; returns the list of those that were made the current one."""
    found = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("torch.cuda.init", lambda: None)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: SimpleNamespace(uuid=f"GPU-{number}"))
    monkeypatch.setattr("torch.cuda.set_device", found.append)
    monkeypatch.setattr("torch.ones", lambda size, device: torch.full((size,), 1.0))
    return found


def test_jobs_side_by_side_get_different_gpus_and_share_them_in_turn(chosen):
    locks = [take_gpu() for _ in range(5)]
    assert chosen == [0, 1, 0, 1, 0]
    os.close(locks[1])
    locks[1] = take_gpu()
    assert chosen[5:] == [1]
    for lock in locks:
        os.close(lock)


def test_a_gpu_on_which_nothing_can_be_computed_is_left_out(chosen, monkeypatch, caplog):
    """As one that torch has no kernels for, beside one that it has: each fit of the second job failed of it."""
    error, usable = "CUDA error: no kernel image is available for execution on the device", [1]

    def ones(size, device):
        if chosen[-1] not in usable:
            raise RuntimeError(f"{error}\nCompile with TORCH_USE_CUDA_DSA")
        return torch.full((size,), 1.0)

    monkeypatch.setattr("torch.ones", ones)
    locks = [take_gpu() for _ in range(2)]
    assert chosen == [0, 1, 0, 1]
    assert caplog.messages == [f"GPU 0: {error}; it is left out"] * 2
    usable.clear()
    with pytest.raises(
        StudyError, match=rf"^no GPU can be used \(GPU 1: {error}\); see that torch .* or set device: cpu$"
    ):
        take_gpu()
    for lock in locks:
        os.close(lock)


def test_of_gpus_cut_by_mig_those_count_that_cuda_shows(chosen, monkeypatch):
    """Asked before CUDA is started, torch counts the uncut ones, and ended in an AssertionError."""
    count = [8]
    monkeypatch.setattr("torch.cuda.init", lambda: count.append(1))
    monkeypatch.setattr("torch.cuda.device_count", lambda: count[-1])

    def properties(number):
        assert number == 0, "Invalid device id"
        return SimpleNamespace(uuid="MIG-0")

    monkeypatch.setattr("torch.cuda.get_device_properties", properties)
    os.close(take_gpu())
    assert chosen == [0]


def test_a_gpu_is_known_by_itself_and_not_by_its_number(chosen, monkeypatch):
    """CUDA_VISIBLE_DEVICES=1 makes the second GPU the number 0."""
    first = take_gpu()
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: SimpleNamespace(uuid="GPU-1"))
    second = take_gpu()
    monkeypatch.undo()
    assert chosen == [0, 0]
    assert {os.readlink(f"/proc/self/fd/{lock}").rpartition("/")[2] for lock in (first, second)} == {
        "GPU-0-0",
        "GPU-1-0",
    }
    os.close(first)
    os.close(second)


def test_the_module_of_a_class_moves_a_job_to_no_other_gpu(chosen, monkeypatch, tmp_path):
    """As one that also trains does: torch.cuda.set_device(0)."""
    (tmp_path / "moving.py").write_text("import torch\n\ntorch.cuda.set_device(0)\n\n\nclass Own:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: chosen[-1])
    locks = [take_gpu(), take_gpu()]
    assert imported("moving.Own").__name__ == "Own"
    assert chosen == [0, 1, 0, 1]
    for lock in locks:
        os.close(lock)


def test_a_rerun_leaves_a_gpu_to_the_job_that_has_it(chosen, monkeypatch, tmp_path):
    lock, devices = take_gpu(), []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("ssma.rerun.run_fit", lambda *arguments: devices.append(arguments[3].type))
    monkeypatch.setattr("ssma.rerun.load", lambda _: SimpleNamespace(card={"data_hash": "h"}))
    record = {"id": "f", "spec": {"dataset": "d", "data_hash": "h", "class": None}, "threads": torch.get_num_threads()}
    assert len(list(rerun(Results(tmp_path), [record, record], "auto"))) == 2
    assert (chosen, devices) == ([0, 1], ["cuda", "cuda"])
    os.close(lock)
