"""The presets are the facts of the paper's code; a study's own words win over them."""

import pytest

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.presets import preset
from ssma.study.settings import LAYERS, ModelSettings, TrainingSettings

TU = {"source": "tu"}
FACTS = [
    # data set, depth, readout, residual, dropout, batch, weight decay, patience, budget
    ("ENZYMES", TU, 6, "max", True, 0.05, 32, 1e-5, 5, 500_000),
    ("PTC_MR", TU, 6, "max", True, 0.05, 32, 1e-5, 5, 500_000),
    ("MUTAG", TU, 6, "max", True, 0.05, 32, 1e-5, 5, 500_000),
    ("PROTEINS", TU, 6, "max", True, 0.05, 32, 1e-5, 5, 500_000),
    ("IMDB-BINARY", TU, 6, "max", True, 0.05, 32, 1e-5, 5, 500_000),
    ("zinc", {"source": "zinc"}, 10, "sum", False, 0, 128, 3e-6, 20, 100_000),
    ("f", {"source": "lrgb", "name": "Peptides-func"}, 5, "mean", True, 0, 16, 1e-5, 5, 2_000_000),
    ("s", {"source": "lrgb", "name": "Peptides-struct"}, 5, "mean", True, 0, 32, 1e-5, 5, 2_000_000),
    ("hiv", {"source": "ogbg", "name": "ogbg-molhiv"}, 10, "mean", True, 0, 32, 1e-5, 5, 500_000),
    ("pcba", {"source": "ogbg", "name": "ogbg-molpcba"}, 5, "mean", True, 0, 32, 1e-5, 5, 2_000_000),
    ("arxiv", {"source": "ogbn", "name": "ogbn-arxiv"}, 3, None, True, 0, 2, 1e-5, 5, 500_000),
    ("products", {"source": "ogbn", "name": "ogbn-products"}, 3, None, True, 0, 2, 1e-5, 5, 500_000),
]  # fmt: skip
STUDY = {
    "study": "s",
    "datasets": {"MUTAG": TU},
    "layers": list(LAYERS),
    "ablations": {"a": {"axes": {"aggregator": ["sum", "ssma"]}}},
}


def plan_of(**changes):
    return make_plan(parse_study(STUDY | changes))


def settings_of(layer="gcn", **changes):
    return next(arm for arm in plan_of(**changes)["arms"] if arm["layer"] == layer)["settings"]


@pytest.mark.parametrize("protocol", ["paper", "fair"])
@pytest.mark.parametrize(
    ("label", "spec", "depth", "readout", "residual", "dropout", "batch", "decay", "patience", "budget"), FACTS
)
def test_a_data_set_s_settings(
    protocol, label, spec, depth, readout, residual, dropout, batch, decay, patience, budget
):
    found = preset(protocol, spec | ({"name": label} if spec["source"] == "tu" else {}), "gcn")
    expected = {
        "model.num_layers": depth, "model.readout": readout, "model.residual": residual, "model.dropout": dropout,
        "model.budget": budget, "training.batch_size": batch, "training.weight_decay": decay,
        "training.plateau_patience": patience, "training.lr": 1e-3, "training.plateau_factor": 0.5,
        "training.min_lr": 1e-6,
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected


def test_a_preset_names_settings_that_exist_with_values_that_they_take():
    for protocol in ("paper", "fair"):
        for _, spec, *_ in FACTS:
            for layer in LAYERS:
                found = preset(protocol, spec | {"name": spec.get("name", "MUTAG")}, layer)
                for group, model in (("model", ModelSettings), ("training", TrainingSettings)):
                    values = {key.partition(".")[2]: v for key, v in found.items() if key.startswith(f"{group}.")}
                    assert model.model_validate(values).model_dump(exclude_unset=True) == values
                assert {key.partition(".")[0] for key in found} == {"model", "training"}


PAPER_MODELS = {
    "gcn": {"self_loops": False, "residual": True},
    "gat": {"self_loops": False, "residual": True, "heads": 8, "edge_features": True},
    "gatv2": {"self_loops": False, "residual": True, "heads": 8, "edge_features": True},
    "gin": {"learn_eps": True, "residual": True},
    "gine": {"learn_eps": True, "residual": True, "edge_features": True},
    "resgated": {"residual": True, "edge_features": True},
    "pna": {"residual": True, "edge_features": True, "towers": 5, "pna_mix": "add"},
    "gps": {"heads": 4, "attention_dropout": 0.5, "edge_features": True, "outer_block": True, "residual": True},
}
COMMON = {
    "num_layers": 6, "budget": 500_000, "hidden_channels": None, "readout": "max", "dropout": 0.05, "batch_norm": True,
    "positional_encoding": "none",
}  # fmt: skip
TRAINING = {
    "lr": 0.001, "weight_decay": 1e-5, "batch_size": 32, "plateau_factor": 0.5, "plateau_patience": 5, "min_lr": 1e-6,
    "max_minutes": None,
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
def test_an_arm_under_each_protocol(layer):
    paper, fair, neither = (settings_of(layer, protocol=protocol) for protocol in ("paper", "fair", None))
    assert paper["model"] == COMMON | PAPER_MODELS[layer]
    assert paper["training"] == TRAINING | {"max_epochs": 5000}
    sounder = {"self_loops": True} if layer in ("gcn", "gat", "gatv2") else {}
    expected = COMMON | PAPER_MODELS[layer] | sounder
    if layer == "gps":  # whose own residual connections are no setting
        expected = {key: value for key, value in expected.items() if key != "residual"} | {"outer_block": False}
    assert fair["model"] == expected
    assert fair["training"] == TRAINING | {"max_epochs": 300}
    defaults = ModelSettings().model_dump()
    assert neither["model"] == {key: defaults[key] for key in fair["model"]}


def test_the_folds_of_each_protocol_unless_a_study_names_them():
    own = {"MUTAG": TU | {"splits": {"folds": 5}}, "PTC_MR": TU | {"splits": {"scheme": "stratified"}}, "NCI1": TU}

    def schemes(**changes):
        return [item["splits"]["scheme"] for item in plan_of(datasets=own, **changes)["datasets"].values()]

    assert schemes(protocol="paper") == ["shuffle", "stratified", "shuffle"]
    assert schemes(protocol="paper", splits={"folds": 3}) == ["shuffle", "stratified", "shuffle"]
    assert schemes(protocol="paper", splits={"scheme": "stratified"}) == ["shuffle", "stratified", "stratified"]
    assert schemes(protocol="fair") == ["stratified"] * 3
    assert schemes(protocol="fair", splits={"scheme": "shuffle"}) == ["stratified", "stratified", "shuffle"]
    assert schemes() == ["stratified"] * 3


def test_what_is_named_later_wins():
    steps = [
        ({}, 4),
        ({"protocol": "paper"}, 6),
        ({"model": {"num_layers": 7}}, 7),
        ({"datasets": {"MUTAG": TU | {"fixed": {"model.num_layers": 8}}}}, 8),
        ({"ablations": {"a": {"axes": {"aggregator": ["sum"]}, "fixed": {"model.num_layers": 9}}}}, 9),
        ({"ablations": {"a": {"axes": {"model.num_layers": [10]}, "fixed": {"aggregator": "sum"}}}}, 10),
    ]
    changes = {}
    for change, depth in steps:
        changes |= change
        assert settings_of(**changes)["model"]["num_layers"] == depth
    assert settings_of(protocol="paper", model={"num_layers": 4})["model"]["num_layers"] == 4  # also at its default


def test_a_width_clears_the_budget_of_the_protocol():
    model = settings_of(protocol="paper", model={"hidden_channels": 40})["model"]
    assert (model["budget"], model["hidden_channels"]) == (None, 40)
    with pytest.raises(StudyError, match="model: give a budget or hidden_channels"):
        plan_of(protocol="paper", model={"budget": None})


def test_other_data_get_what_the_protocol_says_for_all():
    made = {"m": {"source": "synthetic", "task": "product_regression", "num_graphs": 100}}
    model = settings_of("gat", datasets=made, protocol="fair")["model"]
    assert (model["self_loops"], model["num_layers"], model["budget"]) == (True, 4, 100_000)
    assert preset("paper", {"source": "folder", "name": "ZINC"}, "gcn").get("model.num_layers") is None
    assert preset("paper", TU | {"name": "NCI1"}, "gcn")["model.num_layers"] == 6
    assert preset(None, TU | {"name": "MUTAG"}, "gcn") == {}


def test_the_paper_switched_edge_features_off_on_the_large_graphs():
    arxiv = {"source": "ogbn", "name": "ogbn-arxiv"}
    assert preset("paper", arxiv, "gat")["model.edge_features"] is False
    assert preset("fair", arxiv, "gat")["model.edge_features"] is True


def test_an_unknown_protocol_is_refused():
    with pytest.raises(StudyError, match="protocol: Input should be 'paper' or 'fair', got 'papers'"):
        plan_of(protocol="papers")


def moved(layer, before, after):
    """Whether the change of the model's settings moves the arms of a layer."""
    ids = [{arm["id"] for arm in plan_of(model=model, layers=[layer])["arms"]} for model in (before, after)]
    return ids[0] != ids[1]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_setting_moves_the_arms_that_it_touches_only(layer):
    for_layers = {
        "heads": {"gat", "gatv2", "gps"}, "towers": {"pna"}, "pna_mix": {"pna"}, "learn_eps": {"gin", "gine"},
        "self_loops": {"gcn", "gat", "gatv2"}, "residual": set(LAYERS) - {"gps"}, "attention_dropout": {"gps"},
        "outer_block": {"gps"},
        "edge_features": set(LAYERS) - {"gcn", "gin"}, "positional_encoding": set(LAYERS), "walk_steps": set(),
    }  # fmt: skip
    changed = {
        "heads": 2, "towers": 3, "pna_mix": "replace", "learn_eps": False, "self_loops": True, "residual": False,
        "attention_dropout": 0.1, "outer_block": True, "edge_features": False, "positional_encoding": "random_walk", "walk_steps": 4,
    }  # fmt: skip
    for key, value in changed.items():
        assert moved(layer, {}, {key: value}) == (layer in for_layers[key]), key
    outer = {"outer_block": True}
    assert moved(layer, outer, outer | {"residual": False})
    walks = {"positional_encoding": "random_walk"}
    assert moved(layer, walks, walks | {"walk_steps": 4})


def test_the_mix_of_pna_alone_is_one_arm():
    ablations = {"a": {"axes": {"aggregator": ["pna", "ssma"], "model.pna_mix": ["add", "replace"]}, "layers": ["pna"]}}
    plan = plan_of(ablations=ablations)
    assert [(arm["aggregator"], arm["settings"]["model"].get("pna_mix")) for arm in plan["arms"]] == [
        ("pna", None), ("ssma", "add"), ("ssma", "replace"),
    ]  # fmt: skip


def test_the_steps_of_walks_are_searched_where_there_are_walks():
    space = {"model.positional_encoding": ["none", "random_walk"], "model.walk_steps": [4, 8]}
    arm = plan_of(tune={"space": space})["arms"][0]
    assert arm["space"] == space
    axis = {"a": {"axes": {"model.positional_encoding": ["none", "random_walk"]}, "fixed": {"aggregator": "sum"}}}
    none, walks = plan_of(tune={"space": {"model.walk_steps": [4, 8]}}, ablations=axis, layers=["gcn"])["arms"]
    assert (none["space"], none["trials"]) == ({}, 0)
    assert walks["space"] == {"model.walk_steps": [4, 8]}
    with pytest.raises(StudyError, match=r"tune.space.model.walk_steps: no arm searches it"):
        plan_of(tune={"space": {"model.walk_steps": [4, 8]}})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"hidden_channels": 12}, "model.hidden_channels: pna needs a multiple of its 5 towers, got 12"),
        ({"hidden_channels": 12}, "model.hidden_channels: gps needs a multiple of its 8 heads, got 12"),
        ({"hidden_channels": 12}, "model.hidden_channels: gatv2 needs a multiple of its 8 heads, got 12"),
        ({"hidden_channels": 20, "positional_encoding": "random_walk"},
         "model.hidden_channels: must be above the 20 walk_steps of the encoding, got 20"),
    ],
)  # fmt: skip
def test_widths_that_fit_no_network_are_refused_before_anything_runs(model, message):
    with pytest.raises(StudyError) as error:
        plan_of(model=model)
    assert message in str(error.value)
    plan_of(model={"hidden_channels": 40, "positional_encoding": "random_walk"})
    with pytest.raises(StudyError, match=r"must be above the 48 walk_steps of the encoding, got 40"):
        plan_of(
            model={"hidden_channels": 40, "positional_encoding": "random_walk"},
            tune={"space": {"model.walk_steps": {"low": 2, "high": 48}}},
        )
    with pytest.raises(StudyError, match=r"tune.space.model.towers: give a list of values"):
        plan_of(tune={"space": {"model.towers": {"low": 2, "high": 4}}})
