"""Arms on a graph that is cut into parts: settings that no other arm has, and what cannot be asked of them."""

import pytest

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.cost import _reference, _size, plan_cost
from ssma.study.paths import Results
from ssma.study.plan import make_plan

ARXIV = {"source": "ogbn", "name": "ogbn-arxiv"}
PRODUCTS = {"source": "ogbn", "name": "ogbn-products"}
STUDY = {
    "study": "s",
    "layers": ["gcn"],
    "datasets": {"papers": ARXIV, "MUTAG": {"source": "tu"}},
    "ablations": {"a": {"axes": {"aggregator": ["sum"]}}},
}
FOR_PARTS = {"keep_cut_edges", "evaluation"}


def plan_of(**changes):
    return make_plan(parse_study(STUDY | changes))


def training(plan, dataset="papers", layer="gcn"):
    arm = next(arm for arm in plan["arms"] if (arm["dataset"], arm["layer"]) == (dataset, layer))
    return arm["settings"]["training"]


def test_the_number_of_parts_is_known_without_being_named():
    plan = plan_of(datasets={"papers": ARXIV, "goods": PRODUCTS, "few": ARXIV | {"parts": 5, "parts_seed": 2}})
    found = {label: dataset["spec"] for label, dataset in plan["datasets"].items()}
    assert {label: (spec["parts"], spec["parts_seed"], spec["undirected"]) for label, spec in found.items()} == {
        "papers": (128, 0, True),
        "goods": (1024, 0, True),
        "few": (5, 2, True),
    }
    named = plan_of(datasets={"papers": ARXIV | {"parts": 128}})
    assert named["datasets"]["papers"]["id"] == plan["datasets"]["papers"]["id"]
    others = ({"parts": 64}, {"parts_seed": 1}, {"undirected": False})
    assert len({plan_of(datasets={"papers": ARXIV | other})["datasets"]["papers"]["id"] for other in others}) == 3


@pytest.mark.parametrize(
    ("protocol", "layer", "expected"),
    [
        (None, "gcn", (True, "whole")),
        ("fair", "gcn", (True, "whole")),
        ("fair", "gps", (True, "per_part")),
        ("paper", "gcn", (False, "per_part")),
        ("paper", "gps", (False, "per_part")),
    ],
)
def test_how_each_protocol_trains_and_evaluates(protocol, layer, expected):
    found = training(plan_of(protocol=protocol, layers=[layer]), layer=layer)
    assert (found["keep_cut_edges"], found["evaluation"]) == expected


def test_only_arms_on_parts_have_their_settings():
    plain = plan_of(datasets={"MUTAG": {"source": "tu"}})
    for changes in (
        {"training": {"keep_cut_edges": False, "evaluation": "per_part"}},
        {"ablations": {"a": {"axes": {"aggregator": ["sum"]}, "fixed": {"training.evaluation": "per_part"}}}},
        {"ablations": {"a": {"axes": {"aggregator": ["sum"], "training.keep_cut_edges": [True, False]}}}},
    ):
        plan = plan_of(**changes)
        assert not FOR_PARTS & training(plan, "MUTAG").keys()
        assert training(plan).keys() >= FOR_PARTS
        assert [arm["id"] for arm in plan["arms"] if arm["dataset"] == "MUTAG"] == [plain["arms"][0]["id"]]
    assert len(plan["arms"]) == 3  # two of papers, one of MUTAG


def test_settings_that_do_nothing_where_nodes_have_the_targets_make_no_arms_and_no_trials():
    nodes = {"source": "synthetic", "task": "node_classification"}
    graphs = {"source": "synthetic", "task": "product_classification", "num_graphs": 60}
    datasets = {"papers": ARXIV, "nodes": nodes, "graphs": graphs}
    plain = {arm["dataset"]: arm["id"] for arm in plan_of(datasets=datasets)["arms"]}
    for key, counts in (("model.readout", (1, 1, 2)), ("training.batch_size", (2, 1, 2))):
        values = ["sum", "max"] if key == "model.readout" else [7, 32]
        plan = plan_of(datasets=datasets, ablations={"a": {"axes": {"aggregator": ["sum"], key: values}}})
        found = {label: [arm["id"] for arm in plan["arms"] if arm["dataset"] == label] for label in datasets}
        assert tuple(map(len, found.values())) == counts
        assert found["nodes"] == [plain["nodes"]] and plain["graphs"] in found["graphs"]
        searched = plan_of(datasets=datasets, tune={"space": {key: values}})["arms"]
        assert tuple(arm["trials"] for arm in searched) == tuple(2 if count == 2 else 0 for count in counts)
    with pytest.raises(StudyError, match="tune.space.model.readout: no arm searches it"):
        plan_of(datasets={"papers": ARXIV}, tune={"space": {"model.readout": ["sum", "max"]}})


def test_edges_between_parts_make_no_arms_and_no_trials_where_a_batch_is_one_part():
    keep = {"training.keep_cut_edges": [True, False]}
    axes = {"a": {"axes": {"aggregator": ["sum"], "training.batch_size": [1, 2], **keep}}}
    found = [arm["settings"]["training"] for arm in plan_of(datasets={"papers": ARXIV}, ablations=axes)["arms"]]
    assert [(one["batch_size"], one.get("keep_cut_edges")) for one in found] == [(1, None), (2, True), (2, False)]
    (arm,) = plan_of(datasets={"papers": ARXIV}, tune={"space": keep | {"training.batch_size": [1, 2]}})["arms"]
    assert arm["trials"] == 3
    alone = {"datasets": {"papers": ARXIV}, "ablations": {"a": {"axes": {"aggregator": ["sum"], **keep}}}}
    for changes in ({"training": {"batch_size": 1}}, {"datasets": {"papers": ARXIV | {"parts": 1}}}):
        with pytest.raises(StudyError, match="keep_cut_edges: has no effect"):
            plan_of(**alone | changes)


def test_slots_of_messages_and_of_features_are_one_arm_in_gin_whose_messages_are_the_features():
    axes = {"aggregator": ["ssma"], "ssma.slots_from": ["messages", "features"]}
    arms = plan_of(datasets={"papers": ARXIV}, layers=["gcn", "gin"], ablations={"a": {"axes": axes}})["arms"]
    assert [(arm["layer"], arm["settings"]["aggregator"]["slots_from"]) for arm in arms] == [
        ("gcn", "messages"), ("gcn", "features"), ("gin", "messages"),
    ]  # fmt: skip


def test_what_cannot_be_asked():
    with pytest.raises(StudyError, match="training.evaluation: got whole, but gps attends among all nodes.*per_part"):
        plan_of(layers=["gcn", "gps"])
    plan_of(layers=["gcn", "gps"], training={"evaluation": "per_part"})
    plan_of(layers=["gps"], datasets={"MUTAG": {"source": "tu"}})
    with pytest.raises(StudyError, match="tune.space.training.evaluation: cannot be tuned.*how results are measured"):
        plan_of(tune={"space": {"training.evaluation": ["whole", "per_part"]}})
    plan_of(tune={"space": {"training.keep_cut_edges": [True, False]}})
    with pytest.raises(StudyError, match="datasets.papers.parts: Input should be greater than 0, got 0"):
        plan_of(datasets={"papers": ARXIV | {"parts": 0}})
    with pytest.raises(StudyError, match="datasets.papers.name: Input should be 'ogbn-arxiv' or 'ogbn-products'"):
        plan_of(datasets={"papers": {"source": "ogbn", "name": "ogbn-mag"}})


def test_an_epoch_costs_what_its_parts_do(tmp_path):
    plan = plan_of(datasets={"papers": ARXIV}, training={"max_epochs": 10, "batch_size": 2})
    (arm,) = plan["arms"]
    papers = plan["datasets"]["papers"]
    cost = _reference(arm, papers, _size(papers, Results(tmp_path)))
    # 10 epochs of 64 steps of 4 layers on 2 x 169343 / 128 nodes of width 64
    assert cost == pytest.approx(10 * 64 * 4 * (7.3e-4 + 2.2e-8 * 2 * 169343 / 128 * 64))
    assert plan_cost(plan, Results(tmp_path)).unknown == ()
