"""Sequential Signal Mixing Aggregation."""

import math
import threading
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Parameter
from torch.nn.functional import pad
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr.affine import compare_maps
from ssma.aggr.combine import Recipe, Way, attended, boosts, call, combined
from ssma.aggr.grouped import check_switch, check_width, is_number, is_width, prepared, refuse_script, targets_of
from ssma.aggr.opaque import full_precision
from ssma.aggr.selection import groups_of, random_slots
from ssma.aggr.spectrum import roots_of_unity, transform_matrix, transformed_map, transformed_weight
from ssma.aggr.steps import largest_factor

CHOICES = {
    "selection": ("attention", "random"),
    "compression_of": ("parameters", "rank"),
    "mixing": ("convolution", "product", "sum"),
    "normalisation": ("geometric", "none", "log"),
    "slots_from": ("messages", "features"),
}


class NodeFeatures(NamedTuple):
    """What a layer shows its aggregation, for one call."""

    source: Tensor
    """Features of the source nodes that are scored."""
    target: Tensor | None
    """Features of the target nodes that are scored."""
    content: Tensor
    """Features of the source nodes that messages are made of."""
    source_index: Tensor
    """Source node of each message, ``[E]``."""


class SSMAAggregation(Aggregation):
    r"""Sequential Signal Mixing Aggregation from `"Sequential Signal Mixing Aggregation for Message Passing Graph
    Neural Networks" <https://arxiv.org/abs/2409.19414>`_ (NeurIPS 2024).

    A sum keeps the features of different neighbours apart: no product of two neighbours' features is in it. SSMA
    reads each neighbour :math:`x \in \mathbb{R}^d` as the polynomial :math:`t - \sum_j x_j z^{j-1}`, multiplies the
    polynomials of all neighbours, and maps the coefficients back to :math:`\mathbb{R}^d`. Multiplying polynomials is
    convolving their coefficients, and that is a product in the Fourier domain:

    1. *Selection* makes at most :math:`\kappa` slots of a neighbourhood: ``"attention"`` averages all messages
       :math:`\kappa` times with learned weights, ``"random"`` draws :math:`\kappa` of them without
       replacement (and takes a fixed draw outside of training).
    2. *Affine map*: a slot becomes an array of :math:`m_1 = \kappa + 1` by :math:`m_2 = \kappa (d - 1) + 1` with
       :math:`-x` in row 0 and 1 at (1, 0).
    3. *Product* of the slots' 2D Fourier transforms, the magnitude replaced by the geometric mean of the factors'
       magnitudes, so that it does not explode with the number of slots.
    4. *Compressor*: inverse transform and a (low-rank) linear map to :math:`\mathbb{R}^d`.

    Neither the arrays nor their transforms are computed node by node: the transform of step 2 has a closed form and
    that of step 4 is applied to the compressor's weights.

    A node without messages gets a constant, the compressor applied to the unit impulse (the empty product; to ones
    with ``mixing="product"``, to zeros with ``"sum"``). Results are finite for entries up to 1e30, gradients up to
    1e15; where a product of several factors is exactly zero its gradient is infinite, and 0 is taken. Second
    derivatives are refused to ``create_graph``; transforms of `torch.func` (grad, vmap, jacrev, hessian, ...) and
    `torch.autograd.forward_ad` run in torch's own steps, which have them and take more memory, and so does
    `torch.jit.trace`; `torch.jit.script` is refused. The inner part runs in float32 (float64 for float64 inputs); the
    result has the dtype of the messages. It does not depend on the order of a node's messages, except in random
    selection where a node has more than kappa.

    Attention scores see what the layer propagates, :math:`\mathrm{LeakyReLU}(a_k^\top h_i + b_k^\top h_j)`, when the
    aggregation was put into the layer by :func:`ssma.aggr.use_aggregation`. Called alone, there are no node features:
    the message takes the place of :math:`h_j`, and the term of :math:`h_i` is left out.

    .. code-block:: python

        import torch
        from torch_geometric.nn import GCNConv
        from ssma.aggr import SSMAAggregation, use_aggregation

        x, edge_index = torch.randn(3, 64), torch.tensor([[0, 1, 2, 2], [1, 0, 0, 1]])
        conv = use_aggregation(GCNConv(64, 64), SSMAAggregation(in_channels=64, kappa=4))
        out = conv(x, edge_index)  # [3, 64]

    Args:
        in_channels: Width :math:`d` of a message (of one head).
        kappa: Number of slots :math:`\kappa`, at least 1.
        selection: ``"attention"`` or ``"random"``. A random layer that is run again for its gradient must draw the same
            messages: `torch.utils.checkpoint` keeps the random state, PyG's `GroupAddRev` does not, so give it slots
            of attention.
        compression: Size of the compressor in (0, 1]; 1 is the full linear map.
        heads: Heads (GAT) or towers (PNA) of a message; each is aggregated by itself, with shared weights.
        learn_affine: Train the affine map, starting from the constant one.
        temperature: Divides the attention scores.
        compression_of: What ``compression`` is a share of: ``"parameters"`` of the full map, rank =
            ceil(compression * m d / (m + d)) with m = m1 m2, as in the authors' code; or ``"rank"``, rank =
            ceil(compression * m), as in the paper's text.
        attention_channels: Width of the node features that the attention scores see, all heads together, of source
            and target where they differ; ``heads * in_channels`` by default.
        mixing: How step 3 combines the arrays of the slots: ``"convolution"`` (the paper's), or, for ablations,
            ``"product"``, element by element without a transform, or ``"sum"``. The compressor is the same.
        normalisation: Magnitude of the product: ``"geometric"`` (the paper's), or, for ablations, ``"none"``, which
            gives the polynomial's coefficients themselves and overflows as they do, or ``"log"``, log(1 + magnitude).
        slots_from: What is selected: ``"messages"`` (the paper's), or ``"features"``, what the layer propagates of
            the source nodes, before weights, attention and edge features make messages of it.
        compiled: Run small calls as one function that `torch.compile` makes, and step 3 of larger ones in such
            kernels. They are made when they are first needed, in seconds; results are the same up to rounding. It
            needs a C++ compiler on a CPU, Triton and a C compiler on a GPU. As of all that is compiled, the graph of a
            small call can be walked once only: ``retain_graph`` and ``create_graph`` are refused.

    Shapes:
        - **input:** messages :math:`(E, d)`, :math:`(E, heads \cdot d)` or :math:`(E, heads, d)`
        - **output:** as the input, with the number of nodes in place of :math:`E`
    """

    def __init__(
        self,
        in_channels: int,
        kappa: int = 4,
        selection: Literal["attention", "random"] = "attention",
        compression: float = 0.25,
        heads: int = 1,
        learn_affine: bool = False,
        temperature: float = 1.0,
        compression_of: Literal["parameters", "rank"] = "parameters",
        attention_channels: int | tuple[int, int] | None = None,
        mixing: Literal["convolution", "product", "sum"] = "convolution",
        normalisation: Literal["geometric", "none", "log"] = "geometric",
        slots_from: Literal["messages", "features"] = "messages",
        compiled: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("kappa", kappa), ("heads", heads)):
            if not is_width(value):
                raise ValueError(f"SSMAAggregation got {name}={value!r} but expected a whole number, at least 1")
        in_channels, kappa, heads = int(in_channels), int(kappa), int(heads)  # torch.compile stops at those of NumPy
        choices = (selection, compression_of, mixing, normalisation, slots_from)
        for (name, allowed), choice in zip(CHOICES.items(), choices, strict=True):
            if choice not in allowed:
                raise ValueError(f"SSMAAggregation got {name}={choice!r} but expected one of {', '.join(allowed)}")
        if mixing == "sum" and normalisation != "geometric":
            raise ValueError(
                f"SSMAAggregation got normalisation={normalisation!r} with mixing='sum', which has no product to "
                f"normalise; leave normalisation at its default"
            )
        if not is_number(compression) or not 0 < compression <= 1:
            raise ValueError(f"SSMAAggregation got compression={compression!r} but expected 0 < compression <= 1")
        if not is_number(temperature) or not 0 < temperature < math.inf:
            raise ValueError(f"SSMAAggregation got temperature={temperature!r} but expected a finite number above 0")
        check_switch(self, "learn_affine", learn_affine)
        check_switch(self, "compiled", compiled)
        if attention_channels is None:
            attention_channels = heads * in_channels
        pair = attention_channels if isinstance(attention_channels, tuple | list) else (attention_channels,) * 2
        if len(pair) != 2 or not all(is_width(width) for width in pair):
            raise ValueError(
                f"SSMAAggregation got attention_channels={attention_channels!r} but expected a whole number, at least "
                f"1, or two of them"
            )
        self.in_channels = in_channels
        self.kappa = kappa
        self.selection = selection
        self.compression = compression
        self.heads = heads
        self.learn_affine = learn_affine
        self.temperature = temperature
        self.compression_of = compression_of
        self.mixing = mixing
        self.normalisation = normalisation
        self.slots_from = slots_from
        self.compiled = compiled
        self.m1 = kappa + 1
        self.m2 = kappa * (in_channels - 1) + 1
        self.rank = self._rank()

        rows = in_channels if self.rank is None else self.rank
        self.weight = Parameter(torch.empty(rows, self.m1, self.m2))
        self.expand = None if self.rank is None else Parameter(torch.empty(in_channels, self.rank))
        self.bias = Parameter(torch.empty(in_channels))
        self.affine_weight = Parameter(torch.empty(in_channels, self.m1, self.m2)) if learn_affine else None
        self.affine_bias = Parameter(torch.empty(self.m1, self.m2)) if learn_affine else None
        self.attention_channels = tuple(map(int, pair))
        attends = selection == "attention"
        self.source_score, self.target_score = (
            Linear(width, heads * kappa) if attends else None for width in self.attention_channels
        )
        self._shown: dict[int, NodeFeatures] = {}  # by the thread that calls
        self.reset_parameters()

    def _rank(self) -> int | None:
        if self.compression == 1:
            return None
        m, d = self.m1 * self.m2, self.in_channels
        return math.ceil(self.compression * (m if self.compression_of == "rank" else m * d / (m + d)))

    def reset_parameters(self) -> None:
        """Draws new weights (uniform, like `torch.nn.Linear`) and puts the affine map back to the constant one."""
        m = self.m1 * self.m2
        _uniform(self.weight, m)
        _uniform(self.bias, m if self.rank is None else self.rank)
        if self.expand is not None:
            _uniform(self.expand, self.rank)
        if self.affine_weight is not None:
            with torch.no_grad():
                arrays = _constant_affine(self.affine_weight)
                self.affine_weight.copy_(arrays[:-1])
                self.affine_bias.copy_(arrays[-1])
        for score in (self.source_score, self.target_score):
            if score is not None:
                score.reset_parameters()

    def show(self, features: NodeFeatures | None) -> None:
        """Sets what a layer shows for the next call on this thread, None to take it back."""
        for thread in (_COMPILER, _thread()):
            self._shown.pop(thread, None)
        if features is not None:
            self._shown[_thread()] = features

    @property
    def node_features(self) -> NodeFeatures | None:
        """What a layer shows for the next call on this thread."""
        return self._shown.get(_thread(), self._shown.get(_COMPILER))

    def _taken(self) -> NodeFeatures | None:
        """Returns what was shown for this call; a compiler, which knows no threads, takes what was shown last. It may
        have shown it in a layer whose messages it left to Python."""
        if torch.compiler.is_compiling():
            return self._shown.popitem()[1] if self._shown else None
        return self._shown.pop(_thread(), None) or self._shown.pop(_COMPILER, None)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Aggregates messages.

        Args:
            x: Messages.
            index: Target node of each message, in any order, ``[E]``; this or ``ptr`` is needed.
            ptr: Borders of the nodes in messages that are sorted by target, ``[dim_size + 1]``.
            dim_size: Number of nodes.
            dim: Dimension of the messages, the first one.
        """
        features = self._taken()
        check_width(self, x, dim)
        index = targets_of(self, x, index, ptr, dim)
        message = x.view(-1, self.heads, self.in_channels)
        with full_precision(x.device):
            inner = message if message.dtype == torch.float64 else message.float()
            content = inner if self.slots_from == "messages" else self._source_features(inner, features)
            if self.selection == "random":
                slots, filled = random_slots(content, index, dim_size, self.kappa, self.training)
                filled = filled.unsqueeze(1).expand(-1, self.heads).flatten()
                out = call(combined, self.way(), self.recipe(inner), filled, slots.flatten(1, 2))
            else:
                groups, scored = groups_of(index, dim_size, self.heads), self.scored(inner, index, features)
                out = call(attended, self.way(), self.recipe(inner), *groups, content.flatten(0, 1), *scored)
        return out.to(x.dtype).view(dim_size, *x.shape[1:])

    def _source_features(self, message: Tensor, features: NodeFeatures | None) -> Tensor:
        """Returns the source node's features in place of each message, ``[E, heads, channels]``."""
        if features is None:
            raise ValueError(
                "SSMAAggregation got messages without node features but slots_from='features' expected those of a "
                "layer; put it into one with use_aggregation(layer, aggr)"
            )
        content = features.content.flatten(1)
        if content.size(1) != self.heads * self.in_channels:
            raise ValueError(
                f"SSMAAggregation got source features of width {content.size(1)} but slots_from='features' expected "
                f"the width of the messages, {self.heads * self.in_channels}; use slots_from='messages' in this layer"
            )
        return content.to(message.dtype).index_select(0, features.source_index).view_as(message)

    def scored(self, message: Tensor, index: Tensor, features: NodeFeatures | None = None) -> tuple[Tensor | None, ...]:
        """Returns what attention scores see: sources, their row of each message, the same of targets; see
        :func:`ssma.aggr.combine.scores`."""
        if features is None:
            self._seen(message, message.dtype, "source")
            return None, None, None, None
        source = self._seen(features.source, message.dtype, "source")
        if features.target is None:
            return source, features.source_index, None, None
        return source, features.source_index, self._seen(features.target, message.dtype, "target"), index

    def _seen(self, x: Tensor, dtype: torch.dtype, side: str) -> Tensor:
        x = x.reshape(x.size(0), x.shape[1:].numel()).to(dtype)  # a layer may propagate one number of a node
        expected = self.attention_channels[side == "target"]
        if x.size(1) != expected:
            raise ValueError(
                f"SSMAAggregation got {side} features of width {x.size(1)} but its attention scores expected "
                f"{expected}; build it with attention_channels=(width of sources, width of targets)"
            )
        return x

    def way(self) -> Way:
        """Returns how slots are made and combined."""
        return Way(self.kappa, self.temperature, self.mixing, self.normalisation, self.compiled)

    def recipe(self, like: Tensor) -> Recipe:
        """Returns what the parameters come to, in the dtype of ``like``."""
        place, dtype = (like.dtype, like.device), like.dtype
        weight, bias, expand = (None if p is None else p.to(dtype) for p in (self.weight, self.bias, self.expand))
        maps = (self.source_score, self.target_score) if self.selection == "attention" else ()
        scores = tuple(p.to(dtype) for score in map(prepared, maps) for p in (score.weight, score.bias))
        if self.mixing == "sum":
            matrix = self._affine(dtype).flatten(1) @ weight.flatten(1).t()
            return Recipe(None, None, matrix, None, expand, bias, scores)
        transforms, roots = self.mixing == "convolution", None
        if transforms and not self.learn_affine:
            matrix, bound = -transform_matrix(self.in_channels, self.m2, *place), self.in_channels + 1
            roots = roots_of_unity(self.m1, *place)
        else:
            arrays = torch.cat([self._affine(dtype), self._neutral(like)])
            matrix = transformed_map(arrays) if transforms else arrays.flatten(1)
            bound = largest_factor(matrix.detach(), real=not transforms)
        boost = None if self.normalisation == "none" else boosts(bound, self.kappa, like)
        weight = transformed_weight(weight) if transforms else weight.flatten(1).t()
        return Recipe(boost, roots, matrix, weight, expand, bias, scores)

    def _affine(self, dtype: torch.dtype) -> Tensor:
        """Returns the affine map as arrays, of each channel and, in the end, of the constant, ``[d + 1, m1, m2]``."""
        if self.affine_weight is not None:
            return torch.cat([self.affine_weight, self.affine_bias.unsqueeze(0)]).to(dtype)
        return _constant_affine(self.weight.new_empty(self.in_channels, self.m1, self.m2, dtype=dtype))

    def summary(self) -> dict[str, Any]:
        """Returns how far the learned affine map is from the constant one (:func:`ssma.aggr.affine.compare_maps`);
        nothing if it is not learned."""
        if not self.learn_affine:
            return {}
        return {"affine": compare_maps(_constant_affine(self.affine_weight), self._affine(self.affine_weight.dtype))}

    def _neutral(self, like: Tensor) -> Tensor:
        """Returns the array that changes no product, ``[1, m1, m2]``."""
        if self.mixing == "product":
            return like.new_ones(1, self.m1, self.m2)
        return pad(like.new_ones(1, 1, 1), (0, self.m2 - 1, 0, self.m1 - 1))

    __prepare_scriptable__ = refuse_script

    def __repr__(self) -> str:
        rank = "full" if self.rank is None else self.rank
        return (
            f"{type(self).__name__}({self.in_channels}, kappa={self.kappa}, selection={self.selection}, "
            f"heads={self.heads}, rank={rank}, learn_affine={self.learn_affine}, temperature={self.temperature}, "
            f"mixing={self.mixing}, normalisation={self.normalisation}, slots_from={self.slots_from}, "
            f"compiled={self.compiled})"
        )


_COMPILER = 0  # no thread is: a compiler takes one call at a time


def _thread() -> int:
    return _COMPILER if torch.compiler.is_compiling() else threading.get_ident()


def _constant_affine(like: Tensor) -> Tensor:
    """Returns the paper's affine map, ``[d + 1, m1, m2]``: -x in row 0, 1 at (1, 0)."""
    channels, m1, m2 = like.shape
    minus = -torch.eye(channels, dtype=like.dtype, device=like.device).unsqueeze(1)
    return torch.cat([pad(minus, (0, m2 - channels, 0, m1 - 1)), pad(like.new_ones(1, 1, 1), (0, m2 - 1, 1, m1 - 2))])


def _uniform(parameter: Parameter, fan_in: int) -> None:
    bound = 1 / math.sqrt(fan_in)
    torch.nn.init.uniform_(parameter, -bound, bound)
