"""The data sets of a study file, typed, and how they are split."""

import os
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from ssma.study.settings import NotNegativeInt, Number, PositiveInt, Strict, Text, no_groups, no_value_twice, own_option

DEFAULT_PARTS = {"ogbn-arxiv": 128, "ogbn-products": 1024}
"""Parts of a graph where a study names none."""

METRICS = {"multiclass": ("accuracy", "f1"), "regression": ("mae", "rmse"), "multilabel": ("ap", "auroc")}
"""Task of one's own data -> its metrics, of which the first is the default."""

Argument = Annotated[Any, BeforeValidator(own_option)]
"""Of a user's own class, whose types the study file does not know."""

Place = Annotated[Text, AfterValidator(os.path.expanduser)]
"""A path; ~ is the home folder, as in a shell."""

Columns = Annotated[
    list[NotNegativeInt],
    Field(min_length=1),
    BeforeValidator(no_value_twice),
    BeforeValidator(
        lambda value: value if isinstance(value, list | None) else [value],
        json_schema_input_type=NotNegativeInt | Annotated[list[NotNegativeInt], Field(min_length=1)],
    ),
    AfterValidator(sorted),
]
"""Numbers of columns, or one of them alone; their order means nothing."""


OF_FOLDS = ("folds", "scheme", "seed")


class Splits(Strict):
    """k-fold partitions: test = fold f, validation = fold f + 1, training = the rest; or those of a file."""

    folds: Annotated[int, Field(ge=3, le=10_000), Number] = 10
    """Number of folds."""
    scheme: Literal["stratified", "shuffle"] = "stratified"
    """`shuffle` is the unstratified one of the paper's code."""
    seed: Annotated[int, Field(ge=0, lt=2**32), Number] = 0
    """Seed of the shuffle."""
    use: PositiveInt | None = None
    """Use the first so many splits only; all by default."""
    file: Place | None = None
    """In a data set's entry: JSON with your own splits instead of folds."""

    @model_validator(mode="after")
    def _file_makes_no_folds(self) -> "Splits":
        idle = [key for key in OF_FOLDS if key in self.model_fields_set]
        if self.file is not None and idle:
            raise ValueError(f"{', '.join(idle)} must be left out, since file names the splits")
        return self

    @model_serializer(mode="wrap")
    def _folds_or_file(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        idle = ("file",) if self.file is None else OF_FOLDS
        return {key: value for key, value in handler(self).items() if key not in idle}


class Dataset(Strict):
    """What every data set has."""

    has_official_split: ClassVar[bool] = False

    fixed: dict[str, Any] = {}
    """Settings of every arm on this data set, e.g. `model.readout: sum`."""
    splits: Splits | None = None
    """Instead of the study's splits, as a whole: what it leaves out has its default."""

    _dots = field_validator("fixed", mode="before")(no_groups)


class OwnDataset(Dataset):
    """Your own data: what is learned of them, and how it is measured."""

    newer: ClassVar[tuple[str, ...]] = ("target",)
    """Keys that are left out of a plan where a study does not give them, so that older data sets keep their ids."""

    target: Columns | None = None
    """Column of y, from 0, or a list of columns, to be learned; all by default."""

    @model_validator(mode="after")
    def _is_of_one_task(self) -> "OwnDataset":
        """What the data tell of a task that the study does not name is known when they are prepared."""
        metric, loss, task = (getattr(self, key, None) for key in ("metric", "loss", "task"))
        if task and metric and metric not in METRICS[task]:
            raise ValueError(f"got metric {metric} with task: {task}, whose metrics are {', '.join(METRICS[task])}")
        known = {task} if task else {name for name, metrics in METRICS.items() if metric in metrics}
        if loss and known and "regression" not in known:
            of = f"task: {task}" if task else f"metric: {metric}"
            raise ValueError(f"got loss {loss} with {of}; loss is for a regression, leave it out")
        return self

    @model_serializer(mode="wrap")
    def _without_newer(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        known = type(self).model_fields
        return {
            key: value for key, value in handler(self).items() if key not in self.newer or value != known[key].default
        }


class SyntheticDataset(Dataset):
    """A task generated from a seed."""

    source: Literal["synthetic"]
    task: Literal[
        "product_classification", "product_regression", "typed_classification", "node_classification", "multilabel"
    ]
    """What is to be predicted."""
    num_graphs: PositiveInt | None = None
    """Graphs (not for node_classification, which is one graph)."""
    num_nodes: PositiveInt = 16
    """Mean number of nodes of a graph."""
    num_features: PositiveInt = 4
    """Features of a node; of typed_classification, node types."""
    degree: PositiveInt = 4
    """Mean number of neighbours."""
    seed: NotNegativeInt = 0
    """Seed of the generator."""

    @model_validator(mode="after")
    def _can_be_made(self) -> "SyntheticDataset":
        labels = self.task == "multilabel"
        least = {"num_features": 4 if labels else 2, "degree": 2, "num_nodes": 2 * self.degree}
        least |= {"num_graphs": 4} if labels and self.num_graphs else {}
        few = {key: (getattr(self, key), number) for key, number in least.items() if getattr(self, key) < number}
        if few:
            told = (f"{key} is {value}, it must be at least {number}" for key, (value, number) in few.items())
            raise ValueError("; ".join(told))
        return self


class TextDataset(Dataset):
    """Graphs in text files in the format of the TU collection."""

    node_attributes: bool = False
    """Add the continuous node attributes."""
    features: Literal["labels", "degree", "constant", "zeros", "random"] = "labels"
    """Node features: the set's own labels, or made ones for a set that has none."""


class TUDataset(TextDataset):
    """A data set of the TU collection, through PyG."""

    source: Literal["tu"]
    name: Text | None = None
    """Name in the collection; the key in `datasets` by default."""


class ZINCDataset(Dataset):
    """The 12k subset of ZINC, through PyG."""

    has_official_split: ClassVar[bool] = True

    source: Literal["zinc"]


class LRGBDataset(Dataset):
    """Peptides of the Long Range Graph Benchmark, through PyG."""

    has_official_split: ClassVar[bool] = True

    source: Literal["lrgb"]
    name: Literal["Peptides-func", "Peptides-struct"]
    """Which one: 10 functions, or 11 structural numbers."""
    loss: Literal["l1", "mse"] | None = None
    """Loss of Peptides-struct: l1 by default; the paper's code has mse."""

    @model_validator(mode="after")
    def _func_has_one_loss(self) -> "LRGBDataset":
        if self.name == "Peptides-func" and self.loss is not None:
            raise ValueError("Peptides-func has labels, so that its loss is fixed; leave loss out")
        return self


class OGBGDataset(Dataset):
    """Molecules of the Open Graph Benchmark, through its own loader."""

    has_official_split: ClassVar[bool] = True

    source: Literal["ogbg"]
    name: Literal["ogbg-molhiv", "ogbg-molpcba"]
    """Which one."""


class OGBNDataset(Dataset):
    """A node task of the Open Graph Benchmark, through its own loader: one large graph, cut into parts."""

    has_official_split: ClassVar[bool] = True

    source: Literal["ogbn"]
    name: Literal["ogbn-arxiv", "ogbn-products"]
    """Which one."""
    undirected: bool = True
    """Every edge in both directions, once, without self-loops; else the edges as OGB has them."""
    parts: PositiveInt | None = None
    """Parts that METIS cuts the graph into; 128 of arxiv and 1024 of products by default, as in the paper's code."""
    parts_seed: Annotated[int, Field(ge=0, lt=2**31 - 1), Number] = 0
    """Seed of METIS."""


class FolderDataset(TextDataset, OwnDataset):
    """Your own data as text files in the format of the TU collection."""

    newer: ClassVar[tuple[str, ...]] = ("target", "metric", "loss")

    source: Literal["folder"]
    path: Place
    """Folder with NAME_A.txt, NAME_graph_indicator.txt, NAME_graph_labels.txt, ..."""
    metric: Literal["accuracy", "f1", "mae", "rmse"] | None = None
    """accuracy or f1 (classes), mae or rmse (graph attributes); the first one by default."""
    loss: Literal["l1", "mse"] | None = None
    """Loss of a regression on graph attributes: mse by default with the metric rmse, else l1."""


class GraphsDataset(OwnDataset):
    """Your own data as PyG graphs."""

    newer: ClassVar[tuple[str, ...]] = ("target", "level")

    level: Literal["graph", "node"] = "graph"
    """What y belongs to: graphs, or the nodes of one graph."""
    features: Literal["own", "degree", "constant", "zeros", "random"] = "own"
    """Node features: the graphs' x, or made ones."""
    task: Literal["multiclass", "regression", "multilabel"] | None = None
    """What y is; by default a class where it is an integer, targets where it is real numbers that are not all whole."""
    metric: Literal["accuracy", "f1", "mae", "rmse", "ap", "auroc"] | None = None
    """accuracy or f1 (multiclass), mae or rmse (regression), ap or auroc (multilabel); the first one of the task by
    default."""
    loss: Literal["l1", "mse"] | None = None
    """Loss of a regression: mse by default with the metric rmse, else l1."""


class FileDataset(GraphsDataset):
    """A list of torch_geometric.data.Data that torch.save wrote."""

    source: Literal["file"]
    path: Place
    """The file."""


class PyGDataset(GraphsDataset):
    """A data set class of PyG, or of your own."""

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True, serialize_by_alias=True)

    source: Literal["pyg"]
    class_: str = Field(alias="class")
    """Dotted path of a torch_geometric.data.InMemoryDataset."""
    arguments: dict[str, Argument] = {}
    """Arguments of the call; a root is only read, what the class makes goes to a folder of the results."""


AnyDataset = Annotated[
    SyntheticDataset
    | TUDataset
    | ZINCDataset
    | LRGBDataset
    | OGBGDataset
    | OGBNDataset
    | FolderDataset
    | FileDataset
    | PyGDataset,
    Field(discriminator="source"),
]
