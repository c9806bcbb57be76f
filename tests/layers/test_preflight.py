"""An installation that lacks something is said before anything is trained."""

import pytest
import torch

from ssma.errors import StudyError
from ssma.layers.preflight import preflight
from ssma.study.settings import AGGREGATORS


def arm(name, path=None):
    return {"aggregator": name, "class": path}


def test_every_aggregator_passes():
    preflight(arm(name) for name in AGGREGATORS)


def test_a_torch_without_fft(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("fft: ATen not compiled with FFT support")

    monkeypatch.setattr(torch.fft, "rfft2", broken)
    preflight([arm("sum")])
    with pytest.raises(StudyError, match="aggregator ssma cannot run with this installation .* not compiled with FFT"):
        preflight([arm("sum"), arm("ssma")])


@pytest.mark.parametrize("error", [AttributeError, OSError, NotImplementedError])
def test_an_operator_or_a_library_that_is_absent(monkeypatch, error):
    def absent(*_, **__):
        raise error("no such operator")

    monkeypatch.setattr(torch, "lstm", absent)
    with pytest.raises(StudyError, match="aggregator lstm cannot run with this installation .* no such operator"):
        preflight([arm("lstm")])


def test_a_class_of_the_user_fails_later_and_alone():
    preflight([arm("mine", "no_such_module.Mine")])
