from collections.abc import Callable
from typing import Any

import pytest
import torch

from ssma.data.prepare import Prepared, load, prepare
from ssma.fit import run
from ssma.study.paths import Results


@pytest.fixture(scope="module")
def prepared(study: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The data set ``d`` of a module's plan ``study``."""
    folder = tmp_path_factory.mktemp("data")
    prepare(folder, study["datasets"]["d"], None)
    return load(folder)


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a fit that is killed when the checkpoint of an epoch is written; fits write one after each epoch."""
    monkeypatch.setattr(run, "CHECKPOINT_SECONDS", 0)

    def start(
        results: Results, prepared: Prepared, spec: dict[str, Any], epoch: int = 1, device: str | torch.device = "cpu"
    ) -> None:
        def killed(self: Any, training: Any, save: Callable[..., None] = run._Saver.__call__) -> None:
            save(self, training)
            if training.epochs == epoch:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(run._Saver, "__call__", killed)
            with pytest.raises(KeyboardInterrupt):
                run.run_fit(results, prepared, spec, torch.device(device))

    return start
