"""How a study file is read: what YAML takes for something else than it says."""

import pytest

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.reading import from_command_line, read_study


def read(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return read_study(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 010", "'010' is read as 8; write 8 if you mean it, else quote it"),
        ("seed: -0_17", "'-0_17' is read as -15"),
        ("seed: 1:30", "'1:30' is read as 90"),
        ("lr: 1:30.5", "'1:30.5' is read as 90.5"),
        ("title: 2024-01-31", "'2024-01-31' is read as a date; quote it"),
        ("ablations: {on: {}}", "the key 'on' is read as True; quote it"),
        ("datasets: {007: {}}", "'007' is read as 7"),
        ("datasets: {12: {}}", "the key '12' is read as 12; quote it"),
        ("datasets: {a: {}, b: {}, a: {}}", "the key 'a' stands twice"),
        ("seed: !!int x", "'x' is no int; quote it if it is a text"),
        ("seed: !!float x", "'x' is no float"),
        ("seed: !!bool maybe", "'maybe' is no bool"),
        ("seed: !!int ''", "'' is no int"),
        ("seed: 0x_", "'0x_' is no int"),
        (f"seed: {'9' * 5000}", f"'{'9' * 50}' is no int"),
        ("seed: !!null x", "'x' is read as null; write null if you mean it, else quote it"),
        ("layers: !!set {gcn, gin}", "could not determine a constructor for the tag 'tag:yaml.org,2002:set'"),
    ],
)
def test_what_yaml_would_change_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(StudyError) as caught:
        read(tmp_path, f"study: s\n{text}\n")
    assert said in str(caught.value)
    assert "line 2" in str(caught.value)


def test_all_that_yaml_would_change_is_told_at_once(tmp_path):
    with pytest.raises(StudyError) as caught:
        read(tmp_path, "study: s\nseed: 010\ntitle: 2024-01-31\nlayers: [gcn, !!int x]\non: 1\nseed: 2\n")
    told = str(caught.value)
    places = ("line 2, column 7", "line 3, column 8", "line 4, column 15", "line 5, column 1", "line 1, column 1")
    assert [told.count(place) for place in places] == [1] * 5
    for said in ("'010' is read as 8", "is read as a date", "'x' is no int", "the key 'on'", "'seed' stands twice"):
        assert told.count(said) == 1
    with pytest.raises(StudyError, match="the key 'in brackets' is read as") as caught:
        read(tmp_path, "[a]: 3\n")
    assert str(caught.value).count("line 1") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ablations: &a {x: {axes: {mine.p: [*a]}}}", "Circular reference detected"),
        (f"x: {'[' * 3000}", "maximum recursion depth exceeded"),
        (r'title: "\U00110000"', "chr() arg not in range(0x110000)"),
    ],
)
def test_a_file_that_yaml_fails_at_is_refused(tmp_path, text, said):
    with pytest.raises(StudyError) as caught:
        read(tmp_path, text)
    assert f"study.yaml: cannot be read as a study file: {said}" in str(caught.value)


def test_plain_values_stay_what_they_are(tmp_path):
    text = "a: [0, 00, -0, 10, 1_000, 0x1F, 0b11, 0.010, 1.0e-3, yes, ~, '010', '2024-01-31']\n'on': 1\n"
    assert read(tmp_path, text) == {
        "a": [0, 0, 0, 10, 1000, 31, 3, 0.01, 0.001, True, None, "010", "2024-01-31"],
        "on": 1,
    }


def test_a_table_may_be_merged_and_overridden(tmp_path):
    text = "a: &base {x: 1, y: 2}\nb:\n  <<: *base\n  y: 3\n"
    assert read(tmp_path, text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}
    with pytest.raises(StudyError, match="the key 'y' stands twice"):
        read(tmp_path, f"{text}  y: 4\n")
    text = "a: &base {lr: 1}\nb: {c: {d: &own {<<: *base, lr: 2}}}\ne: {<<: *own}\n"
    assert read(tmp_path, text) == {"a": {"lr": 1}, "b": {"c": {"d": {"lr": 2}}}, "e": {"lr": 2}}


def test_a_number_with_an_exponent_is_a_number_for_ones_own_class_too(tmp_path, monkeypatch):
    """YAML takes 1e-3 for a text."""
    (tmp_path / "own.py").write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = """
study: s
datasets:
  d: {source: pyg, class: own.Mine, arguments: {p: 1e-3, rates: [1e-3, "1e"], more: {q: 2E2}, r: 2.0}}
layers: [gcn]
aggregators: {mine: {class: own.Mine, p: 1e-3, name: e3}}
ablations: {a: {axes: {mine.q: [2E2, 1.5e+1, .5e1, "1e"]}, fixed: {aggregator: mine, training.lr: 1e-2}}}
"""
    plan = make_plan(parse_study(read(tmp_path, text)))
    arms, arguments = plan["arms"], plan["datasets"]["d"]["spec"]["arguments"]
    assert arguments == {"p": 0.001, "rates": [0.001, "1e"], "more": {"q": 200}, "r": 2}
    assert [arm["settings"]["aggregator"] for arm in arms] == [
        {"p": 0.001, "name": "e3", "q": q} for q in (200, 15, 5, "1e")
    ]
    assert {arm["settings"]["training"]["lr"] for arm in arms} == {0.01}


def test_a_whole_number_with_an_exponent_is_a_number(tmp_path):
    text = """
study: s
seed: 1e2
datasets:
  d: {source: synthetic, task: product_regression, num_graphs: 3e1}
layers: [gcn]
training: {max_epochs: 1.5E2, batch_size: 1e-1}
tune: {space: {ssma.kappa: {low: 2, high: 1e1}}}
ablations: {a: {axes: {model.budget: [1e5, 2.5e5, 1e6]}, fixed: {aggregator: ssma}}}
"""
    with pytest.raises(StudyError, match="training.batch_size: .*got a number with a fractional part"):
        parse_study(read(tmp_path, text))
    plan = make_plan(parse_study(read(tmp_path, text.replace("1e-1", "1e1"))))
    assert (plan["config"]["seed"], plan["datasets"]["d"]["spec"]["num_graphs"]) == (100, 30)
    assert [arm["settings"]["model"]["budget"] for arm in plan["arms"]] == [100_000, 250_000, 1_000_000]
    training = plan["arms"][0]["settings"]["training"]
    assert (training["max_epochs"], training["batch_size"]) == (150, 10)
    assert plan["arms"][0]["space"]["ssma.kappa"] == {"low": 2, "high": 10, "log": False, "kind": "int"}


@pytest.mark.parametrize("source", ["folder", "file"])
def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch, source):
    monkeypatch.setenv("HOME", str(tmp_path))
    data = {"source": source, "path": "~/data"}
    study = {
        "study": "s",
        "datasets": {"d": data},
        "layers": ["gcn"],
        "ablations": {"a": {"axes": {"ssma.kappa": [2]}}},
    }
    assert parse_study(study).datasets["d"].path == f"{tmp_path}/data"


def test_values_from_the_command_line_get_the_types_that_a_file_gives_them():
    """Snakemake reads what is inside a table or a list of --config as text."""
    given = {
        "tune": {"trials": "3", "prune": "false"},
        "own": {"p": ["2", "2.5", "1.0e-3", "null", "x", ""]},
        "seed": 7,
    }
    assert from_command_line(given) == {
        "tune": {"trials": 3, "prune": False},
        "own": {"p": [2, 2.5, 0.001, None, "x", ""]},
        "seed": 7,
    }
    texts = ["1_2", "007", "1:30", "2024-01-31", "[a", "a: b", "1e-3", "IMDB-BINARY", "#1", " ", "&a", "!!null x"]
    texts += ["", "\n", " #1", "---", " --- ", "--- #1", "--"]
    assert from_command_line(texts) == texts


STUDY = {
    "study": "s",
    "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 30}},
    "layers": ["gcn"],
    "model": {"budget": 1000},
    "ablations": {"a": {"axes": {"aggregator": ["sum"]}}},
}


@pytest.mark.parametrize("table", ["datasets", "aggregators", "ablations"])
def test_a_name_that_no_file_can_have_is_refused(table):
    """A file's name has at most 255 bytes; the study would end there, after all that was trained."""
    value = {"datasets": STUDY["datasets"]["d"], "aggregators": {"class": "a.B"}, "ablations": STUDY["ablations"]["a"]}[
        table
    ]
    parse_study(STUDY | {table: {"n" * 100: value}})
    with pytest.raises(StudyError) as caught:
        parse_study(STUDY | {table: {"n" * 101: value}})
    assert str(caught.value).endswith(f"{table}: rename {'n' * 101}: a name has at most 100 characters")


@pytest.mark.parametrize("name", ["NA", "nan", "NaN", "null", "NULL", "None"])
@pytest.mark.parametrize("table", ["datasets", "aggregators", "ablations"])
def test_a_name_that_tables_take_for_a_missing_value_is_refused(table, name):
    value = {"datasets": STUDY["datasets"]["d"], "aggregators": {"class": "a.B"}, "ablations": STUDY["ablations"]["a"]}[
        table
    ]
    parse_study(STUDY | {table: {f"{name}1": value}})
    with pytest.raises(StudyError) as caught:
        parse_study(STUDY | {table: {name: value}})
    assert str(caught.value).endswith(f"{table}: rename {name}: readers of CSV files take it for a missing value")


def test_a_long_name_of_a_study_is_refused():
    with pytest.raises(StudyError, match="study: String should have at most 100 characters"):
        parse_study(STUDY | {"study": "s" * 101})


@pytest.mark.parametrize("key", ["datasets", "layers"])
def test_an_ablation_of_nothing_is_refused(key):
    """An empty list would else mean all of them."""
    for nothing, told in (
        ([], "expected at least 1 entry, got"),
        (None, "is empty; fill it in, or leave it out to have all"),
    ):
        with pytest.raises(StudyError, match=rf"1 error in the study file:\n  - ablations\.a\.{key}: {told}"):
            parse_study(STUDY | {"ablations": {"a": STUDY["ablations"]["a"] | {key: nothing}}})


def test_a_text_that_no_file_could_hold_is_refused_before_anything_trains():
    study = {
        "study": "s",
        "title": "Gr\udcf6\udcdfe",  # Latin-1 on a command line
        "datasets": {"d": {"source": "tu"}},
        "layers": ["gcn"],
        "ablations": {"a": {"axes": {"aggregator": ["sum"]}, "claim": "\ud83d\ude00 are halves of one character"}},
    }
    told = "1 error in the study file:\n  - title: holds what is no character in UTF-8, got 'Gr\\udcf6\\udcdfe'"
    with pytest.raises(StudyError) as caught:
        parse_study(study)
    assert str(caught.value) == told
    study["ablations"]["a"]["claim"] = "\ud83d is half of one"
    with pytest.raises(StudyError, match=r"2 errors(.*\n)+  - ablations\.a\.claim: holds what is no character"):
        parse_study(study)
