import math
from pathlib import Path

import pytest
import torch

from ssma.data.synthetic import TASKS, load, typed_weights
from ssma.errors import StudyError

NOWHERE = Path("unused")
SMALL = {"num_nodes": 12, "num_features": 4, "degree": 4, "seed": 3}


def make(task, **options):
    sizes = {} if task == "node_classification" else {"num_graphs": 40}
    return load({"source": "synthetic", "task": task, **SMALL, **sizes, **options}, NOWHERE, None)


def neighbours(graphs):
    """Yields, for each graph, its features and for each node its list of (neighbour, edge type)."""
    for g in range(graphs.num_graphs):
        x = graphs.x[graphs.node_ptr[g] : graphs.node_ptr[g + 1]].tolist()
        around = [[] for _ in x]
        for edge in range(int(graphs.edge_ptr[g]), int(graphs.edge_ptr[g + 1])):
            source, target = graphs.edge_index[:, edge].tolist()
            around[target].append((source, None if graphs.edge_attr is None else int(graphs.edge_attr[edge, 0])))
        yield x, around


def product_scores(graphs, feature):
    return [[math.prod(x[j][feature] for j, _ in near) for near in around] for x, around in neighbours(graphs)]


def means(scores):
    return torch.tensor([sum(row) / len(row) for row in scores], dtype=torch.float64)


def difference(graphs):
    first, second = product_scores(graphs, 0), product_scores(graphs, 1)
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_same_data(task):
    first, again, other = (make(task, seed=seed).graphs.content_hash() for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("degree", [3, 4])
def test_graphs_are_simple_undirected_and_sparse(task, degree):
    graphs = make(task, degree=degree).graphs
    for g in range(graphs.num_graphs):
        edges = [tuple(edge) for edge in graphs.edge_index[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]].t().tolist()]
        assert len(edges) == len(set(edges))
        assert set(edges) == {(b, a) for a, b in edges}
        assert all(a != b for a, b in edges)
    degrees = graphs.in_degrees()
    assert degrees.min() >= 2 and degrees.max() <= degree


def test_product_classification_is_a_product():
    loaded = make("product_classification")
    scores = means(difference(loaded.graphs))
    assert torch.equal(loaded.graphs.y, (scores.argsort().argsort() >= 20).long())
    assert loaded.graphs.y.bincount().tolist() == [20, 20]
    assert (loaded.task, loaded.metric, loaded.direction) == ("multiclass", "accuracy", "maximize")


def test_product_regression_is_the_same_signal():
    loaded = make("product_regression", num_graphs=200)
    assert loaded.graphs.x.equal(make("product_classification", num_graphs=200).graphs.x)
    scores, y = means(difference(loaded.graphs)), loaded.graphs.y[:, 0].double()
    slope = (y[1] - y[0]) / (scores[1] - scores[0])
    assert torch.allclose(y, y[0] + slope * (scores - scores[0]), atol=1e-4)
    assert abs(float(y.mean())) < 0.3 and 0.7 < float(y.std()) < 1.4
    assert (loaded.task, loaded.metric, loaded.direction) == ("regression", "mae", "minimize")


def test_regression_targets_do_not_depend_on_the_other_graphs():
    few, many = make("product_regression"), make("product_regression", num_graphs=60)
    few_scores, many_scores = means(difference(few.graphs)), means(difference(many.graphs))
    slopes = [
        (data.graphs.y[1, 0] - data.graphs.y[0, 0]) / (score[1] - score[0])
        for data, score in ((few, few_scores), (many, many_scores))
    ]
    assert float(slopes[0]) == pytest.approx(float(slopes[1]), rel=1e-4)


def test_typed_classification_uses_node_and_edge_types():
    loaded = make("typed_classification", num_graphs=42)
    graphs, weights = loaded.graphs, typed_weights(4, 3).tolist()
    scores = means(
        [[math.prod(weights[x[j][0]][edge] for j, edge in near) for near in around] for x, around in neighbours(graphs)]
    )
    assert torch.equal(graphs.y, scores.argsort().argsort() // 14)
    assert graphs.y.bincount().tolist() == [14, 14, 14]
    assert (graphs.x.dtype, graphs.edge_attr.dtype, loaded.num_outputs) == (torch.int64, torch.int64, 3)
    assert set(graphs.edge_attr.flatten().tolist()) == {0, 1, 2}
    for _, around in neighbours(graphs):
        types = {(node, other): kind for node, near in enumerate(around) for other, kind in near}
        assert all(types[b, a] == kind for (a, b), kind in types.items())


def test_node_classification_labels_nodes():
    loaded = make("node_classification", num_nodes=60)
    scores = torch.tensor(difference(loaded.graphs)[0], dtype=torch.float64)
    assert torch.equal(loaded.graphs.y, (scores.argsort().argsort() >= 30).long())
    assert (loaded.level, loaded.graphs.num_graphs) == ("node", 1)


def test_multilabel_has_missing_labels_and_both_classes():
    loaded = make("multilabel")
    y = loaded.graphs.y
    assert y.isnan().sum(dim=0).tolist() == [10, 10, 10, 10]
    for target in range(4):
        scores, known = means(product_scores(loaded.graphs, target)), ~y[:, target].isnan()
        expected = (scores.argsort().argsort() >= 20).float()
        assert torch.equal(y[known, target], expected[known])
        assert set(y[known, target].tolist()) == {0.0, 1.0}
    assert (loaded.task, loaded.metric, loaded.num_outputs) == ("multilabel", "ap", 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"task": "node_classification", "num_graphs": 5}, "node_classification: it has no num_graphs"),
        ({"task": "nonsense"}, "got 'nonsense', allowed are product_classification"),
        ({"task": "product_classification", "num_features": 1}, "num_features is 1, it must be at least 2"),
        ({"task": "multilabel", "num_features": 3}, "num_features is 3, it must be at least 4"),
        ({"task": "product_regression", "num_nodes": 5}, "num_nodes is 5, it must be at least 8"),
    ],
)
def test_refuses_wrong_options(spec, message):
    with pytest.raises(StudyError, match=message):
        load({"source": "synthetic", **spec}, NOWHERE, None)
