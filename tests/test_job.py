"""What a job looks for, and sets, before it trains."""

import platform
import subprocess
import sys

import pytest

from ssma.data.prepare import prepare
from ssma.job import Job, Watcher
from ssma.study.config import parse_study
from ssma.study.lookup import named_arm
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import write_record

STUDY = {
    "study": "s",
    "device": "cpu",
    "compiled": True,
    "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 30}},
    "layers": ["gcn"],
    "ablations": {
        "fixed": {"axes": {"ssma.mixing": ["convolution", "sum"]}},
        "searched": {"axes": {"aggregator": ["sum", "ssma"]}},
    },
    "tune": {"trials": 2, "space": {"training.lr": [0.1, 0.2], "ssma.mixing": ["product", "sum"]}},
}


@pytest.mark.parametrize(
    ("label", "looked_for"),
    [("(mixing=convolution)", True), ("(mixing=sum)", False), ("d / gcn / sum", False), ("searched", True)],
)
def test_a_compiler_is_looked_for_where_slots_may_be_multiplied(tmp_path, monkeypatch, label, looked_for):
    checked = []
    monkeypatch.setattr("ssma.job.check_compiler", checked.append)
    plan, results = make_plan(parse_study(STUDY)), Results(tmp_path)
    write_record(results.plan, plan)
    dataset = plan["datasets"]["d"]
    prepare(results.data(dataset["id"]), dataset, None)
    arm = plan["ablations"]["searched"]["cells"][1]["arm"] if label == "searched" else named_arm(plan, label)["id"]
    Job.open(results.plan, arm, 1)
    assert [device.type for device in checked] == ["cpu"] * looked_for


def test_the_time_left_counts_what_fits_took_that_were_trained_before(caplog):
    """After a kill they come from disk at once, which says nothing of those to come."""
    caplog.set_level("INFO")
    watcher = Watcher({}, None, fits=5)
    record = {"metric": "mae", "validation": {"mae": 0.5}, "epochs": 9, "reason": None, "seconds": 1200.0}
    watcher.trained(record, {}, 0)
    watcher.trained(record | {"validation": None, "reason": "out of memory", "seconds": None}, {}, 1)
    assert [entry.message.split(", ")[-1] for entry in caplog.records] == ["about 80 min left", "about 30 min left"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the GNU C library alone is told what to keep")
def test_freed_memory_is_kept():
    """The 16 MiB of a tensor that is gone, which the C library gives back by default."""
    program = """
import mmap, torch
from pathlib import Path
from ssma.job import keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

keep_freed_memory()
before = resident()
torch.ones(2**22)
print(resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 15 * 2**20
