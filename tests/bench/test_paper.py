"""The yardstick computes what the operator computes."""

import pytest
import torch

from ssma.aggr import SSMAAggregation
from ssma.bench.paper import PaperSSMA

NODES = 40


def graph(most=None):
    """Messages' targets in no order, with in-degrees from 0 up; at most ``most`` where given."""
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(NODES - 3, (4 * NODES,), generator=generator)  # the last three nodes have no messages
    if most is not None:
        seen = torch.zeros(NODES, dtype=torch.long)
        kept = []
        for number, node in enumerate(index.tolist()):
            seen[node] += 1
            if seen[node] <= most:
                kept.append(number)
        index = index[kept]
    return index


def gradients(module, x, upper, *others, **named):
    leaf = x.clone().requires_grad_()
    out = module(leaf, *others, **named)
    out.backward(upper)
    return out.detach(), leaf.grad


def close(actual, expected, tolerance):
    """Relative in the norm: single entries of a sum may cancel."""
    assert (actual - expected).norm() <= tolerance * expected.norm()
    assert expected.norm() > 0


def compare(aggr, x, index, tolerance, gradient_tolerance):
    """Results and all gradients of both."""
    paper, upper = PaperSSMA(aggr), torch.randn(NODES, x.size(1)).to(x)
    out, grad = gradients(aggr, x, upper, index, dim_size=NODES)
    expected, expected_grad = gradients(paper, x, upper, index, NODES)
    close(out, expected, tolerance)
    close(grad, expected_grad, gradient_tolerance)
    pairs = [(aggr.weight.grad.flatten(1), paper.squeeze_weight.grad), (aggr.bias.grad, paper.bias.grad)]
    if aggr.expand is not None:
        pairs.append((aggr.expand.grad, paper.expand_weight.grad))
    if aggr.selection == "attention":
        pairs.append((aggr.source_score.weight.grad, paper.score.weight.grad))
    for mine, theirs in pairs:
        close(mine, theirs, gradient_tolerance)


# In float32 a factor near zero amplifies rounding in the gradients of both formulations: each is up to 3e-5 away from
# its value in float64, where they agree.
@pytest.mark.parametrize(
    ("dtype", "tolerance", "gradient_tolerance"), [(torch.float32, 1e-5, 1e-4), (torch.float64, 1e-13, 1e-11)]
)
@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("compression", [0.1, 0.25, 1.0])
@pytest.mark.parametrize(("d", "kappa"), [(3, 1), (16, 2), (32, 4), (64, 4), (8, 7)])
def test_equals_the_operator_forward_and_backward(
    d, kappa, compression, selection, dtype, tolerance, gradient_tolerance
):
    torch.manual_seed(0)
    aggr = SSMAAggregation(d, kappa, selection, compression).to(dtype)
    index = graph(most=kappa if selection == "random" else None)  # then nothing is left to the draw
    compare(aggr, torch.randn(index.numel(), d).to(dtype), index, tolerance, gradient_tolerance)


def test_equals_the_operator_at_another_temperature():
    torch.manual_seed(0)
    aggr = SSMAAggregation(8, 3, temperature=0.5).double()
    compare(aggr, torch.randn(4 * NODES, 8).double(), graph(), 1e-13, 1e-11)


def test_random_neighbours_are_a_draw_without_replacement_of_at_most_kappa():
    torch.manual_seed(0)
    index = graph()
    paper = PaperSSMA(SSMAAggregation(2, 3, "random"))
    x = torch.arange(index.numel()).float().unsqueeze(1).expand(-1, 2)
    drawn = set()
    for _ in range(60):
        chosen, node = paper._random_neighbours(x, index, NODES)
        numbers = chosen[:, 0].long()
        assert numbers.unique().numel() == numbers.numel()
        assert torch.equal(index[numbers], node)
        for i in range(NODES):
            assert int((node == i).sum()) == min(3, int((index == i).sum()))
        drawn |= set(numbers.tolist())
    assert drawn == set(range(index.numel()))


@pytest.mark.parametrize("options", [{"heads": 2}, {"learn_affine": True}, {"mixing": "sum"}, {"normalisation": "log"}])
def test_refuses_what_the_paper_has_not(options):
    name, value = next(iter(options.items()))
    with pytest.raises(ValueError, match=f"PaperSSMA got {name}={value!r} but expected"):
        PaperSSMA(SSMAAggregation(4, 2, **options))
