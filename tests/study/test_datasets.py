"""Data sets of a study file: what the plan says about splits and identity of each source."""

import json

import pytest

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.cost import plan_cost
from ssma.study.ids import argument_files, argument_fingerprint, data_fingerprint, digest, file_fingerprint
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.space import idle_on

OFFICIAL = {
    "ZINC": {"source": "zinc"},
    "func": {"source": "lrgb", "name": "Peptides-func"},
    "struct": {"source": "lrgb", "name": "Peptides-struct", "loss": "mse"},
    "hiv": {"source": "ogbg", "name": "ogbg-molhiv"},
}


SYNTHETIC = {"source": "synthetic", "task": "product_classification", "num_graphs": 30}


def plan_of(datasets, **changed):
    study = {
        "study": "s",
        "layers": ["gcn"],
        "ablations": {"a": {"axes": {"aggregator": ["sum"]}}},
        "datasets": datasets,
    }
    return make_plan(parse_study(study | changed))


def test_an_official_split_is_one_split_whatever_the_folds_of_others():
    datasets = OFFICIAL | {"MUTAG": {"source": "tu"}}
    space = {"trials": 2, "splits": 3, "space": {"training.lr": [0.1, 0.01]}}
    plan = plan_of(datasets, splits={"folds": 5}, evaluate={"repeats": 5}, tune=space)
    for label in OFFICIAL:
        assert (plan["datasets"][label]["splits"], plan["datasets"][label]["use"]) == ({"scheme": "official"}, 1)
    arms = {arm["dataset"]: arm for arm in plan["arms"]}
    assert (arms["ZINC"]["splits"], arms["ZINC"]["tune_splits"], arms["ZINC"]["repeats"]) == ([0], [0], 5)
    assert (arms["MUTAG"]["splits"], arms["MUTAG"]["tune_splits"]) == ([0, 1, 2, 3, 4], [0, 1, 2])


def test_the_cost_of_an_official_split_is_known_beforehand(tmp_path):
    cost = plan_cost(plan_of(OFFICIAL, evaluate={"repeats": 5}), Results(tmp_path))
    assert (cost.fits, cost.unknown) == (20, ())


@pytest.mark.parametrize(
    ("datasets", "changed", "message"),
    [
        ({"z": {"source": "zinc", "splits": {"folds": 5}}}, {}, "datasets.z.splits: must be left out, the data set has an official split"),
        (OFFICIAL, {"splits": {"folds": 5}}, "splits: must be left out, every data set has an official split"),
        ({"p": {"source": "lrgb", "name": "Peptides-func", "loss": "mse"}}, {}, "datasets.p: Peptides-func has labels"),
        ({"p": {"source": "lrgb"}}, {}, "datasets.p.name: this key is required"),
        ({"p": {"source": "ogbg", "name": "ogbg-mol"}}, {}, "datasets.p.name: Input should be 'ogbg-molhiv' or 'ogbg-molpcba'"),
        ({"p": {"source": "pyg", "clas": "a.B"}}, {}, "datasets.p.clas: unknown key; did you mean 'class'"),
        ({"p": {"source": "pyg", "class": "NoDots"}}, {}, "datasets.p.class: got 'NoDots', expected the dotted path of a class, package.module.Class"),
        ({"p": {"source": "pyg", "class": "no_such_module.Set"}}, {}, "datasets.p.class: no module 'no_such_module'"),
        ({"p": {"source": "file", "path": "/no/such/file.pt"}}, {}, "datasets.p.path: /no/such/file.pt: cannot be read"),
        ({"p": {"source": "file", "path": "no/file.pt"}}, {}, "datasets.p.path: /.*/no/file.pt: cannot be read"),
        ({"s": {"source": "synthetic", "task": "product_regression", "num_graphs": 30, "seed": 2**53}}, {"splits": {"folds": 3, "seed": 2**32}}, "(?s)datasets.s.seed: Input should be less than 9007199254740992.*splits.seed: Input should be less than 4294967296"),
        ({"p": {"source": "file", "path": "x", "target": -1}}, {}, "datasets.p.target: Input should be greater than or equal to 0, got -1"),
        ({"p": {"source": "file", "path": "x", "target": []}}, {}, r"datasets.p.target: expected at least 1 entry, got \[\]"),
        ({"p": {"source": "file", "path": "x", "target": [2, 0, 2]}}, {}, "datasets.p.target: names 2 twice; leave one out"),
        ({"p": {"source": "pyg", "class": "a.B", "target": "gap"}}, {}, "datasets.p.target: Input should be a valid integer, .*, got 'gap'"),
        ({"p": {"source": "pyg", "class": "a.B", "target": True}}, {}, "datasets.p.target: Input should not be true or false, got True"),
        ({"p": {"source": "tu", "target": 0}}, {}, "datasets.p.target: unknown key; allowed: "),
        ({"p": {"source": "folder", "path": "x", "metric": "ap"}}, {}, "datasets.p.metric: Input should be 'accuracy', 'f1', 'mae' or 'rmse', got 'ap'"),
        ({"p": {"source": "file", "path": "x", "task": "regression", "metric": "accuracy"}}, {}, "datasets.p: got metric accuracy with task: regression, whose metrics are mae, rmse$"),
        ({"p": {"source": "file", "path": "x", "task": "multilabel", "loss": "mse"}}, {}, "datasets.p: got loss mse with task: multilabel; loss is for a regression, leave it out$"),
        ({"p": {"source": "folder", "path": "x", "metric": "f1", "loss": "l1"}}, {}, "datasets.p: got loss l1 with metric: f1; loss is for a regression, leave it out$"),
        ({"s": {"source": "synthetic", "task": "multilabel", "num_graphs": 3, "num_features": 2}}, {}, "datasets.s: num_features is 2, it must be at least 4; num_graphs is 3, it must be at least 4$"),
        ({"s": {"source": "synthetic", "task": "node_classification", "num_features": 1, "degree": 1}}, {}, "datasets.s: num_features is 1, it must be at least 2; degree is 1, it must be at least 2$"),
        ({"s": {"source": "synthetic", "task": "product_regression", "num_graphs": 9, "num_nodes": 5}}, {}, "datasets.s: num_nodes is 5, it must be at least 8$"),
        ({"s": {"source": "synthetic", "task": "product_regression", "num_graphs": 9}}, {}, "splits.folds: got 10, but s has 9 items, and each fold needs one$"),
        ({"s": {"source": "synthetic", "task": "node_classification", "num_nodes": 9, "splits": {"folds": 12}}}, {}, "datasets.s.splits.folds: got 12, but s has 9 items, and each fold needs one$"),
        ({"p": {"source": "web"}}, {}, "unknown source 'web'; allowed: synthetic, tu, zinc, lrgb, ogbg, ogbn, folder, file, pyg"),
    ],
)  # fmt: skip
def test_errors(datasets, changed, message):
    with pytest.raises(StudyError, match=message):
        plan_of(datasets, **changed)


def test_ones_own_data_are_known_by_their_content_not_by_their_place(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "X_A.txt").write_text("1, 2\n")
        (tmp_path / name / "graphs.pt").write_bytes(b"1")

    def ids():
        return [
            plan_of({"d": {"source": source, "path": str(tmp_path / name / file)}})["datasets"]["d"]["id"]
            for source, file in (("folder", ""), ("file", "graphs.pt"))
            for name in ("here", "there")
        ]

    first = ids()
    assert first[0] == first[1] and first[2] == first[3] and first[0] != first[2]
    (tmp_path / "there" / "X_A.txt").write_text("2, 1\n")
    (tmp_path / "there" / "graphs.pt").write_bytes(b"2")
    second = ids()
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True, False]


def test_what_is_learned_of_ones_own_data_is_part_of_what_they_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "X_A.txt").write_text("1, 2\n")
    (tmp_path / "graphs.pt").write_bytes(b"1")
    (tmp_path / "my_targets.py").write_text("class Mine: ...\n")
    sources = {
        "folder": {"source": "folder", "path": str(tmp_path)},
        "file": {"source": "file", "path": str(tmp_path / "graphs.pt")},
        "pyg": {"source": "pyg", "class": "my_targets.Mine"},
    }

    def found(**options):
        datasets = {label: entry | options for label, entry in sources.items()}
        return plan_of(datasets)

    def ids(plan):
        return [dataset["id"] for dataset in plan["datasets"].values()]

    first = found()
    assert ids(first) == ["folder-469d47691e", "file-6882ebd0d9", "pyg-33d9cc8db7"]  # as of plans without such keys
    assert "'target'" not in str(first) and first == found(target=None, metric=None, loss=None)
    assert [found(target=[2, 0])["datasets"][label]["spec"]["target"] for label in sources] == [[0, 2]] * 3
    assert ids(found(target=2)) == ids(found(target=[2])) and ids(found(target=[0, 2])) == ids(found(target=[2, 0]))
    others = [{}, {"target": 2}, {"target": [0, 2]}, {"metric": "rmse"}, {"metric": "f1"}, {"loss": "mse"}]
    assert all(len(set(same)) == len(others) for same in zip(*(ids(found(**each)) for each in others), strict=True))


def test_ones_own_splits_are_known_by_their_content_not_by_their_place(tmp_path):
    splits = [{"train": [0, 1], "validation": [2], "test": [3]}, {"train": [0, 2], "validation": [1], "test": [3]}]
    for name in ("here", "there"):
        (tmp_path / f"{name}.json").write_text(json.dumps(splits))

    def entry(name, **changed):
        data = SYNTHETIC | {"splits": {"file": str(tmp_path / f"{name}.json")} | changed}
        return plan_of({"d": data, "folds": SYNTHETIC})["datasets"]["d"]

    here = entry("here")
    content = file_fingerprint(tmp_path / "here.json")
    assert here["splits"] == {"scheme": "file", "file": str(tmp_path / "here.json"), "content": content}
    assert (here["use"], entry("here", use=1)["use"]) == (2, 1)
    assert entry("there")["id"] == here["id"] == entry("here", use=1)["id"]
    config = plan_of({"d": SYNTHETIC | {"splits": {"file": str(tmp_path / "here.json")}}, "folds": SYNTHETIC})["config"]
    assert config["datasets"]["d"]["splits"] == {"use": None, "file": str(tmp_path / "here.json")}
    assert config["splits"] == {"folds": 10, "scheme": "stratified", "seed": 0, "use": None}  # as in older plans
    (tmp_path / "there.json").write_text(json.dumps(splits[:1]))
    assert entry("there")["id"] != here["id"]
    plan = plan_of(
        {"d": SYNTHETIC | {"splits": {"file": str(tmp_path / "here.json")}}},
        tune={"trials": 2, "splits": 1, "space": {"training.lr": [0.1, 0.01]}},
    )
    assert [(arm["splits"], arm["tune_splits"]) for arm in plan["arms"]] == [([0, 1], [0])]


def test_nodes_have_no_readout_and_one_batch_and_graphs_keep_their_ids(tmp_path):
    (tmp_path / "g.pt").write_bytes(b"1")
    file = {"source": "file", "path": str(tmp_path / "g.pt")}
    datasets = {"d": file, "of_graphs": file | {"level": "graph"}, "of_nodes": file | {"level": "node"}}
    plan = plan_of(datasets)
    specs = [plan["datasets"][label]["spec"] for label in datasets]
    assert specs[0] == specs[1] and "level" not in specs[0] and specs[2]["level"] == "node"
    ids = [plan["datasets"][label]["id"].rpartition("-")[2] for label in datasets]
    assert ids[0] != ids[2]
    assert idle_on("gcn", specs[0]) == []
    assert idle_on("gcn", specs[2]) == ["model.readout", "training.batch_size", "training.keep_cut_edges"]


@pytest.mark.parametrize(
    ("datasets", "changed", "message"),
    [
        ({"d": {"file": "FILE", "use": 2}}, {}, "datasets.d.splits.use: got 2, allowed is at most 1, the number of splits"),
        ({"d": {"file": "FILE"}}, {"tune": {"trials": 2, "splits": 2, "space": {"training.lr": [0.1, 0.01]}}}, "tune.splits: got 2, but d has 1 split$"),
        ({"d": {"file": "FILE", "folds": 5, "seed": 1}}, {}, "datasets.d.splits: folds, seed must be left out, since file names the splits"),
        ({"d": {"file": "FILE.none"}}, {}, "datasets.d.splits.file: /.*none: cannot be read"),
        ({"d": None}, {"splits": {"file": "FILE"}}, "splits.file: numbers the items of one data set; name it in datasets.NAME.splits"),
    ],
)  # fmt: skip
def test_errors_of_ones_own_splits(tmp_path, datasets, changed, message):
    path = tmp_path / "splits.json"
    path.write_text('{"train": [0, 1], "validation": [2], "test": [3]}')

    def named(splits):
        return splits and splits | {
            key: text.replace("FILE", str(path)) for key, text in splits.items() if key == "file"
        }

    with pytest.raises(StudyError, match=message):
        plan_of(
            {label: SYNTHETIC | {"splits": named(splits)} for label, splits in datasets.items()},
            **{key: named(value) for key, value in changed.items()},
        )


def test_an_official_split_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(StudyError, match="datasets.z.splits: must be left out, the data set has an official split"):
        plan_of({"z": {"source": "zinc", "splits": {"file": str(tmp_path / "none.json")}}})


def test_ones_own_class_is_known_by_its_code_and_arguments(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "my_sets.py"

    def id_of(code, **arguments):
        module.write_text(code)
        dataset = plan_of({"d": {"source": "pyg", "class": "my_sets.Mine", "arguments": arguments}})["datasets"]["d"]
        assert dataset["spec"]["class"] == "my_sets.Mine" and dataset["spec"]["arguments"] == arguments
        return dataset["id"]

    first = id_of("class Mine:\n    size = 1\n")
    assert id_of("class Mine:\n    # said otherwise\n    size = 1\n") == first
    assert id_of("class Mine:\n    size = 2\n") != first
    assert id_of("class Mine:\n    size = 1\n", size=3) != first


def test_ones_own_class_is_known_by_the_files_that_its_arguments_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_rooted_sets.py").write_text("class Mine: ...\n")
    root = tmp_path / "root"

    def id_with(file=None, text=""):
        if file:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text)
        entry = {"source": "pyg", "class": "my_rooted_sets.Mine", "arguments": {"root": str(root)}}
        return plan_of({"d": entry})["datasets"]["d"]["id"]

    first = id_with()
    others = {"processed/data.pt": "1", "raw/.DS_Store": "1", "notes.txt": "1", "results/s/raw/deep.txt": "1"}
    assert {id_with(file, text) for file, text in others.items()} == {first}
    changes = [("raw/a.csv", "1"), ("raw/a.csv", "2"), ("raw/deep/b.csv", "1"), ("SET/raw/c.csv", "1")]
    assert len({first, *(id_with(*change) for change in changes)}) == 5
    (root / "raw/deep/b.csv").unlink()
    (root / "SET/raw/c.csv").unlink()
    assert id_with("raw/a.csv", "1") == id_with("raw/a.csv", "1") != first


def test_an_argument_that_names_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").write_text("abc")
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert [argument_fingerprint(str(tmp_path / "a.csv")), argument_fingerprint("~/a.csv")] == [sha, sha]
    (tmp_path / "raw").symlink_to(tmp_path / "far")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "b.csv").write_text("abc")
    assert argument_fingerprint(str(tmp_path)) == digest({"raw/b.csv": sha}, 64)
    listed = {"files": ["train", str(tmp_path / "a.csv")], "size": 3}
    assert argument_fingerprint(listed) == digest({"files": digest({"1": sha}, 64)}, 64)
    assert argument_files([listed, str(tmp_path)]) == {tmp_path / "a.csv", tmp_path / "far/b.csv"}
    nothing = ["", "train", "a" * 5000, "\0", "~nobody/x", 3, 0.5, None, True, [], {"a": ["x"]}, str(tmp_path / "far")]
    assert [argument_fingerprint(value) for value in nothing] == [None] * len(nothing)
    assert argument_files(nothing) == set()


def test_fingerprints(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"abc")
    assert file_fingerprint(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert data_fingerprint(file) == file_fingerprint(file)
    before = data_fingerprint(tmp_path)
    (tmp_path / "b.md").write_text("not data")
    assert data_fingerprint(tmp_path) == before
    file.rename(tmp_path / "c.txt")
    assert data_fingerprint(tmp_path) != before
