"""The command line, for the workflow's rules and for people. Heavy libraries are imported where they are used."""

import argparse
import gc
import io
import json
import logging
import math
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ssma.errors import STOPPED, StudyError
from ssma.study.config import Study, load_study
from ssma.study.cost import counted, describe, duration, plan_cost, usable_cores
from ssma.study.jobs import this_command
from ssma.study.locks import exclusive
from ssma.study.lookup import named, named_arm, open_results, plan_path, read_plan, unfinished, why_no_result
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import write_record
from ssma.study.tuning import storage_url

ARGUMENTS = {
    "plan": "a study's plan.json, or its study file",
    "study": "a study file (YAML)",
    "dataset": "its label in the study",
    "arm": "id or label, or a part that no other one has",
    "experiment": "its key in the study's section theory",
    "cell": "an arm, by id or label or a part that no other one has, or a fit by its id",
}

log = logging.getLogger("ssma")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, returns its exit status: 0, 1 for a result that lacks or is another one, 2 for wrong input."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log.setLevel(logging.INFO)
    stops = (signal.SIGTERM, signal.SIGHUP)  # the latter comes where a terminal or a connection is closed
    if threading.current_thread() is not threading.main_thread():  # Python lets no other one handle signals
        stops = ()
    for stop in stops:
        if stop == signal.SIGTERM or signal.getsignal(stop) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(stop, lambda *_: sys.exit(STOPPED))
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # a background job may have closed it
    if isinstance(sys.stdout, io.TextIOWrapper):  # that of a notebook is none, and takes all characters
        sys.stdout.reconfigure(errors="replace")  # a character that a terminal lacks stops no command
    os.environ["MPLBACKEND"] = "agg"  # a notebook that calls this names its own, which may not be installed here
    try:
        if any(text == "" or re.fullmatch("--[a-z-]+=", text) for text in arguments or sys.argv[1:]):
            raise StudyError("an argument is empty, as where a variable of the shell is not set")
        options = _parser().parse_args(arguments)
        status = options.run(options)
        sys.stdout.flush()
        return status
    except StudyError as error:
        print(f"ssma: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        sys.tracebacklimit = 0  # Python says no more than the word, and ends by the signal, which stops loops of shells
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        (output := select.poll()).register(sys.stdout, 0)
        if not output.poll(0):  # another connection broke, such as that to a database
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python writes the rest at exit
        return 0  # whoever reads the output, such as head, has enough
    except OSError as error:
        if error.filename is None:
            raise
        print(f"ssma: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ssma", description="Ablation studies of neighbourhood aggregation in GNNs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, *names: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        for what in names:
            sub.add_argument(what, type={"plan": plan_path, "study": Path}.get(what, str), help=ARGUMENTS[what])
        return sub

    planner = command("plan", _plan, "Check a study file and say what it will cost.", "study")
    planner.add_argument("--write", type=Path, metavar="PLAN", help="also write the plan to this file")
    planner.add_argument("--cores", type=_positive, default=usable_cores(), help="cores to estimate for (all)")
    command("store", _store, "Create the stores of MLflow and the searches before jobs start.", "plan")
    command("prepare", _prepare, "Check a data set, freeze its splits and write its card.", "plan", "dataset")
    for name, run, what, text in (
        ("tune", _tune, "arm", "Search the hyperparameters of an arm."),
        ("evaluate", _evaluate, "arm", "Train an arm's chosen configuration with fresh seeds on every split."),
        ("theory", _theory, "experiment", "Run a theory experiment and draw its figure."),
    ):
        command(name, run, text, "plan", what).add_argument("--threads", type=_positive, default=1, help="of torch (1)")
    command("collect", _collect, "Gather all records in one table (parquet).", "plan")
    reporter = command("report", _report, "Make the page, tables and figures from whatever records exist.", "plan")
    reporter.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to put them")
    reporter.add_argument("--ablation", metavar="NAME", help="report this ablation alone")
    command("track", _track, "Fill the MLflow store from the records.", "plan")
    command("status", _status, "Say how far a study is.", "plan").add_argument("--out", type=Path, help="its report")
    opener = command("ui", _ui, "Open the MLflow UI on a study's store.", "plan")
    opener.add_argument("--port", type=int, default=5000, help="on which it answers (5000)")
    command("schema", _schema, "Print the JSON Schema of a study file.")
    command("show", _show, "Show what stands behind a number: an arm or a fit.", "plan", "cell")
    command("rerun", _rerun, "Train an arm's evaluation fits, or one fit, again and compare.", "plan", "cell")
    _add_data(commands)
    _add_bench(commands)
    return parser


def _add_data(commands: Any) -> None:
    text = "Look at data sets."
    looks = commands.add_parser("data", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    text = "Print sizes and degrees of data sets beside those of the paper."
    stats = looks.add_parser("stats", help=text, description=text)
    stats.set_defaults(run=_data_stats)
    which = stats.add_mutually_exclusive_group(required=True)
    which.add_argument("plan", nargs="?", type=plan_path, help="a study's plan.json or study file: what it prepared")
    which.add_argument("--mirror", type=Path, metavar="FOLDER", help="all that is in a folder of raw data sets")


def _add_bench(commands: Any) -> None:
    text = "Measure speed and memory on this machine."
    benches = commands.add_parser("bench", help=text, description=text).add_subparsers(required=True, metavar="WHAT")
    for what, text in (
        ("aggr", "Time SSMA against the paper's formulation and against other layers."),
        ("data", "Time an epoch of batches against PyG's loader."),
        ("fit", "Time an epoch of whole fits against the same networks in plain PyG."),
        ("runtime", "Time layers beside the paper's times, and how SSMA's time and memory grow."),
    ):
        bench = benches.add_parser(what, help=text, description=text)
        bench.set_defaults(run=_bench, what=what)
        bench.add_argument("--out", type=Path, default=Path("reports/bench"), metavar="FOLDER", help="where to write")
        bench.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: CPU, CUDA if there")
        bench.add_argument("--threads", type=_positive, help="torch's threads, all cores by default")
        bench.add_argument("--quick", action="store_true", help="a small grid, in under a minute")
        bench.add_argument("--budget", type=_positive, metavar="SECONDS", help="for a cell's repeats (10; quick: 1)")
        if what != "data":
            bench.add_argument("--memory-share", type=_share, default=0.6, help="of free memory, for one call (0.6)")
            bench.add_argument("--time-cap", type=_positive, default=60, metavar="SECONDS", help="for one call (60)")
        if what in ("aggr", "fit"):
            bench.add_argument("--compiled", action="store_true", help="SSMA also with compiled=True")
        if what in ("data", "fit"):
            bench.add_argument(
                "--mirror", type=Path, default=os.environ.get("SSMA_DATA_MIRROR"), metavar="FOLDER",
                help="raw data sets (SSMA_DATA_MIRROR by default); random graphs stand in for those that are not there",
            )  # fmt: skip


def _positive(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number from 1 to 999999")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number above 0, at most 1")
    return share


def _plan(options: argparse.Namespace) -> int:
    plan = make_plan(load_study(options.study))
    for arm in plan["arms"]:
        print(f"{arm['id']:<44} {counted(arm['trials'], 'trial'):>10}  {arm['label']}")
    cost = plan_cost(plan, Results(Path("results", plan["study"])))
    for name, experiment in plan["theory"].items():
        print(f"{experiment['id']:<44} theory experiment, about {duration(cost.theory[name])} on a core")
    print(describe(cost, options.cores))
    if options.write:
        write_record(options.write, plan)
    return 0


def _store(options: argparse.Namespace) -> int:
    from ssma.track.live import open_tracker, try_again

    plan, results = open_results(options.plan)
    if url := storage_url(plan["config"]["tune"]):
        from ssma.tune.storage import create_tables

        create_tables(url)
    try_again(results)
    open_tracker(results, plan)
    return 0


def _prepare(options: argparse.Namespace) -> int:
    plan, results = open_results(options.plan)
    dataset = named(plan["datasets"], options.dataset, "data set")
    mirror = plan["config"]["data"]["mirror"] or os.environ.get("SSMA_DATA_MIRROR")
    with _imports():
        from ssma.data.prepare import load, prepare
        from ssma.fit.sanity import sanity
        from ssma.layers.preflight import preflight
    preflight(arm for arm in plan["arms"] if arm["dataset"] == dataset["label"])
    folder = results.data(dataset["id"])
    with exclusive(folder / "prepare.lock"):  # a killed Snakemake may have left a job that is still at it
        card = prepare(folder, dataset, Path(mirror).expanduser() if mirror else None)
        write_record(folder / "sanity.json", sanity(load(folder)))
    sizes = (counted(card[f"num_{what}s"], what) for what in ("graph", "node", "edge"))
    log.info("%s: %s", dataset["label"], ", ".join(sizes))
    return 0


def _tune(options: argparse.Namespace) -> int:
    with _imports():
        from ssma.job import Job
    job = Job.open(options.plan, options.arm, options.threads)
    arm = job.arm
    with job.watching(arm["trials"] * len(arm["tune_splits"])) as watcher:
        record = job.choose(watcher)
        if record["status"] != "ok":
            watcher.finish(record["status"], record["reason"])
    return _verdict(arm, record)


def _evaluate(options: argparse.Namespace) -> int:
    with _imports():
        from ssma.job import Job
        from ssma.tune.arm import evaluate_arm
    job = Job.open(options.plan, options.arm, options.threads)
    arm = job.arm
    if arm["space"] and not job.results.chosen(arm["id"]).exists():
        raise StudyError(f"arm {arm['id']} is not tuned yet: {this_command()} tune {options.plan} {arm['id']}")
    with job.watching(len(arm["splits"]) * arm["repeats"]) as watcher:
        if not arm["space"]:  # such an arm has no job of its own for it
            job.choose(watcher)
        record = evaluate_arm(job.results, arm, job.dataset_id, job.seed, job.train, watcher)
        watcher.finish(record["status"], record["reason"])
    lost = [f"split {fit['split']} failed: {fit['reason']}" for fit in record["fits"] if fit["status"] == "failed"]
    for text in lost:
        print(f"{arm['id']}: {text}; it is tried again next time", file=sys.stderr)
    return max(_verdict(arm, record), int(bool(lost)))


def _verdict(item: dict[str, Any], record: dict[str, Any]) -> int:
    if record["status"] == "ok":
        return 0
    print(f"{item['id']}: {record['reason']}", file=sys.stderr)
    return 1


def _collect(options: argparse.Namespace) -> int:
    from ssma.report.frame import collect, write_frame

    write_frame(collect(results := open_results(options.plan)[1]), results.frame)
    return 0


def _report(options: argparse.Namespace) -> int:
    from ssma.report.build import build

    read_plan(options.plan)
    build(Results(options.plan.parent), options.out, options.ablation)
    print(f"report: {options.out / 'index.html'}")
    return 0


def _theory(options: argparse.Namespace) -> int:
    plan, results = open_results(options.plan)
    experiment = named(plan["theory"], options.experiment, "theory experiment")
    with _imports():
        import torch

        from ssma.theory.experiment import run_experiment
    torch.set_num_threads(options.threads)
    record = run_experiment(results, experiment)
    if status := _verdict(experiment, record):
        return status
    from ssma.report.theory import show

    print(show(plan, record, results.theory(experiment["id"]).parent, experiment["id"]).words)
    return 0


def _track(options: argparse.Namespace) -> int:
    from ssma.track.fill import fill
    from ssma.track.live import try_again

    plan, results = open_results(options.plan)
    counts = fill(results, plan)
    try_again(results)
    print(", ".join(counted(count, name.replace("_", " ")[:-1]) for name, count in counts.items()))
    return 0


def _status(options: argparse.Namespace) -> int:
    from ssma.track.live import unusable

    plan, results = open_results(options.plan)
    reasons = {arm["id"]: why_no_result(results, arm["id"]) for arm in plan["arms"]}
    print(f"{plan['study']}: {list(reasons.values()).count(None)} of {counted(len(reasons), 'arm')} with a result")
    for line in [*(f"{arm}: {why}" for arm, why in reasons.items() if why), *unfinished(plan, results)]:
        print(f"  {' '.join(line.splitlines())}")
    if reason := unusable(results):
        print(f"  MLflow was not filled: {reason}. Mend it and run: {this_command()} track {options.plan}")
    out = options.out or Path("reports", plan["study"])
    if (made := out / "plan.json").exists() and made.read_bytes() != options.plan.read_bytes():
        print("  The report is not of the whole study as it was started last; a run makes it anew at its end")
    places = [("report", "index.html"), ("tables", "tables"), ("figures", "figures")]
    places += [(name, f"ablations/{name}/index.html") for name in plan["ablations"]]  # of those that were run alone
    for name, where in [place for place in places if (out / place[1]).exists()]:
        print(f"  {name:<8} {out / where}")
    if plan["config"]["track"]["enabled"]:
        print(f"  {'mlflow':<8} {this_command()} ui {options.plan}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from ssma.report.show import describe_arm, describe_fit

    plan, results = open_results(options.plan)
    is_fit = os.path.exists(results.fit(options.cell))  # which takes no name amiss, however long
    made = describe_fit if is_fit else describe_arm
    print(made(results, plan, options.cell if is_fit else named_arm(plan, options.cell)), end="")
    return 0


def _rerun(options: argparse.Namespace) -> int:
    with _imports():
        from ssma.rerun import circumstances, differences, records_of, rerun
    plan, results = open_results(options.plan)
    records, unlike, why = records_of(results, plan, options.cell), 0, {}
    for old, new in zip(records, rerun(results, records, plan["config"]["device"]), strict=True):
        if found := differences(old, new):
            unlike, why = unlike + 1, why | dict.fromkeys(circumstances(old, new))
        print(f"split {old['spec']['split']} seed {old['spec']['seed']}: {'; '.join(found) or 'the same'}")
    of_others = f"; of the others {', '.join(why)}" if why else ""
    print(f"{len(records) - unlike} of {counted(len(records), 'fit')} came out as recorded{of_others}")
    return int(unlike > 0)


def _ui(options: argparse.Namespace) -> int:
    from ssma.track.ui import open_ui

    plan, results = open_results(options.plan)
    open_ui(results, plan, options.port)
    return 0


def _data_stats(options: argparse.Namespace) -> int:
    from ssma.data.stats import format_table, mirror_rows, study_rows

    if options.mirror:
        rows, errors = mirror_rows(options.mirror)
        print(format_table(rows))
        if errors:
            raise StudyError("\n".join(errors))
    else:
        print(format_table(study_rows(read_plan(options.plan), Results(options.plan.parent))))
    return 0


def _bench(options: argparse.Namespace) -> int:
    with _imports():
        from ssma.bench.command import bench_aggr, bench_data, bench_fit, bench_runtime
        from ssma.bench.measure import Limits
    options.out.mkdir(parents=True, exist_ok=True)  # or it cannot be written, which is not to be learned at the end
    budget = options.budget or (1 if options.quick else 10)
    shared = (options.out, options.device, options.threads, options.quick)
    if options.what == "data":
        bench_data(*shared, budget, options.mirror)
    else:
        limits = Limits(options.memory_share, options.time_cap, budget)
        more = {"aggr": ["compiled"], "fit": ["compiled", "mirror"]}.get(options.what, [])
        bench = {"aggr": bench_aggr, "fit": bench_fit, "runtime": bench_runtime}[options.what]
        bench(*shared, limits, *(getattr(options, name) for name in more))
    print(f"benchmark: {options.out / options.what}.md")
    return 0


def _schema(options: argparse.Namespace) -> int:
    print(json.dumps(Study.model_json_schema(), indent=2))
    return 0


@contextmanager
def _imports() -> Iterator[None]:
    """Imports faster: the garbage collector finds nothing in what modules keep for ever."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
