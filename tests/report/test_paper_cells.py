from pathlib import Path

import pytest

from ssma import paper
from ssma.report.paper_cells import (
    VPA_CODE,
    alike,
    candidates,
    departures,
    match,
    paper_dataset,
    paper_layer,
    treatment,
)
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.reading import read_study

SPACE = {
    "ssma.kappa": [2, 3, 4], "ssma.compression": [0.1, 0.25, 0.5, 0.75, 1.0], "ssma.selection": ["attention", "random"],
}  # fmt: skip


def plan_of(axes=None, layers=("gcn",), dataset=None, space=SPACE, **changes):
    study = {
        "study": "it", "protocol": "paper", "datasets": dataset or {"MUTAG": {"source": "tu"}}, "layers": list(layers),
        "ablations": {"main": {"axes": axes or {"aggregator": ["sum", "ssma"]}}},
        "tune": {"trials": 30, "selection": "test", "space": space},
    }  # fmt: skip
    return make_plan(parse_study(study | changes))


def entry(table, dataset, layer, aggregator, variant=""):
    (found,) = [
        row
        for row in paper.results(table)
        if (row.dataset, row.layer, row.aggregator, row.variant) == (dataset, layer, aggregator, variant)
    ]
    return found


def matched(result, plan, n=None):
    return match(result, candidates(plan), plan, {arm["id"]: 0 for arm in plan["arms"]} | (n or {}))


def test_the_papers_own_treatment_has_no_departures():
    plan = plan_of()
    for aggregator in ("sum", "ssma"):
        found = matched(entry("results_tu_zinc", "MUTAG", "gcn", aggregator), plan)
        assert (found.arm["aggregator"], found.fitting, found.departures) == (aggregator, 1, [])


def test_splits_of_a_file_depart_from_the_papers_folds():
    plan = plan_of()
    plan["datasets"]["MUTAG"]["splits"] = {"scheme": "file", "file": "splits.json", "content": "0123"}
    arm = next(arm for arm in plan["arms"] if arm["aggregator"] == "ssma")
    found = list(departures(entry("results_tu_zinc", "MUTAG", "gcn", "ssma"), arm, plan))
    assert found == ["folds none, a file's splits (paper: 10, shuffle, seed 0)"]


def test_departures_are_named_with_both_values():
    changes = {"training": {"max_epochs": 50, "lr": 0.01}, "splits": {"folds": 5, "use": 3}, "evaluate": {"repeats": 2}}
    plan = plan_of(space={"ssma.kappa": [2, 3], "training.weight_decay": [0.0, 0.1]}, **changes)
    arm = next(arm for arm in plan["arms"] if arm["aggregator"] == "ssma")
    assert list(departures(entry("results_tu_zinc", "MUTAG", "gcn", "ssma"), arm, plan)) == [
        "learning rate 0.01 (paper: 0.001)",
        "epochs at most 50 (paper: no limit)",
        "weight decay searched (paper: 1e-05)",
        "kappa (neighbour slots) searched in 2, 3 (paper: 2, 3, 4)",
        "neighbour selection attention (paper: searched)",
        "compression rate 0.25 (paper: searched)",
        "configurations tried 4 (paper: 30)",
        "fits that judge a configuration 3 (paper: 10)",
        "folds 5, shuffle, seed 0 (paper: 10, shuffle, seed 0)",
        "splits evaluated 3 (paper: 10)",
        "fits per split 2 (paper: 1)",
    ]


def test_the_way_of_selection_counts_only_where_there_is_a_choice():
    plan = plan_of(tune={"trials": 30, "selection": "validation", "space": SPACE})
    lines = [matched(entry("results_tu_zinc", "MUTAG", "gcn", name), plan).departures for name in ("sum", "ssma")]
    assert lines == [[], ["configuration chosen by validation (paper: test)"]]


def test_a_search_as_long_as_the_papers_but_elsewhere_or_on_fewer_splits_is_told():
    space = {"ssma.kappa": {"low": 2, "high": 4}, "ssma.compression": {"low": 0.1, "high": 1, "log": True}}
    tune = {
        "trials": 30,
        "splits": 6,
        "sampler": "tpe",
        "prune": True,
        "space": space | {"ssma.selection": ["random", "attention"]},
    }
    assert matched(entry("results_tu_zinc", "MUTAG", "gcn", "ssma"), plan_of(tune=tune)).departures == [
        "compression rate searched in 0.1 to 1 (paper: 0.1, 0.25, 0.5, 0.75, 1)",
        "fits that judge a configuration 6 (paper: 10)",
        "pruning yes (paper: no)",
    ]


def test_one_fit_judges_a_configuration_of_an_official_split_where_the_paper_has_five():
    plan = plan_of(dataset={"ZINC": {"source": "zinc"}}, evaluate={"repeats": 5})
    assert matched(entry("results_tu_zinc", "ZINC", "gcn", "sum"), plan).departures == []
    assert matched(entry("results_tu_zinc", "ZINC", "gcn", "ssma"), plan).departures == [
        "fits that judge a configuration 1 (paper: 5)"
    ]


def test_features_and_runs_of_a_data_set_count():
    plan = plan_of(dataset={"IMDB": {"source": "tu", "name": "IMDB-BINARY", "features": "degree"}})
    assert matched(entry("results_tu_zinc", "IMDB-BINARY", "gcn", "sum"), plan).departures == [
        "features degree (paper: random in its code, zeros in its text)"
    ]
    plan = plan_of(dataset={"ZINC": {"source": "zinc"}})
    assert matched(entry("results_tu_zinc", "ZINC", "gcn", "sum"), plan).departures == ["fits per split 1 (paper: 5)"]


@pytest.mark.parametrize(
    ("own", "told"),
    [({}, []), ({"parts": 128}, []),
     ({"undirected": False, "parts": 64}, ["parts 64 (paper: 128)", "undirected no (paper: yes)"])],
)  # fmt: skip
def test_directions_and_parts_of_a_graph_count(own, told):
    plan = plan_of(dataset={"papers": {"source": "ogbn", "name": "ogbn-arxiv"} | own}, evaluate={"repeats": 5})
    assert matched(entry("results_lrgb_ogbn", "ogbn-arxiv", "gcn", "sum"), plan).departures == told


def test_a_departure_from_the_papers_code_says_where_its_text_has_another_value():
    plan = plan_of(
        {"ssma.compression_of": ["rank"]}, dataset={"ZINC": {"source": "zinc"}}, model={"residual": True},
        tune={"space": SPACE}, evaluate={"repeats": 5},
    )  # fmt: skip
    found = matched(entry("results_tu_zinc", "ZINC", "gcn", "ssma"), plan)
    assert found.departures[:2] == [
        "residual yes (paper: no in its code, yes in its text)",
        "compression of rank (paper: parameters in its code, rank in its text)",
    ]
    plan = plan_of({"ssma.compression_of": ["rank"]}, model={"residual": False})
    found = matched(entry("results_tu_zinc", "MUTAG", "gcn", "ssma"), plan)
    assert found.departures[0] == "residual no (paper: yes)"


def test_the_arm_with_fewest_departures_is_taken_unless_only_another_has_results():
    plan = plan_of({"model.budget": [1000, 500_000], "aggregator": ["sum"]}, space={})
    small, full = (arm["id"] for arm in plan["arms"])
    result = entry("results_tu_zinc", "MUTAG", "gcn", "sum")
    found = matched(result, plan, {small: 10, full: 1})
    assert (found.arm["id"], found.fitting) == (full, 2)
    found = matched(result, plan, {small: 10})
    assert (found.arm["id"], found.departures) == (small, ["parameter budget 1000 (paper: 500k)"])


def test_an_arm_of_another_operator_is_not_the_papers():
    plan = plan_of({"ssma.mixing": ["sum", "product"]})
    assert matched(entry("results_tu_zinc", "MUTAG", "gcn", "ssma"), plan) is None


def test_affine_maps_and_selections_find_their_entries():
    zinc = {"ZINC": {"source": "zinc"}}
    plan = plan_of({"ssma.learn_affine": [False, True]}, dataset=zinc)
    for variant, learned in (("constant", False), ("learnable", True)):
        found = matched(entry("learn_affine_results", "ZINC", "gcn", "ssma", variant), plan)
        assert found.arm["settings"]["aggregator"]["learn_affine"] is learned
        assert found.departures[:2] == ["parameter budget 100k (paper: unset)", "hidden channels unset (paper: 64)"]
        assert found.departures[2:4] == [
            "compression rate searched in 0.1, 0.25, 0.5, 0.75, 1 (paper: 0.25, 0.5, 0.75, 1)",
            "configurations tried 30 (paper: 24)",
        ]
    kappas = {"ssma.kappa": [2, 3]}
    plan = plan_of({"ssma.selection": ["random", "attention"]}, dataset={"PROTEINS": {"source": "tu"}}, space=kappas)
    for variant in ("random", "attention"):
        result = next(
            row
            for row in paper.results("runtime_measurment")
            if (row.dataset, row.layer, row.variant) == ("PROTEINS", "gcn", variant)
        )
        assert matched(result, plan).arm["settings"]["aggregator"]["selection"] == variant
    searched = plan_of(dataset={"PROTEINS": {"source": "tu"}})
    assert matched(result, searched) is None


def test_gps_with_walks_is_a_layer_of_its_own_and_other_layers_have_none():
    axes = {"aggregator": ["sum"], "model.positional_encoding": ["none", "random_walk"]}
    plan = plan_of(axes, ("gps", "gcn"), space={})
    assert [paper_layer(arm) for arm in plan["arms"]] == ["gps", "gps_pe", "gcn", None]
    found = matched(entry("gps_pe_exp", "MUTAG", "gps_pe", "sum"), plan)
    assert (found.arm["settings"]["model"]["positional_encoding"], found.departures) == ("random_walk", [])


@pytest.mark.parametrize(
    ("spec", "name"),
    [({"source": "tu", "name": "MUTAG"}, "MUTAG"), ({"source": "zinc"}, "ZINC"), ({"source": "folder", "path": "x"}, None),
     ({"source": "ogbg", "name": "ogbg-molhiv"}, "ogbg-molhiv"), ({"source": "synthetic", "task": "x"}, None)],
)  # fmt: skip
def test_data_of_the_paper_are_known_by_their_source(spec, name):
    assert paper_dataset(spec) == name


def test_arms_are_alike_in_network_and_training_only():
    plan = plan_of({"aggregator": ["sum", "ssma"], "model.budget": [1000, 2000]})
    sums = [arm for arm in plan["arms"] if arm["aggregator"] == "sum"]
    ours = [arm for arm in plan["arms"] if arm["aggregator"] == "ssma"]
    assert [[alike(one, other) for other in ours] for one in sums] == [[True, False], [False, True]]
    two = plan_of(dataset={"MUTAG": {"source": "tu"}, "again": {"source": "tu", "name": "MUTAG", "features": "degree"}})
    first, _, other, _ = two["arms"]
    assert (first["aggregator"], other["aggregator"]) == ("sum", "sum") and not alike(first, other)
    searched = plan_of(space={"training.lr": [0.1, 0.2]})
    plain = plan_of()
    assert alike(searched["arms"][0], searched["arms"][1])
    assert not alike(plain["arms"][0], searched["arms"][0])


def test_pna_and_its_mix_are_alike():
    plan = plan_of({"aggregator": ["pna", "ssma"]}, ("pna",))
    assert alike(*plan["arms"])
    assert matched(entry("results_tu_zinc", "MUTAG", "pna", "pna"), plan).departures == []
    assert matched(entry("results_tu_zinc", "MUTAG", "pna", "ssma"), plan).departures == []


@pytest.mark.parametrize("name", ["paper", "aggregators"])
def test_beside_the_table_against_vpa_stand_the_arms_in_the_protocol_of_its_authors(name):
    plan = make_plan(parse_study(read_study(Path(__file__).parents[2] / "studies" / f"{name}.yaml")))
    arms = candidates(plan)
    full = {arm["id"]: len(arm["splits"]) * arm["repeats"] for arm in plan["arms"]}
    for result in paper.results("results_vap"):
        found = match(result, arms, plan, full)
        assert found.arm["dataset"] == f"VPA-{result.dataset}" and found.departures == []
        assert VPA_CODE.items() <= treatment(found.arm).items() | {("model.learn_eps", False)}
    sums = match(entry("results_tu_zinc", "MUTAG", "gcn", "sum"), arms, plan, full)
    assert sums.arm["dataset"] == "MUTAG"
