"""Selection with a faked trainer: the records are arithmetic, so what is chosen can be worked out by hand."""

import math
import os
import signal
import subprocess
import sys
import textwrap

import optuna
import pytest

from ssma.study.jobs import forget_lost
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record
from ssma.tune.arm import evaluate_arm, tune_arm
from ssma.tune.search import search
from ssma.tune.select import choose


class Told:
    def __init__(self):
        self.trials, self.fits = [], []

    def trial(self, entry, records):
        self.trials.append((entry, [record["id"] for record in records]))

    def fit(self, split, repeat, record):
        self.fits.append((split, repeat, record["id"]))


ARM = {
    "id": "a", "search_id": "s", "space": {"training.lr": [0.1, 0.2, 0.3, 0.4]}, "trials": 4, "tune_splits": [0, 1, 2],
    "splits": [0, 1, 2], "repeats": 2, "selection": "validation", "prune": False, "sampler": "tpe",
}  # fmt: skip
VALIDATION = {0.1: [0.5, 0.5, 0.5], 0.2: [0.9, 0.6, 0.6], 0.3: [0.6, 0.9, 0.7], 0.4: [0.1, 0.2, 0.95]}
TEST = {0.1: [0.99, 0.99, 0.99], 0.2: [0.2, 0.2, 0.2], 0.3: [0.3, 0.3, 0.3], 0.4: [0.4, 0.4, 0.4]}


def trainer(test=lambda lr, split: TEST[lr][split], calls=None, broken=()):
    def train(hyperparameters, split, seed):
        lr = hyperparameters["training.lr"]
        if calls is not None:
            calls.append((lr, split, seed))
        record = {"id": f"{lr}-{split}-{seed}", "metric": "accuracy", "status": "ok", "reason": None}
        if (lr, split) in broken:
            return record | {"status": "diverged", "reason": "the training loss was nan"}
        return record | {"validation": {"accuracy": VALIDATION[lr][split]}, "test": {"accuracy": test(lr, split)}}

    return train


def tune(tmp_path, arm=ARM, train=None, direction="maximize", watcher=None):
    train, watcher = train or trainer(), watcher or Told()
    return tune_arm(Results(tmp_path), arm, "data", 0, "accuracy", direction, train, watcher)


def test_each_trial_and_each_fit_is_told(tmp_path):
    watcher = Told()
    trials = tune(tmp_path, watcher=watcher)["trials"]
    assert watcher.trials == [(entry, list(entry["fits"].values())) for entry in trials] and len(trials) == 4
    fits = evaluate_arm(Results(tmp_path), ARM, "data", 0, trainer(), watcher)["fits"]
    assert watcher.fits == [(fit["split"], fit["repeat"], fit["id"]) for fit in fits] and len(fits) == 6


def test_best_mean_validation_is_chosen(tmp_path):
    record = tune(tmp_path)
    assert record["chosen"] == {str(split): {"training.lr": 0.3} for split in range(3)}
    assert record["optuna"] == optuna.__version__  # another one may propose others from the same seed
    found = {t["hyperparameters"]["training.lr"]: t["validation"] for t in record["trials"]}
    assert found == pytest.approx({0.1: 0.5, 0.2: 0.7, 0.3: 2.2 / 3, 0.4: 1.25 / 3})


def test_best_validation_of_each_split_is_chosen(tmp_path):
    record = tune(tmp_path, ARM | {"selection": "per_split"})
    assert [record["chosen"][str(split)]["training.lr"] for split in range(3)] == [0.2, 0.3, 0.4]


def test_the_papers_own_protocol_is_available_and_named(tmp_path):
    record = tune(tmp_path, ARM | {"selection": "test"})
    assert record["selection"] == "test"
    assert record["chosen"]["0"] == {"training.lr": 0.1}


def test_a_metric_to_minimise(tmp_path):
    assert tune(tmp_path, direction="minimize")["chosen"]["0"] == {"training.lr": 0.4}


@pytest.mark.parametrize("selection", ["validation", "per_split"])
def test_noise_in_all_test_labels_changes_no_choice(tmp_path, selection):
    arm = ARM | {"selection": selection}
    honest = tune(tmp_path / "a", arm)
    noisy = tune(tmp_path / "b", arm, trainer(test=lambda lr, split: hash((lr, split)) % 97 / 97))
    assert honest == noisy


def test_rounding_decides_between_no_trials():
    assert (0.1 + 0.2) / 2 > 0.15
    assert choose({0: {0: 0.15, 1: 0.15}, 1: {0: 0.1, 1: 0.2}}, [0, 1], "maximize") == {0: 0, 1: 0}
    assert choose({0: {0: 0.1, 1: 0.2}, 1: {0: 0.15, 1: 0.15}}, [0, 1], "minimize") == {0: 0, 1: 0}
    assert choose({0: {0: 0.15, 1: 0.15}, 1: {0: 0.1, 1: 0.200001}}, [0, 1], "maximize") == {0: 1, 1: 1}
    assert choose({0: {0: 0.1 + 0.2}, 1: {0: 0.3}}, [0], "minimize", per_split=True) == {0: 0}
    assert choose({0: {0: 0.300001}, 1: {0: 0.3}}, [0], "minimize", per_split=True) == {0: 1}


def test_equal_scores_choose_the_earliest():
    assert choose({3: {0: 0.5}, 1: {0: 0.5}, 2: {0: 0.4}}, [0], "maximize") == {0: 1}
    with pytest.raises(ValueError, match="no complete trial"):
        choose({}, [0], "maximize")
    with pytest.raises(ValueError, match="direction: got 'maximise', allowed are maximize, minimize"):
        choose({1: {0: 0.5}}, [0], "maximise")


@pytest.mark.parametrize("per_split", [False, True])
@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_finite_number_chooses_nothing(score, per_split):
    scores = {0: {0: score, 1: 0.7}, 1: {0: 0.1, 1: 0.1}}
    with pytest.raises(ValueError, match=f"trial 0 has the score {score} on split 0; leave out such a trial"):
        choose(scores, [0, 1], "maximize", per_split)


def test_evaluation_uses_fresh_seeds_that_arms_share(tmp_path):
    calls, other = [], []
    tune(tmp_path, train=trainer(calls=calls))
    tuned_seeds = {seed for _, _, seed in calls}
    calls.clear()
    record = evaluate_arm(Results(tmp_path), ARM, "data", 0, trainer(calls=calls), Told())
    assert [(fit["split"], fit["repeat"]) for fit in record["fits"]] == [(s, r) for s in range(3) for r in range(2)]
    assert {lr for lr, _, _ in calls} == {0.3}
    seeds = [fit["seed"] for fit in record["fits"]]
    assert len(set(seeds)) == 6
    assert not tuned_seeds & set(seeds)
    tune(tmp_path, ARM | {"id": "b", "search_id": "t"})
    evaluate_arm(Results(tmp_path), ARM | {"id": "b", "search_id": "t"}, "data", 0, trainer(calls=other), Told())
    assert [seed for _, _, seed in other] == seeds


def test_seeds_follow_from_study_data_set_split_and_repeat_alone(tmp_path):
    def seeds(name, dataset="data", study=0):
        arm, calls = ARM | {"id": name, "search_id": name}, []
        results, train = Results(tmp_path), trainer(calls=calls)
        tune_arm(results, arm, dataset, study, "accuracy", "maximize", train, Told())
        evaluate_arm(results, arm, dataset, study, train, Told())
        return {(split, seed) for _, split, seed in calls}

    mine = seeds("a")
    assert len({seed for _, seed in mine}) == len(mine) == 3 + 6
    assert seeds("b") == mine
    assert not mine & (seeds("c", dataset="other") | seeds("d", study=1))


def test_an_evaluation_is_good_where_a_fit_is(tmp_path):
    tune(tmp_path)
    why = "no fit succeeded: split 0 diverged: the training loss was nan"
    for bad, found in ((0, ("ok", None)), (2, ("ok", None)), (3, ("failed", why))):
        train = trainer(broken={(0.3, split) for split in range(bad)})
        record = evaluate_arm(Results(tmp_path), ARM, "data", 0, train, Told())
        assert (record["status"], record["reason"], len(record["fits"]), record["planned"]) == (*found, 6, 6)


def test_a_rerun_repeats_nothing_and_a_larger_budget_adds(tmp_path):
    space = {"training.lr": {"low": 0.001, "high": 0.1, "log": True, "kind": "float"}}
    asked = []

    def run(hyperparameters, split):
        asked.append(hyperparameters["training.lr"])
        return {
            "id": "x",
            "status": "ok",
            "metric": "m",
            "validation": {"m": hyperparameters["training.lr"]},
            "reason": None,
        }

    def go(trials, folder="a"):
        return [
            r.hyperparameters for r in search(tmp_path / folder / "j", "s", space, trials, [0], "maximize", False, run)
        ]

    three = go(3)
    assert go(3) == three
    assert len(set(asked)) == 3
    five = go(5)
    assert five[:3] == three
    assert len(set(asked)) == 5
    assert go(5, "b") == five


def test_no_configuration_is_tried_twice_while_the_space_has_others(tmp_path):
    """Otherwise an arm with a small space would lose trials that an arm with a large one has."""
    space = {"training.lr": [0.1, 0.2, 0.3, 0.4], "model.dropout": [0.0, 0.1, 0.2]}

    def run(hyperparameters, split):
        return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": 1.0}, "reason": None}

    def go(trials, folder):
        found = search(tmp_path / folder / "j", folder, space, trials, [0], "maximize", False, run)
        return [tuple(sorted(result.hyperparameters.items())) for result in found]

    for folder in ("a", "b", "c"):
        six = go(6, folder)
        assert len(set(six)) == 6
        assert go(12, folder)[:6] == six
        assert len(set(go(12, folder))) == 12


def test_a_range_searches_what_its_setting_is(tmp_path):
    def run(hyperparameters, split):
        return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": 1.0}, "reason": None}

    for kind, whole in (("float", False), ("int", True)):
        space = {"x": {"low": 1, "high": 4, "log": False, "kind": kind}}
        found = search(tmp_path / kind / "j", "s", space, 5, [0], "maximize", False, run)
        assert all(float(r.hyperparameters["x"]).is_integer() for r in found) is whole


def test_deleted_records_are_trained_again_and_judged_again(tmp_path):
    everything = {(lr, split) for lr in VALIDATION for split in range(3)}
    assert tune(tmp_path)["status"] == "ok"
    broken = tune(tmp_path, train=trainer(broken=everything))
    assert (broken["status"], [t["state"] for t in broken["trials"]]) == ("failed", ["failed"] * 4)
    some = tune(tmp_path, train=trainer(broken={(0.3, 2)}))
    assert some["chosen"]["0"] == {"training.lr": 0.2}


def test_diverged_trials_are_never_best_and_a_hopeless_search_says_why(tmp_path):
    record = tune(tmp_path / "a", train=trainer(broken={(0.3, 1)}))
    assert record["chosen"]["0"] == {"training.lr": 0.2}
    failed = [t["hyperparameters"]["training.lr"] for t in record["trials"] if t["state"] == "failed"]
    assert failed == [0.3]
    everything = {(lr, split) for lr in VALIDATION for split in range(3)}
    hopeless = tune(tmp_path / "b", train=trainer(broken=everything))
    assert hopeless["status"] == "failed"
    assert hopeless["reason"] == "no valid trial: split 0 diverged: the training loss was nan"
    written = [Results(tmp_path / folder).evaluation("a") for folder in "ab"]
    assert [path.exists() for path in written] == [False, True]  # after a search that failed no job comes that would
    evaluation = evaluate_arm(Results(tmp_path / "b"), ARM, "data", 0, trainer(), Told())
    assert (evaluation["status"], evaluation["fits"]) == ("failed", [])
    assert read_record(written[1]) == evaluation


def test_errors_of_code_or_machine_are_tried_again(tmp_path):
    calls = []

    def out_of_memory_once(hyperparameters, split, seed):
        calls.append(hyperparameters["training.lr"])
        if len(calls) == 1:
            return {"id": "x", "metric": "accuracy", "status": "failed", "reason": "OutOfMemoryError: CUDA"}
        return trainer()(hyperparameters, split, seed)

    def goes_on():
        """Says whether Snakemake runs the search again when the study is started again, whose fits have records."""
        for trial in read_record(Results(tmp_path).chosen("a"))["trials"]:
            for fit in trial["fits"].values():
                write_record(Results(tmp_path).fit(fit), {})
        flag = Results(tmp_path).arm("a") / "tuned"
        flag.touch()
        forget_lost(Results(tmp_path), {"arms": [ARM], "theory": {}})
        return not flag.exists()

    assert [t["state"] for t in tune(tmp_path, train=out_of_memory_once)["trials"]] == ["failed"] + ["complete"] * 3
    assert goes_on()
    assert [t["state"] for t in tune(tmp_path)["trials"]] == ["complete"] * 4
    assert not goes_on()


def test_pruning_ends_a_bad_trial_and_it_is_never_best(tmp_path):
    scores = {0.1: [0.9] * 8, 0.2: [0.1] * 8}

    def train(hyperparameters, split, seed):
        value = scores[hyperparameters["training.lr"]][split] + 0.001 * split
        return {
            "id": "x",
            "metric": "a",
            "status": "ok",
            "reason": None,
            "validation": {"a": value},
            "test": {"a": 0.0},
        }

    splits = list(range(8))
    arm = ARM | {
        "space": {"training.lr": [0.1, 0.2]},
        "trials": 2,
        "splits": splits,
        "tune_splits": splits,
        "prune": True,
    }
    record = tune(tmp_path, arm, train)
    pruned = [t for t in record["trials"] if t["state"] == "pruned"]
    assert [t["hyperparameters"] for t in pruned] == [{"training.lr": 0.2}]
    assert 2 <= len(pruned[0]["per_split"]) < 8
    assert pruned[0]["validation"] is None
    assert tune(tmp_path, arm, train)["trials"] == record["trials"]


def test_an_arm_without_a_space_has_nothing_to_choose(tmp_path):
    record = tune(tmp_path, ARM | {"space": {}, "trials": 0})
    assert (record["status"], record["trials"], record["chosen"]["2"]) == ("ok", [], {})


def test_a_killed_search_ends_as_it_would_have(tmp_path):
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from ssma.tune.search import search
        space = {"training.lr": {"low": 0.001, "high": 0.1, "log": True, "kind": "float"}, "model.dropout": [0.0, 0.1]}
        def run(hp, split):
            done = Path(sys.argv[1], "count"); n = int(done.read_text()) if done.exists() else 0
            done.write_text(str(n + 1))
            if n + 1 == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": hp["training.lr"] + split}, "reason": None}
        for r in search(Path(sys.argv[1], "j"), "s", space, 16, [0, 1], "maximize", False, run):
            print(r.state, sorted(r.hyperparameters.items()))
    """)

    def go(folder, kill_at):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, "-c", script, str(tmp_path / folder), str(kill_at)]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)

    assert go("killed", 25).returncode == -signal.SIGKILL
    resumed, whole = go("killed", 0), go("whole", 0)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout
    assert resumed.stdout.count("complete") == 16


def test_a_kill_between_outcome_and_tell_changes_nothing_after_it(tmp_path, monkeypatch):
    """Trials beyond TPE's random start depend on the values of those before."""
    space = {"x": {"low": 0.0, "high": 1.0, "log": False, "kind": "float"}}

    def run(hyperparameters, split):
        value = -((hyperparameters["x"] - 0.3) ** 2)
        return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": value}, "reason": None}

    def go(folder):
        found = search(tmp_path / folder / "j", "s", space, 15, [0], "maximize", False, run)
        return [result.hyperparameters for result in found]

    whole, tell, told = go("whole"), optuna.Study.tell, []

    def killed(self, *arguments, **options):
        told.append(1)
        if len(told) == 8:
            raise KeyboardInterrupt
        return tell(self, *arguments, **options)

    monkeypatch.setattr(optuna.Study, "tell", killed)
    with pytest.raises(KeyboardInterrupt):
        go("killed")
    monkeypatch.setattr(optuna.Study, "tell", tell)
    assert go("killed") == whole
