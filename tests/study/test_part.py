from ssma.study.config import parse_study
from ssma.study.part import arms_of, baselines, part
from ssma.study.plan import make_plan

STUDY = {
    "study": "parts",
    "datasets": {
        "a": {"source": "synthetic", "task": "product_classification", "num_graphs": 30},
        "b": {"source": "synthetic", "task": "product_regression", "num_graphs": 30},
    },
    "layers": ["gcn", "pna"],
    "ablations": {
        "aggregator": {"axes": {"aggregator": ["sum", "pna", "ssma"]}, "datasets": ["a"]},
        "kappa": {"axes": {"ssma.kappa": [2, 3]}},
        "width": {"axes": {"model.hidden_channels": [10, 20], "aggregator": ["sum", "ssma"]}, "layers": ["gcn"]},
        "depth": {"axes": {"model.num_layers": [2, 4]}, "fixed": {"aggregator": "ssma"}, "datasets": ["a"]},
    },
}


def planned(**changes):
    plan = make_plan(parse_study(STUDY | changes))
    return plan, {arm["label"]: arm["id"] for arm in plan["arms"]}


def test_a_baseline_differs_in_the_aggregation_only():
    plan, ids = planned()
    sums = {label: ids[label] for label in ids if "/ sum" in label}
    kappa = baselines(plan, "kappa")
    assert kappa == {
        ids["a / gcn / ssma (kappa=2)"]: sums["a / gcn / sum"],
        ids["a / gcn / ssma (kappa=3)"]: sums["a / gcn / sum"],
        ids["a / pna / ssma (kappa=2)"]: ids["a / pna / pna"],
        ids["a / pna / ssma (kappa=3)"]: ids["a / pna / pna"],
    }
    width = baselines(plan, "width")
    for dataset in "ab":
        for size in (10, 20):
            ours, other = (f"{dataset} / gcn / {name} (hidden_channels={size})" for name in ("ssma", "sum"))
            assert width[ids[ours]] == ids[other]
    assert len(width) == 4


def test_the_default_depth_has_the_baseline_and_another_has_none():
    plan, ids = planned()
    found = baselines(plan, "depth")
    assert found == {
        ids["a / gcn / ssma"]: ids["a / gcn / sum"],
        ids["a / pna / ssma"]: ids["a / pna / pna"],
    }


def test_a_search_of_the_network_must_agree_and_one_of_the_aggregator_need_not():
    plan, ids = planned(tune={"space": {"ssma.compression": [0.1, 0.5], "training.lr": [0.1, 0.2]}})
    assert baselines(plan, "kappa")[ids["a / gcn / ssma (kappa=2)"]] == ids["a / gcn / sum"]
    own = STUDY["ablations"] | {"kappa": STUDY["ablations"]["kappa"] | {"fixed": {"training.lr": 0.001}}}
    plan, _ = planned(ablations=own, tune={"space": {"training.lr": [0.1, 0.2]}})
    assert baselines(plan, "kappa") == {}


def test_a_search_of_a_class_whose_name_begins_as_a_group_of_settings_is_none_of_the_network():
    own = {"models": {"class": "ssma.aggr.PowerMeanAggregation", "p": 1.0}}
    ablations = {"own": {"axes": {"aggregator": ["sum", "models"]}, "datasets": ["a"], "layers": ["gcn"]}}
    space = {"models.p": [1.0, 2.0]}
    plan, ids = planned(aggregators=own, ablations=ablations, tune={"space": space})
    assert baselines(plan, "own") == {ids["a / gcn / models"]: ids["a / gcn / sum"]}


def test_a_part_is_a_plan_with_the_baselines_of_its_arms():
    plan, ids = planned()
    assert len(arms_of(plan, "depth")) == 6
    piece = part(plan, "depth")
    assert sorted(arm["id"] for arm in piece["arms"]) == sorted(
        ids[f"a / {name}"]
        for name in ("gcn / ssma (num_layers=2)", "gcn / ssma", "gcn / sum",
                     "pna / ssma (num_layers=2)", "pna / ssma", "pna / pna")
    )  # fmt: skip
    assert list(piece["datasets"]) == ["a"] and list(piece["ablations"]) == ["depth"]
    assert len(plan["ablations"]) == 4
