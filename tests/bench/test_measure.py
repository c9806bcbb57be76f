"""Times are taken in turns, memory is exact, and what is too large is not run."""

import time

import pytest
import torch

from ssma.bench import measure
from ssma.bench.measure import Limits, Measured, Work, interleaved, module_work, peak_bytes, seconds_of

CPU = torch.device("cpu")


def three_tensors():
    first = torch.zeros(1000)
    second = torch.zeros(2000)
    del first
    third = torch.zeros(500)
    return second, third


def larger_at_the_end():
    first = torch.zeros(1000)
    del first
    second, third = torch.zeros(2000), torch.zeros(1500)
    return second, third


@pytest.mark.parametrize(("call", "floats"), [(three_tensors, 3000), (larger_at_the_end, 3500)])
def test_peak_memory_is_the_peak_of_the_running_sum(call, floats):
    assert peak_bytes(Work(call), CPU) == 4 * floats


def test_peak_memory_of_a_backward_pass_counts_activations_and_gradients_but_no_inputs():
    class Double(torch.nn.Module):
        def forward(self, x):
            return x + x

    n = 100_000
    x, upper = torch.randn(n), torch.ones(n)
    assert peak_bytes(module_work(Double(), x), CPU) == 4 * n
    backward = peak_bytes(module_work(Double(), x, upper=upper), CPU)
    assert backward == 8 * n  # the result and the gradient


def test_reset_comes_before_every_call_and_gradients_do_not_pile_up():
    linear = torch.nn.Linear(3, 2)
    work = module_work(linear, torch.ones(4, 3), upper=torch.ones(4, 2))
    for _ in range(3):
        seconds_of(work, CPU)
    torch.testing.assert_close(linear.weight.grad, torch.full((2, 3), 4.0))


def test_forward_work_makes_no_graph():
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x):
            seen.append(torch.is_grad_enabled())
            return x

    module_work(Spy(), torch.ones(2)).run()
    assert seen == [False]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(("budget", "rounds"), [(0.0, 3), (1e9, 6)])
def test_calls_take_turns_after_one_warm_up(budget, rounds, monkeypatch):
    monkeypatch.setattr(measure, "TURN_SECONDS", 0.0)
    calls = []
    works = {name: Work(lambda name=name: calls.append(name)) for name in "ab"}
    times = interleaved(works, CPU, budget, least=3, most=6)
    assert calls == ["a", "b"] * (rounds + 1)
    assert [len(times[name]) for name in "ab"] == [rounds, rounds]


def test_a_turn_is_calls_in_a_row_and_counts_as_their_mean(monkeypatch):
    monkeypatch.setattr(measure, "seconds_of", lambda work, device: work.run())
    calls, seconds = [], {"a": iter([0.03, 0.02, 0.05, 0.04, 0.06, 0.05, 0.12]), "b": iter([0.2] * 4)}
    works = {name: Work(lambda name=name: calls.append(name) or next(seconds[name])) for name in "ab"}
    times = interleaved(works, CPU, budget=1.0, least=1)  # a round is forecast as 0.1 s of a and one call of b: 3 fit
    assert "".join(calls) == "ab" + "aaab" + "aab" + "ab"
    assert times == {"a": pytest.approx([0.11 / 3, 0.11 / 2, 0.12]), "b": pytest.approx([0.2] * 3)}


def test_seconds_are_those_of_the_call_alone():
    work = Work(lambda: time.sleep(0.02), reset=lambda: time.sleep(0.2))
    assert 0.02 <= seconds_of(work, CPU) < 0.1


def test_a_forecast_is_linear_in_the_nodes():
    assert Measured(100, 1000, 0.5).scaled(250) == Measured(250, 2500, 1.25)


@pytest.mark.parametrize(
    ("bytes_", "seconds", "reason"),
    [
        (600, 60, None),
        (601, 1, "not run: needs about 6e-07 GB / 1 s"),
        (1, 61, "not run: needs about 1e-09 GB / 61 s"),
    ],
)
def test_what_exceeds_a_limit_is_refused_with_its_forecast(bytes_, seconds, reason):
    assert Limits(0.6, 60).refusal(Measured(1, bytes_, seconds), available=1000) == reason
