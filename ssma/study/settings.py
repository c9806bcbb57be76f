"""What an arm can be set to: the options of every aggregator, the network and the training, with their types.

Torch-free, so that a plan can check thousands of values in a second.
"""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ssma.study.ids import canonical

EXPONENTIAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")


def with_exponent(value: Any) -> Any:
    """Returns the number for a text like 1e-3, which YAML takes for a number only if it is written 1.0e-3."""
    return float(value) if isinstance(value, str) and EXPONENTIAL.fullmatch(value) else value


def _number(value: Any) -> Any:
    """Returns ``value``, as a number where it is written 1e5; Python takes true for the number 1, a study does not."""
    if isinstance(value, bool):
        raise ValueError("Input should not be true or false")
    return with_exponent(value)


Number = BeforeValidator(_number)
LIMIT = 2**53  # up to it JSON, and a float64, keep every whole number
Integer = Annotated[int, Field(gt=-LIMIT, lt=LIMIT), Number]
PositiveInt = Annotated[int, Field(gt=0, lt=LIMIT), Number]
NotNegativeInt = Annotated[int, Field(ge=0, lt=LIMIT), Number]
Real = Annotated[float, Number]
PositiveFloat = Annotated[float, Field(gt=0), Number]
NotNegative = Annotated[float, Field(ge=0), Number]
Share = Annotated[float, Field(gt=0, le=1), Number]
Probability = Annotated[float, Field(ge=0, lt=1), Number]
Text = Annotated[str, Field(min_length=1)]
Factor = Annotated[float, Field(gt=0, lt=1), Number]


def no_value_twice(values: Any) -> Any:
    """Refuses a list that names a value twice: its results would be counted twice."""
    known = set()
    for value in values if isinstance(values, list) else ():
        if (text := repr(canonical(value))) in known:
            raise ValueError(f"names {value!r} twice; leave one out")
        known.add(text)
    return values


class Strict(BaseModel):
    """A table of the study file: unknown keys are refused, values cannot be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class NoOptions(Strict):
    """An aggregator without options."""


class SSMAOptions(Strict):
    """Options of `ssma.aggr.SSMAAggregation`."""

    kappa: PositiveInt = 4
    """Number of neighbour slots of a node."""
    selection: Literal["attention", "random"] = "attention"
    """How a neighbourhood is reduced to kappa slots."""
    compression: Share = 0.25
    """Size of the compressor; 1 is the full linear map."""
    compression_of: Literal["parameters", "rank"] = "parameters"
    """What `compression` is a share of: parameters (the authors' code) or rank (the paper's text) of the full map."""
    learn_affine: bool = False
    """Train the affine map instead of keeping the paper's constant one."""
    temperature: PositiveFloat = 1.0
    """Divides the attention scores."""
    mixing: Literal["convolution", "product", "sum"] = "convolution"
    """How slots are combined: convolved (the paper), multiplied element by element, or summed."""
    normalisation: Literal["geometric", "none", "log"] = "geometric"
    """Magnitude of the product: geometric mean (the paper), itself, or log(1 + itself). Not with `mixing: sum`."""
    slots_from: Literal["messages", "features"] = "messages"
    """What fills the slots: messages (the paper), or the source nodes' features before they become messages."""

    @model_validator(mode="after")
    def _sums_are_not_normalised(self) -> "SSMAOptions":
        if self.mixing == "sum" and self.normalisation != "geometric":
            raise ValueError(
                f"normalisation '{self.normalisation}' has no effect with mixing 'sum'; leave it at 'geometric'"
            )
        return self


class SoftmaxOptions(Strict):
    """Options of `ssma.aggr.SoftmaxAggregation`."""

    t: Real = 1.0
    """Inverse temperature (at the start): 0 is the mean, a large one the maximum."""
    learn: bool = True
    """Train the inverse temperature."""


class PowerMeanOptions(Strict):
    """Options of `ssma.aggr.PowerMeanAggregation`."""

    p: PositiveFloat = 1.0
    """Exponent (at the start): 1 is the mean, a large one the largest magnitude."""
    learn: bool = True
    """Train the exponent."""


class FMeanOptions(Strict):
    """Options of `ssma.aggr.FMeanAggregation`."""

    inversion_weight: NotNegative = 1.0
    """Weight of the loss that makes the inverse an inverse, in what is minimised."""


AGGREGATORS: dict[str, type[Strict]] = {
    "sum": NoOptions,
    "mean": NoOptions,
    "max": NoOptions,
    "min": NoOptions,
    "mul": NoOptions,
    "std": NoOptions,
    "softmax": SoftmaxOptions,
    "powermean": PowerMeanOptions,
    "median": NoOptions,
    "lstm": NoOptions,
    "gru": NoOptions,
    "vpa": NoOptions,
    "fmean": FMeanOptions,
    "deepsets": NoOptions,
    "pna": NoOptions,
    "ssma": SSMAOptions,
}
LAYERS = ("gcn", "gat", "gatv2", "gin", "gine", "resgated", "pna", "gps")
WIDTH_MULTIPLE_OF = {"gat": "heads", "gatv2": "heads", "gps": "heads", "pna": "towers"}
"""Layer -> the setting that its width is a multiple of."""
ONLY_FOR_LAYERS = {
    "heads": ("gat", "gatv2", "gps"),
    "self_loops": ("gcn", "gat", "gatv2"),
    "learn_eps": ("gin", "gine"),
    "edge_features": ("gat", "gatv2", "gine", "resgated", "pna", "gps"),
    "towers": ("pna",),
    "pna_mix": ("pna",),
    "attention_dropout": ("gps",),
    "outer_block": ("gps",),
}
"""Model setting -> the layers that it changes; all others change every layer."""
ONLY_FOR_PARTS = ("training.keep_cut_edges", "training.evaluation")
"""Settings that change fits on a graph that is cut into parts, and no others."""


class ModelSettings(Strict):
    """The network around the aggregation."""

    num_layers: PositiveInt = 4
    """Number of message-passing blocks."""
    budget: PositiveInt | None = 100_000
    """Trainable parameters that the network may have; the width is the largest that fits. Excludes hidden_channels."""
    hidden_channels: PositiveInt | None = None
    """A fixed width instead of a budget."""
    heads: PositiveInt = 8
    """Attention heads of gat, gatv2 and gps, whose width is a multiple of them."""
    towers: PositiveInt = 5
    """Towers of pna, whose width is a multiple of them."""
    pna_mix: Literal["add", "replace"] = "add"
    """In pna the aggregator joins mean, max, min and std, or replaces them; the aggregator pna is these alone."""
    readout: Literal["sum", "mean", "max"] = "max"
    """How node states become a graph state; node tasks have none."""
    dropout: Probability = 0.05
    """Dropout at the end of each block."""
    residual: bool = True
    """Add a block's input to its output; in gps with an outer block only, beside those inside its layer."""
    batch_norm: bool = True
    """Batch norm behind each layer."""
    self_loops: bool = False
    """Add self-loops in gcn, gat and gatv2 (PyG's default; the paper's code has none)."""
    learn_eps: bool = True
    """Train the weight of a node's own state in gin and gine."""
    edge_features: bool = True
    """Pass edge features, where a data set has them, to the layers that take them: all but gcn and gin."""
    attention_dropout: Probability = 0.5
    """Dropout on the attention weights of gps."""
    outer_block: bool = False
    """Batch norm, ReLU and residual connection around the layers of gps too, as in the paper's code."""
    positional_encoding: Literal["none", "random_walk"] = "none"
    """Return probabilities of random walks beside the encoded node features."""
    walk_steps: PositiveInt = 20
    """Steps of the random walks, and channels of the encoding."""


class TrainingSettings(Strict):
    """One fit: AdamW with a plateau schedule on the validation loss."""

    lr: PositiveFloat = 1e-3
    """Initial learning rate."""
    weight_decay: NotNegative = 1e-5
    """AdamW's weight decay."""
    batch_size: PositiveInt = 32
    """Graphs in a step; of a graph that is cut into parts, parts."""
    max_epochs: PositiveInt = 300
    """Cap on the epochs; the paper's code has none."""
    plateau_factor: Factor = 0.5
    """Factor of the learning rate on a plateau."""
    plateau_patience: NotNegativeInt = 5
    """Epochs without a better validation loss before the rate is cut."""
    min_lr: PositiveFloat = 1e-6
    """Training ends when the rate falls below this."""
    max_minutes: PositiveFloat | None = None
    """Time limit of a fit; one that has epochs left beyond it is recorded as `timeout`."""
    keep_cut_edges: bool = True
    """Of a graph that is cut into parts: train with the edges between parts of a batch (the paper's code does not)."""
    evaluation: Literal["whole", "per_part"] = "whole"
    """Of a graph that is cut into parts: evaluate on the whole graph, or on each part by itself (the paper's code)."""


def own_option(value: Any) -> Any:
    """Returns an option of a user's own class as records hold it; 1e-3 is a number there, as everywhere else.

    Raises:
        ValueError: If a record cannot hold it.
    """
    if isinstance(value, list):
        return [own_option(item) for item in value]
    if isinstance(value, dict):
        return {str(key): own_option(item) for key, item in value.items()}
    value = with_exponent(value)
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"expected numbers, texts, true, false, null, lists or tables of these, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    if isinstance(value, int) and abs(value) >= LIMIT:
        raise ValueError(f"expected a whole number nearer to 0 than 2^53, or one in quotes, got {value}")
    return canonical(value)


GROUPS: dict[str, type[Strict]] = {"model": ModelSettings, "training": TrainingSettings}


def no_groups(table: Any) -> Any:
    """Refuses settings in a table of their group: they are written with a dot."""
    for key, value in table.items() if isinstance(table, dict) else ():
        if isinstance(value, dict) and key in (*GROUPS, *AGGREGATORS):
            raise ValueError(f"settings are written with a dot, such as {key}.{next(iter(value), 'name')}")
    return table
