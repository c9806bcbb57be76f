"""What the theory experiments compute, against hand-made values, plain loops and published statements."""

import itertools
import math

import pytest
import torch

from ssma.aggr import SSMAAggregation
from ssma.study.theory import HigherOrder, Mixing, Separation, SumOfGram
from ssma.theory import higher_order, mixing, separation, sum_of_gram, training
from ssma.theory.training import (
    ACTIVATIONS,
    SetNetwork,
    draw_sets,
    exact_solution,
    l1,
    signal_width,
    train,
)

SMALL = {"train_sets": 40, "test_sets": 30, "epochs": 2, "batch_size": 20, "seeds": 2}


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_sum_of_the_gram_matrix_by_hand_and_its_exact_solution():
    x = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [-3.0, 1.0]]])
    assert sum_of_gram_of(x) == [5.0, 8.0]  # |(1, 2)|^2 and |(-2, 2)|^2
    assert exact_solution(x).tolist() == [5.0, 8.0]
    x = normal(50, 4, 3)
    loops = [sum(float(a @ b) for a in vectors for b in vectors) for vectors in x]
    assert sum_of_gram_of(x) == pytest.approx(loops, abs=1e-12)
    assert exact_solution(x).tolist() == pytest.approx(loops, abs=1e-12)


def sum_of_gram_of(x):
    return training.sum_of_gram(x).tolist()


@pytest.mark.parametrize(("m", "n", "width"), [(4, 3, 1), (15, 3, 1), (16, 3, 2), (64, 3, 6), (256, 3, 22), (64, 7, 2)])
def test_the_signal_is_as_wide_as_its_representation_may_be(m, n, width):
    assert signal_width(m, n) == width
    size = [(n + 1) * (n * (w - 1) + 1) for w in (width, width + 1)]
    assert size[0] <= m < size[1]
    aggr = SetNetwork("ssma", 2, n, m, "tanh").aggr
    assert aggr.m1 * aggr.m2 == size[0] and aggr.rank is None and aggr.kappa == n


def test_repeats_share_data_and_nothing_is_random():
    settings = SumOfGram(**SMALL, m=[4]).model_dump()
    first, second = draw_sets(settings, 0, 0), draw_sets(settings, 0, 1)
    assert torch.equal(first[0], draw_sets(settings, 0, 0)[0])
    assert not torch.equal(first[0], second[0]) and not torch.equal(first[1], first[2])
    assert sum_of_gram.run(settings, 0) == sum_of_gram.run(settings, 0) != sum_of_gram.run(settings, 1)


def test_rows_have_every_network_and_both_lines():
    settings = SumOfGram(**SMALL, m=[4, 16], activations=["tanh"]).model_dump()
    rows = sum_of_gram.run(settings, 3)
    networks = [(row["aggregator"], row["m"], row["repeat"]) for row in rows if row["activation"] == "tanh"]
    assert sorted(networks) == sorted(itertools.product(("sum", "ssma"), (4, 16), (0, 1)))
    for repeat in (0, 1):
        sets, _, tests = draw_sets(settings, 3, repeat)
        lines = {row["aggregator"]: row for row in rows if row["repeat"] == repeat and row["activation"] is None}
        assert lines["exact solution"]["train_l1"] < 1e-12 and lines["exact solution"]["test_l1"] < 1e-12
        targets, mean = sum_of_gram_of(tests.double()), sum(sum_of_gram_of(sets.double())) / 40
        expected = sum(abs(target - mean) for target in targets) / 30
        assert lines["train mean"]["test_l1"] == pytest.approx(expected, rel=1e-12)
    sum_16 = next(row for row in rows if (row["aggregator"], row["m"]) == ("sum", 16))
    assert (sum_16["width"], sum_16["parameters"]) == (16, 16 * 4 + 16 * 17 + 17)


def test_a_row_has_the_errors_of_its_network_in_units_of_the_target():
    settings = SumOfGram(**SMALL).model_dump()
    network, row = train(settings, "sum", "tanh", 8, 0, 0)
    sets, _, tests = draw_sets(settings, 0, 0)
    guess = network(tests).squeeze(1).tolist()
    by_hand = sum(abs(a - b) for a, b in zip(guess, sum_of_gram_of(tests), strict=True)) / 30
    assert row["test_l1"] == pytest.approx(by_hand, rel=1e-5) and row["train_l1"] == l1(network, sets)


def test_a_sum_with_squares_finds_the_solution():
    settings = SumOfGram(train_sets=300, test_sets=200, epochs=100, batch_size=50, lr=[0.01]).model_dump()
    _, row = train(settings, "sum", "square", 16, 0, 0)
    assert row["test_l1"] < 0.3  # the target's mean is 9


def test_a_training_that_diverges_is_a_row_without_errors():
    settings = SumOfGram(**SMALL | {"epochs": 20}, lr=[1e20]).model_dump()
    _, row = train(settings, "sum", "square", 8, 0, 0)
    assert (row["status"], row["train_l1"], row["test_l1"]) == ("diverged", None, None)


def test_the_learning_rate_is_chosen_on_validation_multisets():
    settings = SumOfGram(**SMALL, lr=[1e20, 1e-6, 0.01]).model_dump()
    network, row = train(settings, "sum", "tanh", 8, 0, 0)
    assert row["lr"] == 0.01
    errors = {}
    for lr in (1e-6, 0.01):
        alone, single = train(settings | {"lr": [lr]}, "sum", "tanh", 8, 0, 0)
        errors[lr] = l1(alone, draw_sets(settings, 0, 0).validation)
    assert errors[0.01] < errors[1e-6] and single == row
    assert torch.equal(network.head_1.weight, alone.head_1.weight)


def test_mixing_of_known_functions():
    x = normal(5, 3, 2)
    matrix = torch.tensor([[3.0, 0.0], [0.0, -4.0]], dtype=torch.float64)
    functions = {
        "linear in the sum": (lambda x: x.sum(1)[:, :1], [0, 0, 0]),
        "a sum of squares": (lambda x: x.square().sum((1, 2)).unsqueeze(1), [0, 0, 0]),
        "bilinear in the first two": (lambda x: torch.einsum("bi,ij,bj->b", x[:, 0], matrix, x[:, 1])[:, None], [4, 0, 0]),
        "product of first entries, 0 and 2": (lambda x: (x[:, 0, :1] * x[:, 2, :1]), [0, 1, 0]),
        "all entries of the Gram matrix": (lambda x: (x @ x.mT).sum((1, 2))[:, None], [2, 2, 2]),
        "those above its diagonal": (lambda x: (x @ x.mT).triu(1).sum((1, 2))[:, None], [1, 1, 1]),
    }  # fmt: skip
    for name, (function, expected) in functions.items():
        found = mixing.mixing(function, x)
        assert found.shape == (5, 1, 3)
        assert torch.allclose(found[:, 0], torch.tensor([expected] * 5, dtype=torch.float64), atol=1e-12), name


def test_mixing_of_ssma_is_that_of_the_fast_operator():
    """Differences of the fast operator's gradients, which is another path through other code."""
    torch.manual_seed(0)
    network = SetNetwork("ssma", 2, 3, 40, "tanh").double()
    x, step = normal(4, 3, 2), 1e-5

    def gradient(x):
        x = x.clone().requires_grad_()
        network(x).sum().backward()
        return x.grad

    blocks = torch.zeros(4, 3, 2, 3, 2, dtype=torch.float64)
    for i, a in itertools.product(range(3), range(2)):
        moved = torch.zeros_like(x)
        moved[:, i, a] = step
        blocks[:, i, a] = (gradient(x + moved) - gradient(x - moved)) / (2 * step)
    expected = [[torch.linalg.matrix_norm(blocks[b, i, :, j], ord=2).item() for i, j in ((0, 1), (0, 2), (1, 2))] for b in range(4)]  # fmt: skip
    found = mixing.mixing(mixing.twice_differentiable(network), x)[:, 0]
    assert min(found.flatten()) > 1e-3
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-8)


def test_the_bound_is_attained_by_scalars_and_holds_for_vectors():
    for d, m, tight in ((1, 1, True), (3, 8, False)):
        for activation in ("tanh", "sigmoid", "softplus", "sine", "silu", "gelu", "square"):
            torch.manual_seed(1)
            network = SetNetwork("sum", d, 3, m, activation).double()
            x = normal(20, 3, d)
            mix, limit = mixing.mixing(network, x)[:, 0], mixing.bound(network, x)
            assert torch.all(mix <= limit * (1 + 1e-9) + 1e-12)
            assert torch.allclose(mix, limit, rtol=1e-9) == tight
            of_weights = mixing.weights_bound(network, activation)
            assert of_weights is None or torch.all(limit <= of_weights)


def test_the_bound_by_weights_is_of_degree_five():
    network = SetNetwork("sum", 1, 2, 1, "tanh").double()
    with torch.no_grad():
        for linear, value in ((network.encoder, 2.0), (network.head_1, 3.0), (network.head_2, -5.0)):
            linear.weight.fill_(value)
    by_hand = 4 / (3 * math.sqrt(3)) * 5 * 3**2 * 2**2
    assert mixing.weights_bound(network, "tanh") == pytest.approx(by_hand, rel=1e-12)
    assert mixing.weights_bound(network, "relu") is None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 2
    assert mixing.weights_bound(network, "tanh") == pytest.approx(32 * by_hand, rel=1e-12)


@pytest.mark.parametrize("activation", mixing.DERIVATIVE_BOUNDS)
def test_the_bounds_of_derivatives_are_the_smallest(activation):
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64).requires_grad_()
    (first,) = torch.autograd.grad(ACTIVATIONS[activation](x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    found = (first.abs().max().item(), second.abs().max().item())
    assert found == pytest.approx(mixing.DERIVATIVE_BOUNDS[activation], rel=1e-6)


def test_a_sum_mixes_nothing_before_its_head():
    settings = Mixing(**SMALL, m=8, multisets=4, activations=["tanh"]).model_dump()
    rows = mixing.run(settings, 0)
    assert len(rows) == 2 * 3 * 4 * 3  # repeats, target and two networks, multisets, pairs
    assert [(row["i"], row["j"]) for row in rows[:3]] == [(0, 1), (0, 2), (1, 2)]
    for row in rows:
        if row["aggregator"] == "target":
            assert row["mix"] == pytest.approx(2, abs=1e-12)
        elif row["aggregator"] == "sum":
            assert row["representation_mix"] == 0 < row["mix"] <= row["bound"] <= row["weights_bound"]
        else:
            assert row["representation_mix"] > 0 and row["bound"] is None


def test_one_entry_of_the_convolution_has_derivative_one():
    rows = higher_order.run(HigherOrder(length=3).model_dump(), 0)
    assert len(rows) == 3 * (9 + 27) * 3
    for row in rows:
        if row["combine"] == "convolution":
            assert row["derivative"] == pytest.approx(float(sum(row["j"]) % 3 == row["k"]), abs=1e-12)
        elif row["combine"] == "sum":
            assert row["derivative"] == 0
    normalised = [row["derivative"] for row in rows if row["combine"] == "normalised"]
    assert not any(abs(value - 1) < 1e-3 for value in normalised) and max(map(abs, normalised)) > 0.01


def test_the_convolution_is_the_circular_one():
    u, v = normal(2, 4)
    loops = [sum(float(u[i] * v[(k - i) % 4]) for i in range(4)) for k in range(4)]
    assert higher_order.convolution(torch.stack([u, v])).tolist() == pytest.approx(loops, abs=1e-12)


def test_wasserstein_distances():
    x, y = torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([[4.0, 1.0], [0.0, -2.0]])
    assert separation.wasserstein(x, y) == 1.5  # (|0 - 0| + |0 + 2| + |4 - 4| + |0 - 1|) / 2
    assert separation.wasserstein(x, x.flip(0)) == 0
    x, y = normal(4, 3), normal(4, 3, seed=1)
    costs = [(x - y[list(order)]).abs().sum().item() / 4 for order in itertools.permutations(range(4))]
    assert separation.wasserstein(x, y) == pytest.approx(min(costs), rel=1e-12)


def test_the_polynomial_by_hand_and_in_plain_loops():
    scalars = torch.tensor([[[2.0], [5.0]]], dtype=torch.float64)  # (t - 2) (t - 5)
    assert separation.polynomial(scalars)[0].tolist() == pytest.approx([10, -7, 1], abs=1e-12)
    x = normal(3, 2)
    terms = {(0, 0): 1.0}
    for vector in x.tolist():
        factor = {(1, 0): 1.0} | {(0, place): -value for place, value in enumerate(vector)}
        product = {}
        for ((k, z), a), ((p, q), b) in itertools.product(terms.items(), factor.items()):
            product[k + p, z + q] = product.get((k + p, z + q), 0.0) + a * b
        terms = product
    loops = [terms.get((k, z), 0.0) for k in range(4) for z in range(4)]
    assert separation.polynomial(x[None])[0].tolist() == pytest.approx(loops, abs=1e-12)


@pytest.mark.parametrize("normalisation", ["none", "geometric"])
def test_the_polynomial_is_what_ssma_compresses(normalisation):
    torch.manual_seed(0)
    aggr = SSMAAggregation(3, 4, "random", compression=1.0, normalisation=normalisation).double().eval()
    x = normal(6, 4, 3)
    expected = separation.polynomial(x, normalisation == "geometric") @ aggr.weight.flatten(1).t() + aggr.bias
    found = aggr(x.flatten(0, 1), torch.arange(6).repeat_interleave(4), dim_size=6)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_pairs_of_the_proposition_are_as_far_apart_as_it_says():
    near, centre = separation.approaching(3, 6, torch.Generator().manual_seed(0))
    distances = [separation.wasserstein(*pair) for pair in zip(near, centre, strict=True)]
    assert distances == [0.5**k for k in range(1, 7)]
    assert torch.equal(near.sum(1), centre.sum(1))
    assert torch.equal((near.amax(1) - centre.amax(1)).sum(1), torch.tensor(distances, dtype=torch.float64))


def test_what_separates_and_what_does_not():
    settings = Separation(n=3, d=2, pairs=5, draws=2, halvings=10).model_dump()
    rows = separation.run(settings, 0)
    assert len(rows) == 18 * 2 * (3 * 5 + 10)
    ratios = {}
    for row in rows:
        ratios.setdefault((row["representation"], row["kind"]), []).append(row["distance"] / row["wasserstein"])
    for name in ("sum", "mean", "vpa"):
        assert set(ratios[name, "equal sum"]) == set(ratios[name, "limit"]) == {0.0}
        assert min(ratios[name, "random"]) > 0
    assert all(min(ratios["polynomial", kind]) > 0.1 for kind in ("random", "near", "equal sum"))
    assert max(ratios["max", "limit"]) == pytest.approx(1, rel=1e-9) == min(ratios["max", "limit"])
    last = ratios["polynomial", "limit"][8:10]
    assert last[0] / last[1] == pytest.approx(2, rel=1e-3)  # the ratio is of the order of h
    assert {row["representation"] for row in rows if not row["invariant"]} == {"lstm", "gru"}
