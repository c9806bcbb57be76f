"""Attention in groups of graphs of like size against attention of graphs that are all padded to the largest."""

import pytest
import torch
from torch.nn import MultiheadAttention
from torch_geometric.nn import GPSConv
from torch_geometric.utils import to_dense_batch

from ssma.layers.attention import SAVED, SizedAttention, groups_of_like_size

SIZES = [3, 200, 40, 41, 1, 150, 5, 40]


@pytest.fixture
def padded():
    generator = torch.Generator().manual_seed(3)
    batch = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    x, mask = to_dense_batch(torch.randn(sum(SIZES), 8, generator=generator, dtype=torch.float64), batch)
    return x.requires_grad_(), mask


def both(dropout=0.0):
    torch.manual_seed(0)
    plain = MultiheadAttention(8, 2, dropout, batch_first=True).double()
    sized = SizedAttention(8, 2, dropout, batch_first=True).double()
    sized.load_state_dict(plain.state_dict())
    return plain, sized


def attend(attention, x, mask):
    return attention(x, x, x, key_padding_mask=~mask, need_weights=False)[0]


def test_a_group_ends_where_smaller_graphs_save_enough():
    assert groups_of_like_size([200, 150, 41, 40, 40, 5, 3, 1]) == {(0, 2): 200, (2, 8): 41}
    assert groups_of_like_size([30, 20, 10, 0]) == {(0, 3): 30}
    assert groups_of_like_size([0, 0]) == {}
    square = SAVED + 100**2
    just = int(square**0.5) + 1
    assert len(groups_of_like_size([just, 100])) == 2
    assert len(groups_of_like_size([just - 1, 100])) == 1


@pytest.mark.parametrize("training", [True, False])
def test_groups_give_what_padding_to_the_largest_gives(padded, training):
    x, mask = padded
    plain, sized = (attention.train(training) for attention in both())
    expected, out = (attend(attention, x, mask)[mask] for attention in (plain, sized))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(expected)
    grads = [torch.autograd.grad((value * weight).sum(), [x, *attention.parameters()])
             for value, attention in ((expected, plain), (out, sized))]  # fmt: skip
    for grad, reference in zip(*grads, strict=True):
        torch.testing.assert_close(reference, grad, rtol=1e-12, atol=1e-12)


def test_graphs_of_like_size_are_attended_to_at_once(padded, monkeypatch):
    x, mask = padded
    shapes = []
    monkeypatch.setattr(
        MultiheadAttention, "forward", lambda self, x, *_, **__: shapes.append(tuple(x.shape)) or (x, None)
    )
    assert torch.equal(attend(both()[1], x, mask)[mask], x[mask])
    assert shapes == [(2, 200, 8), (6, 41, 8)]


def test_dropout_is_that_of_the_attention(padded):
    x, mask = padded
    sized = both(dropout=1.0)[1]
    assert torch.allclose(attend(sized, x, mask)[mask], sized.out_proj.bias)
    sized.eval()
    assert not torch.allclose(attend(sized, x, mask)[mask], sized.out_proj.bias)


def test_a_reset_draws_all_weights_as_a_new_attention_does():
    torch.manual_seed(0)
    plain = MultiheadAttention(8, 2, batch_first=True).state_dict()
    torch.manual_seed(0)
    sized = SizedAttention(8, 2, batch_first=True)
    conv = GPSConv(8, None, heads=2)
    conv.attn = sized
    for fresh in (False, True):
        if fresh:
            for parameter in sized.parameters():
                torch.nn.init.constant_(parameter, 9)
            torch.manual_seed(0)
            conv.reset_parameters()
        for name, value in sized.state_dict().items():
            assert torch.equal(value, plain[name])


def test_a_graph_without_nodes_changes_no_other():
    x, mask = torch.randn(3, 300, 8, dtype=torch.float64), torch.zeros(3, 300, dtype=torch.bool)
    mask[0], mask[2, :7] = True, True
    sized = both()[1]
    alone = attend(sized, x[2:, :7], mask[2:, :7])
    torch.testing.assert_close(attend(sized, x, mask)[2, :7], alone[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_groups_the_type_that_it_gives_one_group(padded, dtype, training):
    x, mask = padded[0].detach().float(), padded[1]
    plain, sized = (attention.float().train(training) for attention in both())
    with torch.autocast("cpu", dtype):
        expected, out = (attend(attention, x, mask)[mask] for attention in (plain, sized))
    assert out.dtype == expected.dtype == dtype
    torch.testing.assert_close(out, expected, rtol=0.02, atol=0.02)
    out.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in sized.parameters())
