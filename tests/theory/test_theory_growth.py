"""Sizes of representations by plain loops and published formulas, growth of bounds by hand, and the words on both."""

import math

import pytest
import torch

from ssma.errors import StudyError
from ssma.report.theory import frame
from ssma.report.theory_words import tell
from ssma.study.config import parse_study
from ssma.study.theory import Growth
from ssma.theory import growth
from ssma.theory.mixing import weights_bound
from ssma.theory.training import SetNetwork

SMALL = {"n": [2, 3, 4], "d": [2, 3, 5], "scales": [2, 3], "draws": 2, "multisets": 4, "activations": ["softplus"]}


def not_zero(n, d):
    """Monomials t^k z^l of a product of n factors t - (x_1 + x_2 z + ... + x_d z^(d-1)): l is up to (n - k)(d - 1)."""
    return sum((n - k) * (d - 1) + 1 for k in range(n + 1))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 5), (5, 3), (8, 16)])
def test_sizes_are_those_of_the_formulas(n, d):
    assert growth.sizes(n, d, seed=1) == {
        "size": (n + 1) * (n * (d - 1) + 1),
        "not zero": not_zero(n, d),
        "box": (n + 1) * (n * (d - 1) + 1),
        "rank": n * d,
        "moments": math.comb(n + d, d),
    }


def test_a_coefficient_that_is_small_by_chance_is_counted():
    x = torch.randn(
        8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(growth.seed_from("theory sizes", 0, 8, 6))
    )
    coefficients = growth.polynomial(x[None]).abs()
    assert ((coefficients > 1e-13 * coefficients.max()) & (coefficients < 1e-9 * coefficients.max())).sum() == 1
    assert growth.sizes(8, 6, seed=0)["not zero"] == not_zero(8, 6) == 189


def test_a_smaller_representation_is_counted_as_one(monkeypatch):
    """All that is asked of the polynomial: here it has lost its last row, and no longer depends on the last vector."""
    whole = growth.polynomial

    def cut(x):
        return (whole(torch.cat([x[:, :2], torch.ones_like(x[:, 2:])], 1)).view(len(x), 4, -1) * ROWS).flatten(1)

    ROWS = torch.tensor([1.0, 1.0, 1.0, 0.0]).view(4, 1)
    monkeypatch.setattr(growth, "polynomial", cut)
    found = growth.sizes(3, 2, seed=0)
    assert (found["size"], found["box"], found["rank"]) == (16, 12, 4)


def test_bounds_of_scaled_parameters():
    rows = growth.run(Growth(**SMALL).model_dump(), 0)
    assert len(rows) == 3 * 3 * 5 + 2 * 2 * 3
    assert growth.run(Growth(**SMALL).model_dump(), 0) == rows != growth.run(Growth(**SMALL).model_dump(), 1)
    found = {(row["quantity"], row["draw"], row["scale"]): row["value"] for row in rows if row["scale"]}
    for draw in (0, 1):
        assert found["weights bound", draw, 3] == pytest.approx(1.5**5 * found["weights bound", draw, 2])
        for scale in (2, 3):
            mixing, bound, of_weights = (found[name, draw, scale] for name in ("mixing", "bound", "weights bound"))
            assert 0 < mixing < bound < of_weights
    assert found["bound", 0, 2] != found["bound", 1, 2]
    torch.manual_seed(growth.seed_from("theory growth", 0, 0))
    network = SetNetwork("sum", 2, 2, 16, "softplus").double()
    assert found["weights bound", 0, 2] == pytest.approx(2**5 * weights_bound(network, "softplus"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": [2, 3]}, "theory.growth.n: expected at least 3 entries, got [2, 3]"),
        ({"d": [2, 3, 17]}, "theory.growth.d.2: Input should be less than or equal to 16, got 17"),
        ({"n": [2, 3, 3]}, "names 3 twice"),
        ({"scales": [1, 1.0]}, "names 1.0 twice"),
        ({"activations": ["relu"]}, "theory.growth.activations.0: Input should be 'tanh', 'sigmoid'"),
        ({"draws": 1}, "theory.growth.draws: Input should be greater than or equal to 2, got 1"),
    ],
)
def test_a_wrong_entry_is_named(settings, message):
    base = {"study": "s", "datasets": {"x": {"source": "tu"}}, "layers": ["gcn"]}
    ablations = {"a": {"axes": {"aggregator": ["sum"]}}}
    with pytest.raises(StudyError) as error:
        parse_study(base | {"ablations": ablations, "theory": {"growth": settings}})
    assert message in str(error.value)


def told(name, rows, settings):
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    record = {"name": name, "settings": settings, "columns": columns}
    return tell(record, frame(record))[1]


def test_words_give_exponents_beside_the_formulas():
    """Made sizes of exact powers, and bounds that grow by 4 and by 16 from s = 1 to 2: exponents 2 and 4."""
    rows = []
    for n in (2, 4, 8):
        for d in (2, 4, 8):
            values = {"size": n**2 * d, "not zero": 3 * n, "box": n**2 * d - (n == 2), "rank": n * d, "moments": 7}
            empty = {"activation": None, "draw": None, "scale": None}
            rows += [{"quantity": name, "n": n, "d": d, **empty, "value": value} for name, value in values.items()]
    for draw, factor in ((0, 4), (1, 16)):
        for scale in (1, 2):
            place = {"n": 2, "d": 2, "activation": "tanh", "draw": draw, "scale": scale}
            rows.append({"quantity": "bound", **place, "value": factor ** (scale - 1)})
    text = told("growth", rows, {"n": [2, 4, 8], "d": [2, 4, 8], "m": 16, "draws": 2, "scales": [1, 2]})
    half = 12.706204736  # t of one degree of freedom, times the standard error 1 of slopes 2 and 4
    for part in (
        "Of the 9 representations of random multisets 6 reach the last row and column",
        "and 9 have a derivative of rank n d",
        "Over n, with d = 8: size as n^2.00 [2.00, 2.00] (the paper: 2), not zero as n^1.00 [1.00, 1.00]",
        "Over d, with n = 8: size as d^1.00 [1.00, 1.00] (the paper: 1), not zero as d^0.00 [0.00, 0.00]",
        f"bound with tanh as s^3.00 [{3 - half:.2f}, {3 + half:.2f}].",
    ):
        assert part in text


def test_words_give_the_exponent_of_errors_over_repeats():
    row = {"activation": "tanh", "width": 1, "status": "ok", "train_l1": 0.0}
    errors = {0: (8.0, 4.0, 2.0), 1: (1.0, 1.0, 1.0), 2: (5.0, 5.0, None)}  # slopes -1 and 0; one repeat has a gap
    rows = [
        row | {"aggregator": "sum", "repeat": repeat, "m": m, "test_l1": error}
        for repeat, values in errors.items()
        for m, error in zip((4, 8, 16), values, strict=True)
    ]
    lines = [
        row | {"aggregator": name, "activation": None, "m": None, "repeat": 0, "test_l1": 1.0}
        for name in ("exact solution", "train mean")
    ]
    sizes = {
        "n": 3,
        "d": 2,
        "train_sets": 1,
        "test_sets": 1,
        "epochs": 1,
        "lr": [1],
        "seeds": 3,
        "aggregators": ["sum"],
    }
    half = 12.706204736 / 2
    expected = f"sum with tanh as m^-0.50 [{-0.5 - half:.2f}, {-0.5 + half:.2f}]. The paper has no formula"
    assert expected in told("sum_of_gram", rows + lines, sizes | {"m": [4, 8, 16]})


def test_words_give_the_exponent_of_the_limit_over_draws():
    rows = [
        {"representation": name, "invariant": name != "lstm", "draw": draw, "kind": kind, "pair": 0,
         "wasserstein": h, "distance": h * h**power if h > lowest else 0.0}
        for name, lowest, powers in (("steep", 0, (1, 2)), ("flat", 0, (0, 0)), ("zero", 0.3, (1, 1)), ("lstm", 0, (0, 0)))
        for draw, power in enumerate(powers)
        for kind, places in (("random", (0.5,)), ("limit", (0.5, 0.25, 0.125)))
        for h in places
    ]  # fmt: skip
    text = told("separation", rows, {"n": 2, "d": 2, "pairs": 1, "draws": 2})
    assert "the ratio is 0 (from some h on) for zero; it goes to 0 for steep (as h^1.50 [-4.85, 7.85])" in text
    assert "it stays for flat, lstm." in text
