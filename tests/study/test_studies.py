"""The studies that come with the package: what they hold, counted by hand, and that they say the same."""

import re
from itertools import product
from pathlib import Path

import pytest

from ssma.errors import StudyError
from ssma.study.config import RULES, load_study, parse_study
from ssma.study.cost import plan_cost
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.settings import LAYERS

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
PARTS = (
    "neighbor_selection", "width", "compression", "affine", "aggregators", "positional_encoding", "unablated"
)  # fmt: skip
ARMS = {  # data sets x layers x points; a sum is one point, whatever the options of SSMA
    "benchmark": 12 * 5 * 2,
    "benchmark_pna": 12 * 1 * 2,
    "aggregators": 6 * 5 * 15,
    "vpa": 9 * 3 * 3,
    "positional_encoding": 12 * 1 * 2 * 2,
    "neighbor_selection": 2 * 3 * (1 + 2 * 6),
    "budget": 2 * 3 * 6 * 2,
    "width": 2 * 3 * 6 * 2,
    "compression": 2 * 2 * (1 + 8),
    "compression_gat": 2 * 1 * (1 + 8),
    "compression_budget": 2 * 3 * (1 + 8),
    "affine": 1 * 3 * (1 + 2),
    "affine_pna": 1 * 1 * (1 + 2),
    "normalisation": 3 * 2 * (1 + 3),
    "mixing": 3 * 2 * (1 + 3),
    "temperature": 3 * 2 * (1 + 5),
    "heads": 3 * 1 * 4 * 2,
    "slots_from": 3 * 2 * (1 + 2),
    "slots_beyond_degree": 2 * 2 * (1 + 2 * 5),
    "one_configuration": 6 * 5 * 2,
    "imdb_features": 2 * 5 * 5,
}
SEARCHED = {"MUTAG": 30, "PTC_MR": 30, "ZINC": 30, "PROTEINS": 60, "ogbn-arxiv": 60, "Peptides-func": 20}


def plan_of(name):
    return make_plan(load_study(STUDIES / f"{name}.yaml"))


@pytest.fixture(scope="module")
def paper():
    return plan_of("paper")


def test_the_paper_has_as_many_arms_as_counted_by_hand(paper):
    found = {name: len({cell["arm"] for cell in item["cells"]}) for name, item in paper["ablations"].items()}
    assert found == ARMS


def test_the_paper_searches_only_ssma_and_chooses_by_the_test_set(paper):
    for arm in paper["arms"]:
        assert set(arm["space"]) <= {"ssma.compression", "ssma.kappa", "ssma.selection"}
        assert arm["selection"] == ("test" if arm["space"] else "none")
    cells = paper["ablations"]["benchmark"]["cells"]
    trials = {arm["id"]: arm["trials"] for arm in paper["arms"]}
    for dataset, count in SEARCHED.items():
        here = [cell for cell in cells if cell["dataset"] == dataset]
        assert {(cell["point"]["aggregator"], trials[cell["arm"]]) for cell in here} == {("sum", 0), ("ssma", count)}


def test_the_paper_holds_its_own_sizes(paper):
    arms = {arm["id"]: arm for arm in paper["arms"]}
    for name, sizes in {
        "compression": {(None, 130)},
        "compression_gat": {(None, 128)},
        "compression_budget": {(500_000, None), (100_000, None)},
        "affine": {(None, 64)},
        "vpa": {(None, 64)},
        "neighbor_selection": {(500_000, None)},
    }.items():
        models = [arms[cell["arm"]]["settings"]["model"] for cell in paper["ablations"][name]["cells"]]
        assert {(model["budget"], model["hidden_channels"]) for model in models} == sizes


@pytest.mark.parametrize("path", ["studies/paper.yaml", "config.yaml"])
def test_every_ablation_says_what_the_paper_claims(path):
    for name, ablation in load_study(ROOT / path).ablations.items():
        assert ablation.claim and len(ablation.claim) > 20, name


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_what_the_paper_study_has(name, paper):
    piece, whole = load_study(STUDIES / f"{name}.yaml"), load_study(STUDIES / "paper.yaml")
    for key, ablation in piece.ablations.items():
        assert ablation == whole.ablations[key]
    assert piece.evaluate == whole.evaluate and piece.protocol == "paper"
    ids = {arm["id"] for arm in paper["arms"]}
    assert {arm["id"] for arm in plan_of(name)["arms"]} <= ids


def test_the_parts_are_all_ablations_but_the_benchmarks():
    names = [name for part in PARTS for name in load_study(STUDIES / f"{part}.yaml").ablations]
    assert sorted(names) == sorted(ARMS.keys() - {"benchmark", "benchmark_pna"})


def test_the_study_for_two_cores_fits_into_an_hour_and_says_what_it_is(tmp_path):
    plan = plan_of("two_cores")
    cost = plan_cost(plan, Results(tmp_path))
    assert cost.seconds / 2 < 3600 and not cost.unknown
    assert "3 folds and a few epochs" in plan["title"]
    same = {"compression_gat", "affine_pna", "benchmark", "benchmark_pna"}  # covered by another one at this size
    assert set(plan["ablations"]) == ARMS.keys() - same


def test_the_fair_study_has_the_papers_benchmark_with_all_arms_treated_alike(paper):
    plan = plan_of("fair")
    for name, ablation in plan["ablations"].items():
        cells, papers = (
            {(cell["dataset"], cell["layer"], cell["point"]["aggregator"]) for cell in item["cells"]}
            for item in (ablation, paper["ablations"][name])
        )
        assert cells == papers and len(cells) == ARMS[name]
    assert plan["ablations"].keys() == {"benchmark", "benchmark_pna"}
    treated = {(arm["trials"], arm["selection"], arm["sampler"], arm["prune"], arm["repeats"]) for arm in plan["arms"]}
    assert treated == {(20, "per_split", "random", False, 5)}
    assert all(arm["tune_splits"] == arm["splits"] for arm in plan["arms"])
    shared = {"training.lr", "training.weight_decay", "model.dropout"}
    own = {"ssma.kappa", "ssma.compression", "ssma.selection"}
    assert all(set(arm["space"]) == shared | (own if arm["aggregator"] == "ssma" else set()) for arm in plan["arms"])
    assert all(arm["settings"]["model"].get("self_loops", True) for arm in plan["arms"])
    assert {data["splits"]["scheme"] for data in plan["datasets"].values()} == {"stratified", "official"}


def test_every_layer_meets_every_data_set_once():
    plan = plan_of("every_layer")
    assert {(arm["layer"], arm["dataset"]) for arm in plan["arms"]} == set(product(LAYERS, plan["datasets"]))
    assert len(plan["arms"]) == len(LAYERS) * len(plan["datasets"]) == 80
    assert all(len(arm["splits"]) * arm["repeats"] == 1 and not arm["space"] for arm in plan["arms"])


def test_the_default_study_shows_every_axis_in_minutes(tmp_path):
    plan = make_plan(load_study(ROOT / "config.yaml"))
    assert plan_cost(plan, Results(tmp_path)).seconds / 2 < 600
    axes = {key for ablation in plan["ablations"].values() for key in ablation["axes"]}
    assert axes == {
        "aggregator", "ssma.selection", "ssma.kappa", "ssma.compression", "model.hidden_channels", "model.budget",
        "ssma.learn_affine", "ssma.normalisation", "ssma.mixing", "ssma.temperature", "ssma.slots_from", "model.heads",
        "model.positional_encoding",
    }  # fmt: skip


def test_an_ablation_cannot_have_the_name_of_a_rule():
    text = "\n".join(path.read_text() for path in [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")])
    assert sorted(re.findall(r"^rule (\w+):", text, re.MULTILINE)) == sorted(RULES)
    with pytest.raises(StudyError, match="ablations: rename report: the workflow has a rule of this name"):
        parse_study(
            {"study": "s", "layers": ["gcn"], "datasets": {"MUTAG": {"source": "tu"}},
             "ablations": {"report": {"axes": {"aggregator": ["sum"]}}}}
        )  # fmt: skip
