"""A user's own data: what is taken as it is, what is mapped, and what is refused with the number of the graph."""

import errno
import io
import json
import math
import os
import random
import re
import socket
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy
import pytest
import torch
from raw_sets import change_a_bit
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.transforms import ToUndirected

from ssma.data import raw
from ssma.data.own import check_graphs, load_file, load_folder, load_pyg
from ssma.data.prepare import load, prepare
from ssma.errors import STOPPED, StudyError
from ssma.study.ids import data_fingerprint, file_fingerprint

NAN = math.nan
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


class Pairs(InMemoryDataset):
    """Two kinds of graphs, as a user would write them."""

    def __init__(self, root, count, flipped=False):
        self.count, self.flipped = count, flipped
        super().__init__(root)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self):
        return "data.pt"

    def process(self):
        labels = [number % 2 for number in range(self.count)]
        self.save(
            [graph(number, 1 - y if self.flipped else y) for number, y in enumerate(labels)], self.processed_paths[0]
        )


class FirstWithoutEdges(Pairs):
    def __init__(self, root):
        super().__init__(root, 4)

    def process(self):
        first = graph(0, 0, edge_index=None, edge_attr=torch.ones(0, 2))
        others = [graph(number, number % 2, edge_attr=torch.ones(4, 2)) for number in range(1, self.count)]
        self.save([first, *others], self.processed_paths[0])


class Moving(Pairs):
    """As those that unpack an archive where it lies."""

    def __init__(self, root):
        super().__init__(root, 2)

    def process(self):
        os.chdir(self.root)
        super().process()


class Counted(Pairs):
    """As many as a file in its root says; what it makes lies in a folder of its own, as PyG's TU sets have it."""

    def __init__(self, root, flipped=False):
        super().__init__(root, int((Path(root) / "raw/count.txt").read_text()), flipped)

    @property
    def processed_dir(self):
        return str(Path(self.root) / "sub/processed")


class Beside(Pairs):
    """Reads what lies in a folder, a file that it has written, one of a package, and one in a hidden folder."""

    def __init__(self, root, folder, table="labels.csv"):
        self.folder, self.table = Path(folder), table
        super().__init__(root, 2)

    def process(self):
        own, package, hidden = Path("own.csv"), Path(pytest.__file__), Path(".hidden.csv")
        own.write_text(Path(self.folder, self.table).read_text())
        with open(own) as file, open(package.with_name("py.typed")), open(hidden, "a"):
            labels = [int(label) for label in file.read().split(",")]
        for other in sorted(self.folder.glob("more*.csv")):
            numpy.loadtxt(other)
        self.save([graph(number, y) for number, y in enumerate(labels)], self.processed_paths[0])


class Cleaning(Pairs):
    """Writes over a file of its root, as one that tidies its raw files does."""

    def __init__(self, root, place="raw/count.txt"):
        self.place = place
        super().__init__(root, 2)

    def process(self):
        Path(self.root, self.place).write_text("0")
        super().process()


class OldStyle(Pairs):
    """As most tutorials have it: what was processed is read by torch.load."""

    def __init__(self, root):
        InMemoryDataset.__init__(self, root)
        self.data, self.slices = torch.load(self.processed_paths[0])

    def process(self):
        torch.save(self.collate([graph(number, number % 2) for number in range(4)]), self.processed_paths[0])


class HandedOn(Pairs):
    """As a class often is that changes another one: what it does not name goes to that one."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, count=4, **kwargs)


class OfTheWrong(Pairs):
    """What it makes lies where no root leads."""

    def __init__(self, root=None, place=None):
        self.place = place
        super().__init__(None, 4)

    @property
    def processed_dir(self):
        return self.place


class RawOfThatName(Pairs):
    """The raw file is one that another program has processed."""

    def __init__(self, root):
        super().__init__(root, 4)

    @property
    def raw_file_names(self):
        return "processed/processed.csv"

    def process(self):
        labels = [int(line) for line in Path(self.raw_paths[0]).read_text().split()]
        self.save([graph(number, y) for number, y in enumerate(labels)], self.processed_paths[0])


class OfFiles(Pairs):
    """A graph for each file, in the order in which they are listed."""

    def __init__(self, root, how):
        self.how = how
        super().__init__(root, 4)

    def process(self):
        raw = self.raw_dir
        listed = {
            "listdir": lambda: os.listdir(raw),
            "glob": lambda: [path.name for path in Path(raw).glob("*.txt")],
            "walk": lambda: next(os.walk(raw))[2],
            "scandir": lambda: [entry.name for entry in os.scandir(raw)],
        }[self.how]()
        self.save([graph(int(name[:2]), number % 2) for number, name in enumerate(listed)], self.processed_paths[0])


class Downloaded(RawOfThatName):
    """Its server falls silent the first time."""

    times = 0

    @property
    def raw_file_names(self):
        return "labels.txt"

    def download(self):
        Downloaded.times += 1
        Path(self.raw_paths[0]).write_text("0\n1\n")
        if Downloaded.times == 1:
            raise TimeoutError
        Path(self.raw_paths[0]).write_text("0\n1\n0\n1\n")


class OnePart(Pairs):
    def __init__(self, root, split="train"):
        super().__init__(root, 4)


class PartHandedOn(OnePart):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class MapStyle(torch.utils.data.Dataset):
    """It knows its length and does not look at it again."""

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return graph(number, number % 2)


class OneObject(torch.utils.data.Dataset):
    """It hands out one graph, which it changes for each number; in place, as a simulation that goes on does."""

    def __init__(self, in_place):
        self.in_place, self.graph = in_place, graph(0, 0)

    def __len__(self):
        return 4

    def __getitem__(self, number):
        x, y = torch.full((3, 2), float(number)), torch.tensor([number % 2])
        if self.in_place:
            self.graph.x.copy_(x)
            self.graph.y.copy_(y)
        else:
            self.graph.x, self.graph.y = x, y
        return self.graph


def one_object(in_place):
    dataset = OneObject(in_place)
    return (dataset[number] for number in range(4))


def in_parts(split="train", train=None):
    return [graph(0, 0), graph(1, 1)] * {"train": 2, "all": 3}[split]


def in_batches():
    return [Batch.from_data_list([graph(0, 0.5), graph(1, 1.5)]), Batch.from_data_list([graph(2, 2.5), graph(3, 3.5)])]


def draws():
    numbers = zip(torch.rand(4), numpy.random.rand(4), [random.random() for _ in range(4)], strict=True)
    return [graph(0, 0, x=torch.tensor([own] * 3)) for own in numbers]


def elsewhere():
    """As modules that also train have it: torch.set_default_device("cuda")."""
    graphs = [graph(0, 0.5), graph(1, 1.5)]
    torch.set_default_device("meta")
    return graphs


def in_doubles():
    """As modules that compute in float64 have it."""
    torch.set_default_dtype(torch.float64)
    return [graph(0, 0.5), graph(1, 1.5)]


def waits(address):
    return urlopen(f"http://{address}/set.zip").read()


def asks():
    return [graph(0, 0), graph(1, 1)] if input("Will you download 2 GB? (y/N) ") == "y" else []


def gives_up(code=-1):
    sys.exit(code)


def graph(number, y, **changed):
    x = torch.tensor([[number, 0.5], [1.0, 2.0], [3.0, number]])
    return Data(**({"x": x, "edge_index": PATH, "y": torch.tensor([y]) if isinstance(y, int | float) else y} | changed))


def spec_of(path, **options):
    options = {"features": "own", "task": None, "metric": None, "loss": None} | options
    return {"source": "file", "path": str(path), "content": data_fingerprint(path)} | options


def read(tmp_path, graphs, **options):
    path = tmp_path / "graphs.pt"
    torch.save(graphs, path)
    return load_file(spec_of(path, **options), tmp_path / "work", None)


def test_graphs_of_a_file_by_hand(tmp_path):
    attributes = torch.arange(4.0).unsqueeze(1)
    lone = Data(x=torch.tensor([[7.0, 8.0]]), edge_index=torch.empty(2, 0), edge_attr=torch.empty(0), y=5)
    loaded = read(tmp_path, [graph(0, -3, edge_attr=attributes), lone])
    graphs = loaded.graphs
    assert graphs.x.tolist() == [[0, 0.5], [1, 2], [3, 0], [7, 8]]
    assert graphs.node_ptr.tolist() == [0, 3, 4] and graphs.edge_ptr.tolist() == [0, 4, 4]
    edges = {
        (a, b): value
        for (a, b), value in zip(graphs.edge_index.t().tolist(), graphs.edge_attr[:, 0].tolist(), strict=True)
    }
    assert edges == {(0, 1): 0, (1, 0): 1, (1, 2): 2, (2, 1): 3}
    assert (graphs.y.tolist(), loaded.label_mapping) == ([0, 1], {"-3": 0, "5": 1})
    assert (loaded.task, loaded.metric, loaded.num_outputs, loaded.features) == (
        "multiclass",
        "accuracy",
        2,
        "x of the graphs",
    )
    assert loaded.raw_files == {"graphs.pt": file_fingerprint(tmp_path / "graphs.pt")}


@pytest.mark.parametrize(
    ("labels", "mapping", "y"),
    [
        ([-1, 1, -1], {"-1": 0, "1": 1}, [0, 1, 0]),
        ([5, 1, 2], {"1": 0, "2": 1, "5": 2}, [2, 0, 1]),
        ([0, 1, 2], {"0": 0, "1": 1, "2": 2}, [0, 1, 2]),
    ],
)
def test_classes_are_mapped(tmp_path, labels, mapping, y):
    loaded = read(tmp_path, [graph(0, label) for label in labels])
    assert (loaded.label_mapping, loaded.graphs.y.tolist(), loaded.num_outputs) == (mapping, y, len(mapping))
    floats = read(tmp_path, [graph(0, float(label)) for label in labels], task="multiclass")
    assert floats.graphs.y.tolist() == y


def test_classes_that_are_one_as_doubles_stay_apart(tmp_path):
    loaded = read(tmp_path, [graph(0, label) for label in (2**53 + 1, 2**53, 2**53 + 2)])
    assert loaded.graphs.y.tolist() == [1, 0, 2] and loaded.num_outputs == 3
    largest = [torch.tensor(label, dtype=torch.uint64) for label in (2**64 - 1, 2**63)]
    assert list(read(tmp_path, [graph(0, label) for label in largest]).label_mapping) == [str(2**63), str(2**64 - 1)]


def test_whole_numbers_that_may_be_counts_are_not_taken_for_classes(tmp_path):
    with pytest.raises(StudyError, match="y could be labels or numbers; set task to multiclass"):
        read(tmp_path, [graph(0, count // 2) for count in range(22)])
    assert read(tmp_path, [graph(0, count // 2) for count in range(22)], task="multiclass").num_outputs == 11
    assert read(tmp_path, [graph(0, count // 2) for count in range(20)]).num_outputs == 10
    assert read(tmp_path, [graph(0, label // 3) for label in range(33)]).task == "multiclass"


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 1)])
def test_targets_of_any_shape_are_one_row(tmp_path, shape):
    values = [torch.tensor([0.5, NAN]).reshape(shape), torch.tensor([2.0, 3.0]).reshape(shape)]
    loaded = read(tmp_path, [graph(0, value) for value in values], loss="mse")
    assert loaded.graphs.y[1].tolist() == [2, 3] and loaded.graphs.y[0, 0] == 0.5 and loaded.graphs.y[0, 1].isnan()
    assert (loaded.task, loaded.metric, loaded.num_outputs, loaded.loss) == ("regression", "mae", 2, "mse")


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_multiple_labels(tmp_path, low):
    rows = [torch.tensor([low, 1.0]), torch.tensor([1.0, NAN])]
    loaded = read(tmp_path, [graph(0, row) for row in rows], task="multilabel", metric="auroc")
    assert loaded.graphs.y[0].tolist() == [0, 1] and loaded.graphs.y[1, 0] == 1 and loaded.graphs.y[1, 1].isnan()
    assert (loaded.metric, loaded.num_outputs) == ("auroc", 2)


def test_as_many_targets_as_nodes(tmp_path):
    of_nodes, in_a_row = torch.tensor([0.5, 1, 2]), torch.tensor([[0.5, 1, 2]])
    for y, task in ((of_nodes, "regression"), (in_a_row, "regression"), (in_a_row, None)):
        loaded = read(tmp_path, [graph(0, y), graph(1, y)], task=task)
        assert (loaded.task, loaded.graphs.y.tolist()) == ("regression", [[0.5, 1, 2]] * 2)


def test_nodes_without_edges_at_the_end_count(tmp_path):
    bare = [Data(edge_index=PATH, num_nodes=5, y=torch.tensor([label])) for label in (0, 1)]
    assert read(tmp_path, bare, features="zeros").graphs.x.tolist() == [[0]] * 10
    degrees = read(tmp_path, bare, features="degree").graphs.x
    assert degrees.argmax(dim=1).tolist() == [1, 2, 1, 0, 0] * 2
    assert read(tmp_path, bare, features="constant").features == "constant 1"


def test_whole_numbers_are_codes_and_empty_graphs_are_dropped(tmp_path):
    codes = [graph(0, label, x=torch.tensor([[0], [label], [2]])) for label in (0, 1)]
    empty = Data(x=torch.empty(0, 1, dtype=torch.int64), edge_index=torch.empty(2, 0), y=torch.tensor([0]))
    loaded = read(tmp_path, [codes[0], empty, codes[1]])
    assert loaded.graphs.x.dtype == torch.int64
    assert (loaded.graphs.num_graphs, loaded.dropped_graphs, loaded.graphs.y.tolist()) == (2, 1, [0, 1])


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        ([], {}, "no graph has a node"),
        ({"x": 1}, {}, "got dict but expected a list"),
        ([graph(0, 0), {"x": 1}], {}, "got dict in place 1 of a list but expected a list of torch_geometric.data.Data"),
        (({"x": 1}, None), {}, r"got dict in place 0 of a tuple but .* as list\(dataset\) is one"),
        ([graph(0, 0), graph(0, 0, x=None)], {}, "graph 1: it has neither x nor num_nodes"),
        ([graph(0, 0, x=None, z=torch.zeros(3))], {}, "lost; set x to the features of its nodes, or num_nodes where features makes them"),
        ([graph(0, 0), graph(0, 0, x=None, num_nodes=3)], {}, "graph 1: it has no x; set features to degree, constant, zeros"),
        ([graph(0, 0), graph(NAN, 0)], {}, "graph 1: x holds NaN"),
        ([graph(0, 0), graph(0, 1, edge_index=PATH.float())], {}, "graph 1: edge_index is torch.float32"),
        ([graph(0, 0), graph(0, 1, edge_index=PATH + 1)], {}, r"graph 1: edge_index spans 1\.\.3"),
        ([graph(0, 0), graph(0, 1, edge_index=list(PATH))], {}, r"graph 1: edge_index is list but expected a tensor, int64 \[2, E\]; convert it"),
        ([graph(0, 0), graph(0, 1, x=torch.eye(2), edge_index=torch.eye(2, dtype=torch.int64).to_sparse())], {}, r"graph 1: edge_index is torch.sparse_coo torch.int64 of shape \[2, 2\], expected int64 \[2, E\]"),
        ([graph(0, 0), graph(0, 1, x=torch.eye(2), edge_index=torch.eye(2) > 0)], {"features": "degree"}, r"graph 1: edge_index is torch.bool of shape \[2, 2\], expected int64 \[2, E\]"),
        ([graph(0, 0), graph(0, 1, edge_index=PATH.float())], {"features": "degree"}, "graph 1: edge_index is torch.fl"),
        ([graph(0, 0), graph(0, 1, edge_index=PATH[0])], {"features": "degree"}, r"graph 1: edge_index .*shape \[4\]"),
        ([graph(0, 0), graph(0, 1, edge_index=PATH - 1)], {"features": "degree"}, r"graph 1: .* spans -1\.\.1"),
        ([graph(0, 0), graph(0, 1, x=torch.empty(3, 0))], {}, "graph 1: it has no x; set features to degree"),
        ([graph(0, 0, x=torch.full((3, 1), NAN).to(torch.float8_e4m3fn))], {}, "graph 0: x holds NaN"),
        ([graph(0, 0), graph(0, None)], {}, "graph 1: it has no y"),
        ([graph(0, torch.empty(1, 0))], {"task": "regression"}, "graph 0: it has no y"),
        ([graph(0, 0), graph(0, torch.tensor([0, 1]))], {}, "graph 1: y has 2 values, but 1 in the first"),
        ([graph(0, 0.0), graph(0, 1.0)], {}, "y could be labels or numbers; set task to multiclass, multilabel or regression"),
        ([graph(0, 2.0), graph(0, 0.0), graph(0, 1.0)], {}, "y could be labels or numbers; set task to multiclass, multilabel or regression"),
        ([graph(0, 2.0), graph(0, NAN)], {}, "y could be labels or numbers"),
        ([graph(0, torch.tensor([0, 3]))], {}, "y could be labels or numbers"),
        ([graph(0, torch.tensor([0, 3]))], {"task": "multiclass"}, "y has 2 values a graph, a class is one, its number; make it that .of one-hot values y.argmax"),
        ([graph(0, torch.tensor([0, 1, 2]))], {}, "y has a value for each node, but y belongs to graphs by default; set level to node"),
        ([graph(0, torch.tensor([0.5, 1, 2]))] * 4, {}, "y has a value for each node, but y belongs to graphs by default; set level to node"),
        ([graph(0, torch.tensor([[0.5], [1], [2]]))] * 4, {}, "y has a value for each node"),
        ([graph(0, torch.tensor([0, 1, 2]))], {"task": "multiclass"}, "y has a value for each node.* set level to node"),
        ([graph(0, torch.rand(3, 2))] * 4, {}, r"y has a row for each node, but .* make y \[1, 6\]"),
        ([graph(0, torch.tensor([[0, 1], [1, 1], [1, 0]]))] * 4, {"task": "multilabel"}, "y has a row for each node"),
        ([graph(0, 0.0), graph(0, 0.5)], {"task": "multiclass"}, r"graph 1: y is \[0.5\], not a target of a multiclass task"),
        ([graph(0, 0.0), graph(0, NAN)], {"task": "multiclass"}, r"graph 1: y is \[nan\]"),
        ([graph(0, 0), graph(0, 2)], {"task": "multilabel"}, r"graph 1: y is \[2.0\], not 0 or 1"),
        ([graph(0, torch.tensor([[0.0, 1.0]])), graph(0, torch.tensor([[-1.0, 1.0]]))], {"task": "multilabel"}, r"graph 1: y is \[-1.0, 1.0\], not 0 or 1 as labels are \(or -1 and 1 throughout; NaN is missing\)"),
        ([graph(0, 0.5), graph(0, math.inf)], {}, r"graph 1: y is \[inf\]"),
        ([graph(0, 0.0), graph(0, math.inf)], {"task": "multiclass"}, r"graph 1: y is \[inf\], not a target"),
        ([graph(0, 0, edge_index=None, adj_t=torch.eye(3).to_sparse())], {}, "graph 0: its edges are in adj_t"),
        ([graph(0, 0), graph(0, "b")], {}, "graph 1: y is str but expected a dense tensor"),
        ([graph(0, 0, x=torch.eye(3).to_sparse())], {}, "graph 0: x is torch.sparse_coo torch.float32 but expected"),
        ([graph(0, 0, x=torch.nested.nested_tensor([torch.ones(2)] * 2))], {}, "graph 0: x is torch.strided .* but expected"),
        ([graph(0, 0), graph(0, 0, num_nodes=3.0)], {}, "graph 1: num_nodes is 3.0 but expected a whole number from 0"),
        ([graph(0, 0, x=None, num_nodes="3")], {}, "graph 0: num_nodes is '3' but"),
        ([graph(0, 0), graph(0, 1, num_nodes=4)], {"features": "degree"}, "graph 1: x has 3 rows, but num_nodes is 4"),
        ([graph(0, 0, x=torch.eye(3) * 1j)], {}, "graph 0: x is torch.strided torch.complex64"),
        ([graph(0, 0), graph(0, 1, x=torch.tensor(2.5))], {}, "graph 1: x is the number 2.5 .* a row for each node"),
        ([graph(0, 0, edge_attr=torch.tensor(3))], {}, "graph 0: edge_attr is the number 3.0 .* a row for each edge"),
        ([graph(0, 0), graph(0, 1)], {"metric": "auroc"}, "got metric auroc for a multiclass task; its metrics are accuracy, f1; auroc is for task: multilabel$"),
        ([graph(0, 0), graph(0, 1)], {"loss": "mse"}, "got loss mse for a multiclass task; loss is for task: regression$"),
    ],
)  # fmt: skip
def test_errors_name_the_graph(tmp_path, graphs, options, message):
    with pytest.raises(StudyError, match=message):
        read(tmp_path, graphs, **options)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint16, torch.uint64])
def test_degrees_of_edges_of_any_whole_type(tmp_path, dtype):
    loaded = read(tmp_path, [graph(0, 0), graph(0, 1, edge_index=PATH.to(dtype))], features="degree")
    assert loaded.graphs.x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]] * 2


def test_features_without_columns_are_none(tmp_path):
    """PyG's TU sets have such edge features where edges have attributes and no labels."""
    none = torch.empty(4, 0)
    assert read(tmp_path, [graph(0, 0, edge_attr=none), graph(0, 1, edge_attr=none)]).graphs.edge_attr is None
    assert read(tmp_path, [graph(0, 0, edge_attr=none), graph(0, 1)]).graphs.edge_attr is None
    with pytest.raises(StudyError, match="graph 0: edge_attr is missing"):
        read(tmp_path, [graph(0, 0, edge_attr=none), graph(0, 1, edge_attr=torch.ones(4, 2))])
    none = torch.empty(3, 0)
    made = read(tmp_path, [graph(0, 0, x=none), graph(0, 1, x=none)], features="constant")
    assert made.graphs.x.tolist() == [[1]] * 6


def test_numbers_of_graphs_count_the_empty_ones(tmp_path):
    empty = Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0), y=torch.tensor([0.25]))
    with pytest.raises(StudyError, match=r"graph 2: y is \[inf\]"):
        read(tmp_path, [empty, graph(0, 0.5), graph(0, math.inf)])
    large = torch.tensor([1e39], dtype=torch.float64)
    with pytest.raises(StudyError, match=r"graph 2: y holds \[inf\]; allowed"):
        read(tmp_path, [empty, graph(0, 0.5), graph(0, large)])
    with pytest.raises(StudyError, match="graph 2: x holds inf in column 1; allowed"):
        read(tmp_path, [empty, graph(0, 0.5), graph(0, 0.5, x=torch.stack([large * 0, large], dim=1).expand(3, -1))])
    codes = [graph(0, 0.5, edge_attr=torch.tensor([1, number, 2, 3])) for number in (0, -1)]
    with pytest.raises(StudyError, match="graph 2: edge_attr holds -1 in column 0; allowed"):
        read(tmp_path, [empty, *codes])


def test_a_number_of_nodes_may_be_one_of_numpy():
    spec = {"features": "degree", "task": None, "metric": None, "loss": None}
    counted = [graph(0, y, x=None, num_nodes=numpy.int64(4)) for y in (0, 1)]
    assert check_graphs(counted, spec, {}).graphs.node_ptr.tolist() == [0, 4, 8]


def test_a_class_whose_first_graph_hides_the_edges_of_all(tmp_path):
    """PyG's collation takes the keys of the first graph."""
    with pytest.raises(StudyError, match="graph 1: it has edge_attr but no edge; mend the data set's edges"):
        made_by("FirstWithoutEdges", tmp_path)


def test_tensors_that_belong_to_a_gradient_or_a_gpu(tmp_path, monkeypatch):
    grown = graph(0, 0.5, x=torch.ones(3, 2, requires_grad=True) * 2, edge_attr=torch.ones(4, 1, requires_grad=True))
    graphs = read(tmp_path, [grown]).graphs
    assert graphs.x.tolist() == [[2, 2]] * 3 and not (graphs.x.requires_grad or graphs.edge_attr.requires_grad)
    counted = graph(0, 0.5, num_nodes=torch.tensor([3]), edge_index=PATH.to(torch.uint64))
    assert read(tmp_path, [counted]).graphs.edge_index.tolist() == graphs.edge_index.tolist()
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    assert read(tmp_path, [graph(7, 0.5)]).graphs.x[:, 0].tolist() == [7, 1, 3]


def test_graphs_of_an_old_pyg_are_named():
    old = Data.__new__(Data)
    vars(old).update(x=torch.ones(3, 2), edge_index=PATH, y=torch.tensor([0]))
    spec = {"features": "own", "task": None, "metric": None, "loss": None}
    with pytest.raises(StudyError, match="graph 1: a version of PyG before 2 made it.*from_dict"):
        check_graphs([graph(0, 0), old], spec, {})


def test_graphs_that_pyg_has_changed_are_to_be_cloned(tmp_path):
    """ToUndirected leaves in a graph which keys are those of edges, in objects that a file may not hold."""
    directed = [graph(0, y, edge_index=PATH[:, ::2], edge_attr=torch.tensor([[0.5], [1.5]])) for y in (0, 1)]
    undirected = [ToUndirected()(own) for own in directed]
    with pytest.raises(
        StudyError, match=r"cannot be read \(it holds what PyG notes.*save \[data.clone\(\) for data in"
    ):
        read(tmp_path, undirected)
    graphs = read(tmp_path, [own.clone() for own in undirected]).graphs
    assert graphs.edge_index[:, :4].tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graphs.edge_attr[:4].tolist() == [[0.5], [0.5], [1.5], [1.5]]


class Code:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_a_file_never_runs_code(tmp_path, capfd):
    with pytest.raises(
        StudyError, match="graphs.pt: cannot be read .it holds other objects.*list of torch_geometric.data.Data"
    ):
        read(tmp_path, [Code()])
    assert "must not run" not in capfd.readouterr().out


def test_what_a_file_should_not_hold_is_named(tmp_path):
    message = "cannot be read (it holds other objects, of numpy._core.multiarray.scalar); expected a list"
    with pytest.raises(StudyError, match=re.escape(message)):
        read(tmp_path, [Data(x=torch.ones(2, 1), edge_index=PATH[:, :1], y=numpy.int64(1))])


def test_a_file_with_a_changed_bit_is_refused_and_one_without_check_sums_is_not(tmp_path):
    path = tmp_path / "graphs.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save([graph(0, 0), graph(0, 1)], path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert load_file(spec_of(path), tmp_path / "work", None).graphs.num_graphs == 2
    torch.save([graph(0, 0), graph(0, 1)], path)
    change_a_bit(path)
    with pytest.raises(StudyError, match=r"graphs.pt: cannot be read \(BadZipFile: Bad CRC-32 for file 'graphs/data/"):
        load_file(spec_of(path), tmp_path / "work", None)


def test_data_that_changed_since_the_plan_are_refused(tmp_path):
    path = tmp_path / "graphs.pt"
    torch.save([graph(0, 0), graph(0, 1)], path)
    spec = spec_of(path)
    torch.save([graph(0, 0), graph(1, 1)], path)
    with pytest.raises(StudyError, match="graphs.pt: changed after the plan was made"):
        load_file(spec, tmp_path / "work", None)
    path.unlink()
    with pytest.raises(StudyError, match="graphs.pt: cannot be read"):
        load_file(spec, tmp_path / "work", None)


def folder_with(tmp_path, **changed):
    texts = {"A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n2\n", "graph_labels": "-1\n1\n"} | changed
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"OWN_{name}.txt").write_text(text)
    return folder


def test_a_folder_in_tu_format(tmp_path):
    folder = folder_with(tmp_path)
    spec = {
        "source": "folder",
        "path": str(folder),
        "content": data_fingerprint(folder),
        "features": "degree",
        "node_attributes": False,
    }
    for _ in range(2):
        loaded = load_folder(spec, tmp_path / "work", None)
    assert loaded.graphs.node_ptr.tolist() == [0, 2, 5]  # the last node has no edge
    assert loaded.graphs.x.argmax(dim=1).tolist() == [1, 1, 1, 1, 0]
    assert (loaded.graphs.y.tolist(), loaded.label_mapping) == ([0, 1], {"-1": 0, "1": 1})
    assert sorted(loaded.raw_files) == ["OWN_A.txt", "OWN_graph_indicator.txt", "OWN_graph_labels.txt"]
    (folder / "TWO_A.txt").write_text("1, 2\n")
    spec["content"] = data_fingerprint(folder)
    with pytest.raises(StudyError, match=r"got 2 files \*_A.txt \(OWN_A.txt, TWO_A.txt\) but expected 1"):
        load_folder(spec, tmp_path / "work", None)


def test_a_folder_of_any_name_with_what_macos_leaves_in_it(tmp_path):
    folder = folder_with(tmp_path)
    for file in list(folder.iterdir()):
        file.rename(folder / file.name.replace("OWN", "set[1]"))
    spec = {"path": str(folder), "content": data_fingerprint(folder), "features": "degree"}
    (folder / "._set[1]_A.txt").write_bytes(b"\0\5\x16\7")
    files = ["set[1]_A.txt", "set[1]_graph_indicator.txt", "set[1]_graph_labels.txt"]
    assert list(load_folder(spec, tmp_path / "work", None).raw_files) == files


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refused(self, target):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    folder = folder_with(tmp_path)
    spec = {"path": str(folder), "content": data_fingerprint(folder)}
    monkeypatch.setattr(Path, "symlink_to", refused)
    told = r"work/OWN/raw: cannot be made a link to .*mine \(Operation not permitted\); .* with symbolic links"
    with pytest.raises(StudyError, match=told):
        load_folder(spec, tmp_path / "work", None)


def pyg_spec(dotted, **arguments):
    options = {"features": "own", "task": None, "metric": None, "loss": None}
    return {"source": "pyg", "class": dotted, "arguments": arguments, "content": "x"} | options


def made_by(name, work, **arguments):
    """Loads what a class or a function of this module makes."""
    return load_pyg(pyg_spec(f"{__name__}.{name}", **arguments), work, None)


def test_a_class_by_its_dotted_path(tmp_path):
    loaded = made_by("Pairs", tmp_path, count=4)
    assert loaded.graphs.y.tolist() == [0, 1, 0, 1]
    again = made_by("Pairs", tmp_path, count=4, flipped=True)
    assert again.graphs.y.tolist() == [1, 0, 1, 0]  # not what the first call left in its cache


class OfLevels(Pairs):
    def __init__(self, root, level=0.5, count=4):
        self.level = level
        super().__init__(root, count)

    def process(self):
        graphs = [graph(number, number % 2, x=torch.full((3, 1), self.level)) for number in range(self.count)]
        self.save(graphs, self.processed_paths[0])


def test_a_real_argument_of_a_class_is_a_real_number_though_it_is_whole(tmp_path):
    loaded = load_pyg(pyg_spec(f"{Pairs.__module__}.OfLevels", level=1, count=6), tmp_path, None)
    assert loaded.graphs.x.dtype == torch.float32  # whole numbers would be codes
    assert loaded.graphs.y.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_class_that_reads_by_torch_load(tmp_path):
    known = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()  # what tests before this one have allowed
    torch.serialization.add_safe_globals([kind for kind in known if kind not in (Data, DataEdgeAttr, DataTensorAttr)])
    for _ in range(2):
        assert made_by("OldStyle", tmp_path).graphs.y.tolist() == [0, 1, 0, 1]


def test_a_job_that_is_stopped_while_a_class_is_called_stays_so(tmp_path):
    with pytest.raises(SystemExit) as stopped:
        made_by("gives_up", tmp_path, code=STOPPED)
    assert stopped.value.code == STOPPED


def test_a_split_that_is_not_used_is_noted(tmp_path, monkeypatch):
    assert made_by("Pairs", tmp_path, count=4).notes == []
    monkeypatch.setattr(Pairs, "get_idx_split", lambda self: {}, raising=False)
    notes = made_by("Pairs", tmp_path, count=4).notes
    assert notes == ["splits: the class has a split of its own (get_idx_split), which is not used"]


def test_batches_are_no_graphs(tmp_path):
    with pytest.raises(
        StudyError, match=r"got a batch of 2 graphs in place 0 of a list .*; take its graphs, batch.to_d"
    ):
        made_by("in_batches", tmp_path)


def test_hypergraphs_are_no_graphs():
    sets = HyperGraphData(torch.rand(4, 2), torch.tensor([[0, 1, 2, 1, 3], [0, 0, 0, 1, 1]]), y=torch.tensor([1]))
    with pytest.raises(StudyError, match="got HyperGraphData in place 0 of a list but expected a list of .*Data"):
        check_graphs([sets, sets], pyg_spec(""), {})


def test_a_part_that_a_class_gives_by_default_is_noted(tmp_path):
    loaded = made_by("in_parts", tmp_path)
    assert loaded.graphs.num_graphs == 4 and loaded.notes == [
        "splits: the class gave the part split='train' of its data, its default, and that part alone is split; "
        "name split in arguments if it is meant"
    ]
    loaded = made_by("in_parts", tmp_path, split="all")
    assert loaded.graphs.num_graphs == 6 and loaded.notes == []


def test_a_class_that_asks_gets_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(StudyError, match="asks with {}: EOFError"):
        made_by("asks", tmp_path)
    assert sys.stdin.read() == "y\n"


def test_a_module_that_asks_gets_no_answer_and_draws_the_same_when_it_is_imported_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for name, first in (("asking", "input('Download? ')"), ("drawing", "torch.rand(4, 3, 2)")):
        (tmp_path / f"{name}_sets.py").write_text(
            f"import torch\nfrom torch_geometric.data import Data\nDRAWN = {first}\n"
            "def make():\n    return [Data(x=x, edge_index=torch.empty(2, 0), y=torch.tensor([0])) for x in DRAWN]\n"
        )
    with pytest.raises(StudyError, match="asking_sets.make with {}: EOFError"):
        load_pyg(pyg_spec("asking_sets.make"), tmp_path / "work", None)
    hashes = set()
    for _ in range(2):
        hashes.add(load_pyg(pyg_spec("drawing_sets.make"), tmp_path / "work", None).graphs.content_hash())
        del sys.modules["drawing_sets"]
    assert len(hashes) == 1


def test_a_class_that_changes_the_working_directory_leaves_it_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert made_by("Moving", Path("work")).graphs.num_graphs == 2
    assert Path.cwd() == tmp_path and (tmp_path / "work/pyg/processed/data.pt").is_file()


def test_a_class_that_sets_the_device_of_torch_leaves_it_as_it_was(tmp_path):
    loaded = made_by("elsewhere", tmp_path)
    assert loaded.graphs.y.tolist() == [[0.5], [1.5]] and torch.empty(0).device.type == "cpu"


def test_a_class_that_sets_the_type_of_torch_s_tensors_leaves_it_as_it_was(tmp_path):
    spec = pyg_spec(f"{__name__}.in_doubles") | {"features": "random"}
    try:
        made = load_pyg(spec, tmp_path, None).graphs
        assert torch.get_default_dtype() == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(made.x[0], torch.randn(32, generator=torch.Generator().manual_seed(0)))


def test_a_class_that_draws_makes_the_same_data_again(tmp_path):
    one, other = (made_by("draws", tmp_path / name).graphs for name in "ab")
    assert one.content_hash() == other.content_hash() and one.x.unique().numel() == 12


@pytest.mark.parametrize("how", ["listdir", "glob", "walk", "scandir"])
def test_a_class_that_lists_a_folder_gets_the_names_in_order(tmp_path, monkeypatch, how):
    (tmp_path / "root/raw").mkdir(parents=True)
    for number in (12, 15, 10, 14, 19, 11, 18, 13, 17, 16):
        (tmp_path / f"root/raw/{number}.txt").touch()
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda *place: sorted(listdir(*place), reverse=True))
    loaded = made_by("OfFiles", tmp_path / "work", root=str(tmp_path / "root"), how=how)
    assert loaded.graphs.x[::3, 0].tolist() == list(range(10, 20))
    assert os.listdir(tmp_path / "root/raw")[0] == "19.txt"


def unreachable(root):
    if not Path(root, "raw/a.txt").exists():
        raise URLError("Name or service not known")
    return [graph(0, 0), graph(1, 1)]


def test_a_class_that_downloads_without_a_network_gets_a_copy_of_its_root(tmp_path):
    told = "without a network name a copy of its root, with what it downloads elsewhere, as root in arguments"
    with pytest.raises(StudyError, match=f"urlopen error Name or service not known>; {told}$"):
        made_by("unreachable", tmp_path / "work")
    (tmp_path / "copy/raw").mkdir(parents=True)
    (tmp_path / "copy/raw/a.txt").touch()
    assert made_by("unreachable", tmp_path / "work", root=str(tmp_path / "copy")).graphs.num_graphs == 2


def test_a_class_whose_server_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(raw, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        with pytest.raises(
            StudyError, match=r"own.waits .*TimeoutError: timed out; without a network let it read files that are here$"
        ):
            made_by("waits", tmp_path, address=address)
    assert socket.getdefaulttimeout() is None


def test_a_download_that_broke_off_is_made_anew_and_a_whole_one_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Downloaded, "times", 0)
    with pytest.raises(StudyError, match="TimeoutError"):
        made_by("Downloaded", tmp_path / "work")
    assert made_by("Downloaded", tmp_path / "work").graphs.num_graphs == 4
    assert made_by("Downloaded", tmp_path / "work").graphs.num_graphs == 4
    assert Downloaded.times == 2


def test_a_root_is_read_without_what_was_processed_there_and_never_written(tmp_path):
    root, work = tmp_path / "root", tmp_path / "work"
    (root / "raw").mkdir(parents=True)
    (root / "raw/count.txt").write_text("4")
    Counted(str(root))
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert (root / "sub/processed/data.pt") in before
    for flipped, y in ((True, [1, 0, 1, 0]), (False, [0, 1, 0, 1])):
        assert made_by("Counted", work, root=str(root), flipped=flipped).graphs.y.tolist() == y
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    (root / "raw/count.txt").unlink()
    with pytest.raises(StudyError, match="count.txt"):
        made_by("Counted", work, root=str(root))


def test_a_root_is_not_written_through_the_links_to_its_files(tmp_path):
    raw = tmp_path / "root/raw"
    raw.mkdir(parents=True)
    (raw / "count.txt").write_text("4")
    wrong = f"Cleaning.*PermissionError.*a link to {raw}/count.txt, which is only read; write a file of another name"
    with pytest.raises(StudyError, match=wrong):
        made_by("Cleaning", tmp_path / "work", root=str(tmp_path / "root"))
    assert (raw / "count.txt").read_text() == "4"
    loaded = made_by("Cleaning", tmp_path / "work", root=str(tmp_path / "root"), place="raw/new.txt")
    assert loaded.graphs.num_graphs == 2 and [path.name for path in raw.iterdir()] == ["count.txt"]


def test_a_root_may_hold_links_to_folders_and_the_results_themselves(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/count.txt").write_text("2")
    root = tmp_path / "root"
    root.mkdir()
    (root / "raw").symlink_to(tmp_path / "shared")
    (root / "back").symlink_to(root)
    for _ in range(2):
        assert made_by("Counted", root / "results", root=str(root)).graphs.y.tolist() == [0, 1]
    links = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_symlink()}
    assert links == {"raw", "back", "results/pyg/raw/count.txt"}


def test_a_root_that_a_class_hands_on_is_only_read_too(tmp_path):
    root, work = tmp_path / "root", tmp_path / "work"
    Pairs(str(root), 4)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for arguments in ({"root": str(root)}, {}):
        loaded = made_by("HandedOn", work, flipped=True, **arguments)
        assert loaded.graphs.y.tolist() == [1, 0, 1, 0]  # not what was processed there
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_class_that_processes_nothing_has_its_keywords_for_itself(tmp_path):
    spec = pyg_spec("torch_geometric.datasets.FakeDataset", num_graphs=4, avg_num_nodes=5, task="graph", weight=[2])
    assert load_pyg(spec, tmp_path, None).graphs.num_graphs == 4


@pytest.mark.parametrize("place", ["elsewhere/processed", "work/pyg/cache"])
def test_a_class_that_would_take_older_data_for_its_own_is_refused(tmp_path, place):
    message = f"OfTheWrong: it keeps what it processes in {tmp_path / place}/data.pt, where older .* an argument root"
    with pytest.raises(StudyError, match=message):
        made_by("OfTheWrong", tmp_path / "work", place=str(tmp_path / place))
    assert made_by("OfTheWrong", tmp_path / "work", place=str(tmp_path / "work/pyg/processed_x")).graphs.num_graphs == 4


def test_raw_files_that_another_program_has_processed_are_raw(tmp_path):
    raw = tmp_path / "root/raw/processed"
    raw.mkdir(parents=True)
    (raw / "processed.csv").write_text("1 1 0")
    for _ in range(2):
        assert made_by("RawOfThatName", tmp_path / "work", root=str(tmp_path / "root")).graphs.y.tolist() == [1, 1, 0]


def test_files_that_a_class_reads_and_is_not_known_by_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data/raw").mkdir(parents=True)
    Path("data/raw/labels.csv").write_text("1,0,1,0")
    Path("data/labels.csv").symlink_to("raw/labels.csv")

    def notes(**arguments):
        loaded = made_by("Beside", tmp_path / "work", folder="data", **arguments)
        assert loaded.graphs.y.tolist() == [1, 0, 1, 0]
        return loaded.notes

    assert notes() == []  # in raw, by whatever name
    Path("data/labels.csv").unlink()
    Path("data/labels.csv").write_text("1,0,1,0")
    told = "files: the class read data/labels.csv, and the data are not made anew after a change there"
    assert notes() == [f"{told}; name each in arguments, or keep it in raw below a root"]
    assert notes(table=str(tmp_path / "data/labels.csv")) == []
    for number in range(4):
        Path(f"data/more{number}.csv").write_text("1")
    assert "the class read data/labels.csv, data/more0.csv, data/more1.csv and 2 more, and" in notes()[0]
    monkeypatch.chdir(tmp_path / "work")
    assert f"the class read {tmp_path}/data/labels.csv, " in made_by("Beside", tmp_path, folder="../data").notes[0]


def test_a_part_that_a_class_hands_on_is_noted(tmp_path):
    notes = made_by("PartHandedOn", tmp_path).notes
    assert len(notes) == 1 and "the class gave the part split='train' of its data, its default" in notes[0]
    assert made_by("PartHandedOn", tmp_path, split="train").notes == []


def test_a_class_ends_at_its_length(tmp_path):
    assert made_by("MapStyle", tmp_path).graphs.y.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["OneObject", "one_object"])
def test_a_class_that_hands_out_one_object_for_all_graphs(tmp_path, name, in_place):
    """All graphs were the last one."""
    graphs = made_by(name, tmp_path, in_place=in_place).graphs
    assert graphs.x[::3, 0].tolist() == [0, 1, 2, 3]
    assert graphs.y.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("dotted", "arguments", "message"),
    [
        ("no_such_module.Set", {}, "no_such_module.Set with {}: ModuleNotFoundError"),
        ("torch_geometric.data.NoSuchSet", {}, "NoSuchSet with {}: AttributeError"),
        ("torch_geometric.data.Data", {}, "no graph has a node"),
        (f"{__name__}.Pairs", {"colour": 1}, "TypeError.*colour"),
        (f"{__name__}.gives_up", {}, "gives_up with {}: SystemExit: -1"),
    ],
)
def test_a_class_that_cannot_be_had(tmp_path, dotted, arguments, message):
    with pytest.raises(StudyError, match=message):
        load_pyg(pyg_spec(dotted, **arguments), tmp_path, None)


def prepared(tmp_path, graphs, scheme="shuffle", splits=None, **options):
    """Returns the card of graphs that are prepared in the folder ``o``, by default with three folds."""
    torch.save(graphs, tmp_path / "g.pt")
    splits = splits or {"scheme": scheme, "folds": 3, "seed": 0}
    entry = {"id": "o-1", "label": "o", "spec": spec_of(tmp_path / "g.pt", **options), "splits": splits}
    return prepare(tmp_path / "o", entry, None)


def leaked_of(same, folder):
    """Returns, split by split, how many of the same graphs are held out while one of them is in the training part."""
    return [
        len(same & {*split["validation"], *split["test"]}) if same & set(split["train"]) else 0
        for split in load(folder).splits
    ]


def test_copies_across_the_parts_are_counted(tmp_path):
    # numbers 0..5, each a graph of its own, but 4 and 5 are graph 0 again, one with another label
    made = [graph(number, number % 2) for number in (0, 1, 2, 3)] + [graph(0, 0), graph(0, 1)]
    card = prepared(tmp_path, made)
    copies = {0, 4, 5}
    leaked = leaked_of(copies, tmp_path / "o")
    assert card["copies"] == {"graphs": 3, "leaked": leaked}
    assert max(leaked) > 0
    assert any(
        note.startswith("3 graphs are exact copies") and f"up to {max(leaked)} " in note for note in card["notes"]
    )
    card = prepared(tmp_path, made[:4])
    assert card["copies"] == {"graphs": 0, "leaked": [0, 0, 0]}
    assert not any("copies" in note for note in card["notes"])


def test_isomorphic_graphs_across_the_parts_are_counted(tmp_path):
    # graphs 4 and 5 are graph 0 with its nodes in another order
    order, place = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0])
    made = [graph(number, number % 2) for number in (0, 1, 2, 3)]
    made += [graph(0, y, x=made[0].x[order], edge_index=place[PATH]) for y in (0, 1)]
    card = prepared(tmp_path, made)
    like = {0, 4, 5}
    leaked = leaked_of(like, tmp_path / "o")
    assert (card["copies"]["graphs"], card["alike"]) == (2, {"graphs": 3, "leaked": leaked}) and max(leaked) > 0
    told = "3 graphs are alike to message passing as isomorphic ones are, targets aside; of the validation and test graphs "
    assert f"{told}of a split up to {max(leaked)} like one in its training part" in card["notes"]
    card = prepared(tmp_path, made[:4])
    assert card["alike"] == {"graphs": 0, "leaked": [0, 0, 0]} and not any("alike" in note for note in card["notes"])


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ([0, 1, 0, 1, 0, 1], "gets more than 5 of 6 right"),  # by the class that most have
        ([0, 1, 0, 1, 0, 0], None),
        ([1.5, 9.0, 9.5, 9.0, 2.5, 4.5], "has an mae below 0.5 over all"),  # 1 + 0 + 2 away from the median, over six
        ([1.5, 9.0, 9.5, 9.0, NAN, 4.5], "has an mae below 0.6 over all"),  # 1.5 + 1.5 over five
        ([1.5, 9.0, 9.5, 9.0, NAN, 1.5], None),
        ([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 2, None),
    ],
)
def test_what_alike_graphs_of_different_targets_leave_to_reach_is_noted(tmp_path, targets, told):
    order, place = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0])
    kinds = [{}, {"x": graph(0, 0).x[order], "edge_index": place[PATH]}]  # graph 0, and with its nodes in another order
    numbers = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 1)]
    made = [graph(number, torch.tensor([y]), **kinds[kind]) for (number, kind), y in zip(numbers, targets, strict=True)]
    task = "multilabel" if isinstance(targets[0], list) else None
    found = [
        note for note in prepared(tmp_path, made, task=task)["notes"] if note.startswith("y: ") and "alike" in note
    ]
    count = 2 if NAN in targets else 3
    note = f"y: {count} graphs are like others with another target; no network that treats them alike {told}"
    assert len(found) == (told is not None) and all(line == note for line in found)


def test_graphs_that_differ_in_edges_or_edge_features_are_no_copies(tmp_path):
    first = torch.ones(4, 1)
    made = [
        graph(0, 0, edge_attr=first),
        graph(0, 0, edge_attr=2 * first),
        graph(0, 1, edge_attr=first, edge_index=PATH[:, [0, 0, 1, 1]]),
    ]
    assert prepared(tmp_path, made)["copies"]["graphs"] == 0


def test_copies_with_edges_in_another_order_are_counted(tmp_path):
    values, order = torch.arange(4.0).unsqueeze(1), [3, 2, 1, 0]
    made = [
        graph(0, 0, edge_attr=values),
        graph(0, 1, edge_index=PATH[:, order], edge_attr=values[order]),
        graph(0, 1, edge_index=PATH[:, order], edge_attr=values),
    ]
    assert prepared(tmp_path, made)["copies"]["graphs"] == 2


def test_copies_with_repeated_edges_in_another_order_and_with_another_zero_are_counted(tmp_path):
    twice = PATH[:, [0, 0, 1, 2, 3]]
    values = torch.tensor([[0.0, 2.0], [0.0, 1.0], [3.0, 3.0], [4.0, 4.0], [5.0, 5.0]])
    x = torch.tensor([[0.0], [1.0], [0.0]])
    made = [
        graph(0, 0, x=x, edge_index=twice, edge_attr=values),
        graph(0, 1, x=x, edge_index=twice, edge_attr=values[[1, 0, 2, 3, 4]]),
        graph(0, 1, x=x.where(x > 0, -0.0), edge_index=twice, edge_attr=values),
        graph(0, 0, x=x, edge_index=twice, edge_attr=values[[1, 2, 0, 3, 4]]),
    ]
    assert prepared(tmp_path, made)["copies"]["graphs"] == 3


def test_numbers_of_edges_are_no_features(tmp_path):
    """Four nodes 0, 0, 0, 1 and the edge 1-0, and two nodes 0, 0 and the edges 0-1, 1-0: the same numbers in a row."""
    four = Data(torch.tensor([[0], [0], [0], [1]]), torch.tensor([[1], [0]]), y=torch.tensor([0]))
    two = Data(torch.tensor([[0], [0]]), torch.tensor([[1, 0], [0, 1]]), y=torch.tensor([1]))
    five = Data(torch.zeros(5, 1, dtype=torch.int64), torch.empty(2, 0), y=torch.tensor([0]))
    looped = Data(torch.zeros(1, 1, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int64), y=torch.tensor([1]))
    copies = prepared(tmp_path, [four, two, five, looped])["copies"]
    assert copies == {"graphs": 0, "leaked": [0, 0, 0]}


def test_a_target_that_is_known_once_has_no_spread(tmp_path):
    y = [torch.tensor([float(number), 4.0 if number == 5 else NAN]) for number in range(6)]
    labels = prepared(tmp_path, [graph(number, own) for number, own in enumerate(y)])["labels"]
    assert (labels["mean"], labels["std"][1], labels["missing"]) == ([2.5, 4.0], None, [0, 5])
    assert labels["std"][0] == pytest.approx(3.5**0.5)


def test_a_node_with_outgoing_edges_is_not_isolated(tmp_path):
    one_way = [graph(number, number % 2, edge_index=torch.tensor([[0], [1]])) for number in range(6)]
    degree = prepared(tmp_path, one_way)["in_degree"]
    assert (degree["isolated_nodes"], degree["mean"]) == (6, 1 / 3)  # the third node of each


def test_a_class_that_is_never_trained_is_noted(tmp_path):
    card = prepared(tmp_path, [graph(number, int(number == 0) * 7) for number in range(6)])
    lacking = [number for number, split in enumerate(load(tmp_path / "o").splits) if 0 not in split["train"]]
    assert len(lacking) == 2  # where graph 0 tests and where it validates
    assert f"class 7 is missing in the training part of split {', '.join(map(str, lacking))}" in card["notes"]


def test_codes_that_are_never_trained_are_noted(tmp_path):
    # split 0 trains on the third fold, 1 on the first, 2 on the second
    rare, pairs = {1: [7, 0], 2: [7, 0], 4: [9, 3]}, torch.zeros(4, 1, dtype=torch.int64)

    def notes(x_of):
        made = [
            graph(
                number,
                number % 2,
                x=x_of(torch.tensor([rare.get(number, [0, 0]), [0, 0], [0, 0]])),
                edge_attr=pairs + (number == 9),
            )
            for number in range(12)
        ]
        return prepared(tmp_path, made)["notes"]

    told = "in no training graph, so that nothing is learned of them"
    found = notes(lambda x: x)
    assert f"x: codes {told}: 1 in 2 graphs of split 0, 2 in 1 graph of split 1, 2 in 1 graph of split 2" in found
    assert f"edge_attr: codes {told}: 1 in 1 graph of split 0, 1 in 1 graph of split 2" in found
    columns = f"x: columns with values other than 0 {told}: 1 in 1 graph of split 1, 1 in 1 graph of split 2"
    assert columns in notes(lambda x: x.float())
    assert not any(note.startswith("x:") for note in notes(lambda x: torch.zeros(3, 1)))


@pytest.mark.parametrize(
    ("metric", "best"), [("accuracy", "gets more than 5 of 6 right"), ("f1", "has an f1 above 0.844 over all")]
)
def test_graphs_in_no_part_are_not_counted_among_what_alike_ones_leave_to_reach(tmp_path, metric, best):
    (tmp_path / "s.json").write_text('{"train": [0, 1], "validation": [2, 3], "test": [4, 5]}')
    file = {"scheme": "file", "file": str(tmp_path / "s.json"), "content": file_fingerprint(tmp_path / "s.json")}
    labels, kinds = [0, 1, 0, 1, 0, 0, 2, 2], [0, 1, 2, 0, 3, 4, 1, 2]  # 0 and 3 are alike, as 6 is to 1, 7 to 2
    made = [
        graph(number, y, x=torch.full((3, 1), kind)) for number, (y, kind) in enumerate(zip(labels, kinds, strict=True))
    ]
    card = prepared(tmp_path, made, splits=file, task="multiclass", metric=metric)
    told = f"y: 2 graphs are like others with another target; no network that treats them alike {best}"
    assert [note for note in card["notes"] if note.startswith("y:")] == [told] and card["num_outputs"] == 2


def test_codes_of_graphs_that_are_in_no_part_are_not_noted(tmp_path):
    (tmp_path / "s.json").write_text('{"train": [0, 1], "validation": [2, 3], "test": [4, 5]}')
    file = {"scheme": "file", "file": str(tmp_path / "s.json"), "content": file_fingerprint(tmp_path / "s.json")}

    def notes(strange):
        x = [torch.full((3, 1), 7 if number in strange else number % 2) for number in range(8)]
        made = [graph(number, number % 2, x=own) for number, own in enumerate(x)]
        found = prepared(tmp_path, made, splits=file, task="multiclass")["notes"]
        return [note for note in found if note.startswith("x:")]

    assert notes((6, 7)) == []
    assert notes((4, 6)) == [
        "x: codes in no training graph, so that nothing is learned of them: 1 in 1 graph of split 0"
    ]


SINGLE = "y: one value alone in column 2; loss and mae are means over all columns, which it makes smaller; leave it out"


def test_targets_far_from_0_or_without_a_spread_are_noted(tmp_path):
    near, far, same = [-1.0, 1.0, NAN] * 3, [-99.0, -101.0, -103.0] * 3, [7.5] * 9
    rows = torch.tensor([near, far, same]).t()
    card = prepared(tmp_path, [graph(number, row.unsqueeze(0)) for number, row in enumerate(rows)])
    found = [note for note in card["notes"] if note[:2] == "y:"]
    assert found == [  # 101 / sqrt(3)
        "y: learned as it is, and its mean is many standard deviations from 0: 58.3 in column 1; subtract it, or fits "
        "spend their steps on it",
        SINGLE,
    ]


@pytest.mark.parametrize(("spread", "told"), [(99.0, False), (101.0, True)])
def test_targets_of_other_scales_are_noted(tmp_path, spread, told):
    small, large, same = [-1.0, 1.0, NAN] * 3, [spread, -spread, NAN] * 3, [7.5] * 9
    rows = torch.tensor([small, large, same]).t()
    card = prepared(tmp_path, [graph(number, row.unsqueeze(0)) for number, row in enumerate(rows)])
    found = [note for note in card["notes"] if note[:2] == "y:"]
    note = (  # 101 * sqrt(6 / 5)
        "y: loss and mae are means over all columns, and the standard deviation is 1.1 in column 0 but 111 in column 1; "
        "bring them to one scale, or little is learned and told of the small ones"
    )
    assert found == [SINGLE, *[note] * told]


@pytest.mark.parametrize(("unit", "told"), [(0.004, "0.004"), (0.006, None), (499.0, None), (501.0, "501")])
def test_targets_of_a_size_that_is_not_learned_are_noted(tmp_path, unit, told):
    """A linear function of the features was learned to a third of its deviation at 1 and at 300, and not at all at 0.001
    and at 10,000."""
    values = [unit * math.sqrt(7 / 8) * sign for sign in (-1, 1) * 4]
    graphs = [graph(number, torch.tensor([[value]])) for number, value in enumerate(values)]
    found = [note for note in prepared(tmp_path, graphs, task="regression")["notes"] if note[:2] == "y:"]
    note = (
        f"y: learned as it is, and its standard deviation is {told} in column 0; give it in another unit, in which that "
        "is about 1, or little is learned"
    )
    assert found == [note] * (told is not None)


@pytest.mark.parametrize("name", ["x", "edge_attr"])
@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ((1.0, 99.0), None),
        ((1.0, 101.0), "its size is 1 in column 0 but 101 in column 1 (root mean square); bring the columns to one"),
        ((499.0, 499.0), None),
        ((400.0, 501.0), "its size is up to 501, in column 1 (root mean square); give it in another unit"),
        ((0.004, 0.001), "its size is up to 0.004, in column 0 (root mean square); give it in another unit"),
        ((0.006, 0.006), None),
        ((0.0, 0.0), None),
    ],
)
def test_features_of_sizes_that_are_not_learned_are_noted(tmp_path, name, sizes, told):
    """Also where a column is 0 in most rows, as a label is that few nodes have."""
    rows = torch.tensor([sizes, [-size for size in sizes], (0.0, 0.0), (0.0, 0.0)])
    changed = {"x": {"x": rows[:3]}, "edge_attr": {"edge_attr": rows}}[name]
    card = prepared(tmp_path, [graph(number, number % 2, **changed) for number in range(9)])
    found = [note for note in card["notes"] if note.startswith(f"{name}: used")]
    assert len(found) == (told is not None) and all(told in note for note in found)


def test_codes_have_no_size(tmp_path):
    x = torch.tensor([[1, 1000], [0, 1000], [1, 1000]])
    assert not any("size" in note for note in prepared(tmp_path, [graph(n, n % 2, x=x) for n in range(9)])["notes"])


@pytest.mark.parametrize(
    ("labels", "told"),
    [((-1, 0, 1), 1), ((-1, 0, 1, 2), 2), ((-1, 1, 0), 1), ((-1, 1), None), ((-1, 0), None), ((-2, -1, 0), None)],
)
def test_a_class_that_may_be_what_is_not_known_is_noted(tmp_path, labels, told):
    """As in files of Tox21: a third class, and an accuracy that counts the guess of what is not known."""
    card = prepared(tmp_path, [graph(number, labels[number % len(labels)]) for number in range(12)])
    note = (
        f"labels: -1 is a class, of {12 // len(labels)} graphs, beside 0 to {told}; if it stands for a label that is not "
        "known, leave these graphs out"
    )
    assert [line for line in card["notes"] if line.startswith("labels")] == [note] * (told is not None)
    assert card["num_outputs"] == len(labels)


def test_one_label_is_stratified_as_a_class_is(tmp_path):
    """It was shuffled, and the shares were those of chance: rare ones lacked in a part, and the set was refused."""
    made = [graph(number, torch.tensor([[float(number % 11 == 0)]])) for number in range(66)]
    card = prepared(tmp_path, made, "stratified", task="multilabel", metric="auroc")
    y = load(tmp_path / "o").graphs.y.flatten()
    for split in load(tmp_path / "o").splits:
        assert [int(y[split[part]].sum()) for part in ("train", "validation", "test")] == [2, 2, 2]
    assert not any("shuffled" in note for note in card["notes"])
    with pytest.raises(StudyError, match="class 1 has 2 members, too few for 3 stratified folds"):
        prepared(tmp_path, made[:20], "stratified", task="multilabel", metric="auroc")


@pytest.mark.parametrize("y", [[[0.0], [1.0], [NAN]], [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]])
def test_labels_that_are_several_or_missing_are_shuffled_and_noted(tmp_path, y):
    made = [graph(number, torch.tensor([y[number % 3]])) for number in range(33)]
    card = prepared(tmp_path, made, "stratified", task="multilabel", metric="auroc")
    assert "splits: stratified needs one class per item, so the items were shuffled" in card["notes"]


def test_a_class_that_is_too_small_is_named_as_in_the_data(tmp_path):
    graphs = [graph(number, [1, 2, 7][min(number // 4, 2)]) for number in range(10)]
    with pytest.raises(StudyError, match="class 7 has 2 members, too few for 3"):
        prepared(tmp_path, graphs, "stratified")


def test_what_is_not_used_of_the_graphs_is_noted(tmp_path):
    loaded = read(tmp_path, [graph(0, 0, edge_weight=torch.ones(4)), graph(0, 1, pos=torch.ones(3, 2))])
    assert loaded.notes == ["not used of the graphs: edge_weight, pos"]
    assert read(tmp_path, [graph(0, 0), graph(0, 1, num_nodes=3)]).notes == []


def test_numbers_that_float32_does_not_tell_apart_are_noted(tmp_path):
    x = [torch.tensor([[number, 1e9 + number]], dtype=torch.float64) for number in range(12)]
    y = [torch.tensor([number / 7, 2**24 + number], dtype=torch.float64) for number in range(12)]
    lengths = [None, *(torch.tensor([1e9 + number], dtype=torch.float64) for number in range(1, 12))]
    edges = [{"edge_index": None if own is None else [[0], [0]], "edge_attr": own} for own in lengths]
    loaded = read(tmp_path, [graph(0, own_y, x=own_x, **rest) for own_y, own_x, rest in zip(y, x, edges, strict=True)])
    remedy = "subtract a constant to keep them apart"
    found = {"x": "11 of 12 in column 1", "edge_attr": "10 of 11 in column 0", "y": "5 of 12 in column 1"}
    assert loaded.notes == [
        f"{name}: different numbers that are one as float32: {count}; {remedy}" for name, count in found.items()
    ]
    assert loaded.graphs.y[:, 1].tolist() == [2**24 + number for number in (0, 0, 2, 4, 4, 4, 6, 8, 8, 8, 10, 12)]


def test_numbers_that_are_too_small_for_float32_need_another_remedy(tmp_path):
    x = [torch.tensor([[1e9 + number, -number * 1e-50, number]], dtype=torch.float64) for number in range(12)]
    notes = read(tmp_path, [graph(0, number / 2, x=own, edge_index=None) for number, own in enumerate(x)]).notes
    told = "x: different numbers that are one as float32: 11 of 12 in column"
    assert notes == [f"{told} 0; subtract a constant to keep them apart",
                     f"{told} 1; give them in a smaller unit to keep them apart"]  # fmt: skip


def test_edges_that_are_not_what_they_seem_are_noted(tmp_path):
    # the first graph: 0-1 twice and once back, 1-2 one way, a loop; of 5 + 4 edges 1 has no way back, 1 repeats
    odd = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 2, 2]])
    graphs = [graph(0, 0, edge_index=odd), *(graph(number, number % 2) for number in range(1, 6))]
    notes = prepared(tmp_path, graphs)["notes"]
    expected = (
        "edges: of 25, 1 have none that leads back, 1 are repetitions, 1 are self-loops; they are used as they are"
    )
    assert expected in notes
    bare = [graph(number, number % 2, edge_index=None) for number in range(6)]
    none = "edges: there are none, so that no node has a neighbour whose message could be aggregated"
    assert none in prepared(tmp_path, bare)["notes"]
    assert not any(note.startswith("edges") for note in prepared(tmp_path, graphs[1:])["notes"])


def test_nodes_of_which_gcn_makes_nothing_are_noted(tmp_path):
    # of a tree whose edges lead to the root 0, the leaves 1 and 2; of a tree whose edges lead to the leaves, the root
    up, down = torch.tensor([[1, 2], [0, 0]]), torch.tensor([[0, 0], [1, 2]])
    both = [graph(number, number % 2) for number in range(4)]
    told = (
        "nodes: {} have edges to others and none into them; gcn normalises by the edges into both ends, so that it "
        "leaves their messages out unless model.self_loops is true"
    )
    notes = prepared(tmp_path, [graph(4, 0, edge_index=up), graph(5, 1, edge_index=down), *both])["notes"]
    assert told.format(3) in notes
    looped = torch.cat([up, torch.tensor([[1, 2], [1, 2]])], dim=1)
    notes = prepared(tmp_path, [graph(4, 0, edge_index=looped), graph(5, 1), *both])["notes"]
    assert not any(note.startswith("nodes") for note in notes)


@pytest.mark.parametrize("most", [2**24, 2**63 - 1])
def test_codes_that_no_memory_holds_are_refused(tmp_path, most):
    def graphs(code):
        x = torch.tensor([[0], [1], [code]])
        return [graph(0, number % 2, x=x) for number in range(6)]

    with pytest.raises(StudyError, match=f"x: got whole numbers up to {most}; they are codes"):
        prepared(tmp_path, graphs(most))
    card = prepared(tmp_path, graphs(2**24 - 1))
    assert card["x"] == {"kind": "categorical", "cardinalities": [2**24]}


BLOCKS = [[1, 9, 8, 5], [10, 2, 3, 7], [4, 0, 11, 6]]  # of 12 items shuffled by seed 0: the folds


@pytest.mark.parametrize(
    ("y_of", "options", "message"),
    [
        (lambda number: 3, {"task": "multiclass"}, "labels: every item is of one class"),
        (
            lambda number: torch.tensor([5.0, 1e9 + number], dtype=torch.float64),
            {"task": "regression"},
            "targets: all are the same number as float32, .* or subtract a constant if their difference is small",
        ),
        (
            lambda number: torch.tensor([number * 1e-50], dtype=torch.float64),
            {"task": "regression"},
            "targets: all are the same number as float32, .* or give them in a smaller unit if their difference is small",
        ),
        (
            lambda number: NAN if number in BLOCKS[0] else number / 2,
            {"task": "regression"},
            "splits: mae is undefined on the validation part of split 2, where no target is known",
        ),
        (
            lambda number: int(number in (1, 4)),
            {"task": "multilabel", "metric": "auroc"},
            "splits: auroc is undefined on the validation part of split 0, where no label has both classes",
        ),
    ],
)
def test_what_no_fit_could_be_judged_on_is_refused(tmp_path, y_of, options, message):
    graphs = [graph(number, y_of(number)) for number in range(12)]
    with pytest.raises(StudyError, match=message):
        prepared(tmp_path, graphs, **options)
    assert not (tmp_path / "o/card.json").exists()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("train", "there is nothing to learn from"), ("validation", "{} is undefined on"), ("test", "{} is undefined on")],
)
def test_parts_of_a_file_s_splits_that_say_nothing_are_refused(tmp_path, wrong, told):
    """Each fold is a validation part too, but not each part that a file names."""
    parts = {"train": [0, 1, 2, 3], "validation": [4, 5, 6, 7], "test": [8, 9, 10, 11]}
    (tmp_path / "s.json").write_text(json.dumps(parts))
    file = {"scheme": "file", "file": str(tmp_path / "s.json"), "content": file_fingerprint(tmp_path / "s.json")}
    for metric, task, useless, what in (
        ("auroc", "multilabel", 1.0, "no label has both classes"),
        ("mae", "regression", NAN, "no target is known"),
    ):
        graphs = [graph(n, torch.tensor([useless if n in parts[wrong] else n % 2.0])) for n in range(12)]
        message = f"splits: {told.format(metric)} the {wrong} part of split 0, where {what}"
        with pytest.raises(StudyError, match=message):
            prepared(tmp_path, graphs, splits=file, task=task, metric=metric)


def test_targets_that_are_never_trained_are_noted(tmp_path):
    # split 0 trains on the third fold, where the second target is unknown; below, the second label has one class there
    y = [torch.tensor([number / 2, NAN if number in BLOCKS[2] else 1.0 - number]) for number in range(12)]
    notes = prepared(tmp_path, [graph(number, own) for number, own in enumerate(y)])["notes"]
    assert "training parts lack known values of targets: of 2, 1 in split 0" in notes
    labels = [torch.tensor([number % 2.0, float(number in (1, 10))]) for number in range(12)]
    notes = prepared(tmp_path, [graph(number, own) for number, own in enumerate(labels)], task="multilabel")["notes"]
    assert "training parts lack both classes of labels: of 2, 1 in split 0" in notes


def test_labels_that_the_metric_leaves_out_are_noted(tmp_path):
    # the first label has both classes in every fold, the second only in fold 1: test of split 1, validation of split 0
    y = [torch.tensor([float(number in (1, 10, 4)), float(number == 2)]) for number in range(12)]
    notes = prepared(tmp_path, [graph(number, own) for number, own in enumerate(y)], task="multilabel")["notes"]
    assert notes[-1] == (
        "ap is taken over the labels with both classes: of 2, 1 in the test part of split 0, "
        "1 in the validation part of split 1, 1 in the validation part of split 2, 1 in the test part of split 2"
    )
