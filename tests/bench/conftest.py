from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ssma.bench import measure
from ssma.cli import main


@pytest.fixture
def quick_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Callable[[str], Path]:
    """Runs a benchmark's small grid without a mirror, on one thread, with three repeats of one call; returns its folder."""

    def run(what: str) -> Path:
        monkeypatch.delenv("SSMA_DATA_MIRROR", raising=False)
        monkeypatch.setattr(measure.interleaved, "__defaults__", (3, 3))
        monkeypatch.setattr(measure, "TURN_SECONDS", 0.0)
        threads = torch.get_num_threads()
        try:
            assert main(["bench", what, "--quick", "--device", "cpu", "--threads", "1", "--out", str(tmp_path)]) == 0
        finally:
            torch.set_num_threads(threads)
        assert str(tmp_path / f"{what}.md") in capsys.readouterr().out
        return tmp_path

    return run
