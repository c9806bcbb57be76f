"""The theory experiments of a study, typed: which run, at which size. Torch-free, as a plan is."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ssma.study.ids import canonical, code_fingerprint, digest
from ssma.study.settings import AGGREGATORS, LIMIT, Number, PositiveFloat, PositiveInt, Strict, no_value_twice

THEORY_VERSION = 2
"""Part of every experiment's identity: a change of what it computes or records raises it, and all run again."""

CODE_OF_THEORY = ("aggr/*.py", "theory/*.py", "bench/paper.py", "study/ids.py")

AtLeastTwo = Annotated[int, Field(ge=2, lt=LIMIT), Number]
Bounded = Literal["tanh", "sigmoid", "softplus", "sine"]
Activation = Literal["relu", "tanh", "sigmoid", "softplus", "silu", "gelu", "sine", "square"]


class Experiment(Strict):
    """Settings whose lists name no value twice."""

    _once = field_validator("*")(no_value_twice)


class SetTraining(Experiment):
    """Networks that are trained on SumOfGram: multisets of n standard normal vectors, target |x_1 + ... + x_n|^2."""

    n: AtLeastTwo = 3
    """Vectors of a multiset."""
    d: PositiveInt = 3
    """Their width."""
    aggregators: list[str] = ["sum", "ssma"]
    """What aggregates; `sum` is always among them. `ssma` has one slot per vector and the full compressor."""
    activations: Annotated[list[Activation], Field(min_length=1)] = ["relu", "tanh"]
    """Activation before the aggregation and in the head. All but relu are analytic; gelu is the exact one."""
    train_sets: AtLeastTwo = 1000
    """Multisets to train on, drawn anew for each seed."""
    test_sets: PositiveInt = 1000
    """Multisets to test on, and as many to choose the learning rate by, drawn anew for each seed."""
    epochs: PositiveInt = 100
    """Passes over the training multisets."""
    batch_size: PositiveInt = 100
    """Multisets in a step."""
    lr: Annotated[list[PositiveFloat], Field(min_length=1)] = [0.005]
    """Learning rates of Adam at the start, each falls to 0 by a cosine; of several, each network has its best one."""
    seeds: PositiveInt = 3
    """Repeats; all aggregators of a repeat share the data, so that they are compared in pairs."""

    @field_validator("aggregators")
    @classmethod
    def _known_and_with_the_baseline(cls, names: list[str]) -> list[str]:
        wrong = [name for name in names if name not in AGGREGATORS]
        if wrong:
            raise ValueError(f"unknown aggregator '{wrong[0]}'; allowed: {', '.join(AGGREGATORS)}")
        if "sum" not in names:
            raise ValueError("must have 'sum', the baseline of every comparison")
        return names

    @model_validator(mode="after")
    def _room_for_the_signal(self) -> "SetTraining":
        least = min(self.m) if isinstance(self.m, list) else self.m  # each kind has one or several
        if "ssma" in self.aggregators and least <= self.n:
            needed = f"n + 1 = {self.n + 1}, the smallest representation that ssma has"
            raise ValueError(f"m must be at least {needed}, got {least}")
        return self


class SumOfGram(SetTraining):
    """Train and test error over representation sizes and activations."""

    m: Annotated[list[PositiveInt], Field(min_length=1)] = [16, 64]
    """Sizes of the representation; that of `ssma` is the largest possible that is not above."""


class Mixing(SetTraining):
    """Measured mixed second derivatives of trained networks, beside the bound for sums."""

    m: PositiveInt = 16
    """Size of the representation; that of `ssma` is the largest possible that is not above."""
    activations: Annotated[list[Activation], Field(min_length=1)] = ["tanh", "softplus"]
    """Activation before the aggregation and in the head. All but relu are analytic; gelu is the exact one."""
    multisets: PositiveInt = 50
    """Test multisets, of each seed, at which derivatives are taken."""


class HigherOrder(Experiment):
    """The mixed n-th derivatives of a circular convolution of n signals."""

    n: Annotated[list[Annotated[int, Field(ge=2, le=3), Number]], Field(min_length=1)] = [2, 3]
    """Numbers of signals: 2, 3 or both."""
    length: Annotated[int, Field(ge=2, le=6), Number] = 3
    """Length of a signal."""


class Separation(Experiment):
    """Distance of untrained representations against the Wasserstein distance of the multisets, and its limit."""

    n: AtLeastTwo = 4
    """Vectors of a multiset (two in the construction of the limit)."""
    d: PositiveInt = 4
    """Their width."""
    pairs: PositiveInt = 40
    """Random pairs per draw, of each kind."""
    draws: PositiveInt = 5
    """Draws of weights and multisets."""
    halvings: Annotated[int, Field(ge=2, le=20), Number] = 14
    """In the construction of the limit, the distance is 1/2, 1/4, ... , so often halved."""


class Growth(Experiment):
    """How large representations are over n and d, and how the bound of mixing grows with the parameters."""

    n: Annotated[list[Annotated[int, Field(ge=2, le=8), Number]], Field(min_length=3)] = [2, 4, 8]
    """Vectors of a multiset, at least three numbers."""
    d: Annotated[list[Annotated[int, Field(ge=2, le=16), Number]], Field(min_length=3)] = [2, 4, 8, 16]
    """Their widths, at least three."""
    m: PositiveInt = 16
    """Size of the representation of the networks whose bound is taken; they have the smallest n and d."""
    activations: Annotated[list[Bounded], Field(min_length=1)] = ["tanh", "softplus"]
    """Their activations, of those whose first two derivatives are bounded."""
    scales: Annotated[list[PositiveFloat], Field(min_length=2)] = [0.25, 0.5, 1.0, 2.0, 4.0]
    """What all their parameters are multiplied by."""
    multisets: PositiveInt = 50
    """Multisets in a mean."""
    draws: AtLeastTwo = 5
    """Draws of weights and multisets; intervals are over them."""


class Theory(Strict):
    """Experiments on what sums and SSMA can represent. A key that is there runs, `{}` with its defaults."""

    sum_of_gram: SumOfGram | None = None
    """Train and test error on a task that needs pairs of neighbours."""
    mixing: Mixing | None = None
    """How much of a pair's mixed derivative trained networks have."""
    higher_order: HigherOrder | None = None
    """The n-th mixed derivatives of the convolution."""
    separation: Separation | None = None
    """Whether representations tell multisets apart, and how stably."""
    growth: Growth | None = None
    """What grows with what power, beside the paper's formulas."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_not_empty(cls, settings: Any) -> Any:
        if settings is None:
            raise ValueError("is empty; write {} to run it with its defaults, or leave it out")
        return settings


def plan_theory(theory: Theory, seed: int) -> dict[str, dict[str, Any]]:
    """Returns the experiments of a study by name: id, seed and settings.

    The id is a readable prefix and a hash of all that can change a number, as that of an arm.
    """
    experiments = {}
    for name, settings in theory:
        if settings is not None:
            content = canonical({"settings": settings.model_dump(mode="json"), "seed": seed})
            identity = content | {"name": name, "version": THEORY_VERSION}
            experiments[name] = {"id": f"{name}-{digest(identity)}", "name": name, **content}
    return experiments


def theory_fingerprint() -> str:
    """Returns a hash of the package code that makes the numbers of experiments."""
    return code_fingerprint(CODE_OF_THEORY)
