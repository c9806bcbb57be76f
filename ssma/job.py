"""One job of a study: an arm with its data, device, trainer, and whoever watches its results come in."""

import ctypes
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ssma.data.prepare import Prepared, load
from ssma.errors import STOPPED
from ssma.fit.run import check_compiler, pick_device, run_fit
from ssma.fit.spec import fit_spec
from ssma.gpus import take_gpu
from ssma.study.classes import check_class
from ssma.study.cost import counted, duration
from ssma.study.locks import exclusive
from ssma.study.lookup import named, named_arm, open_results
from ssma.study.paths import Results
from ssma.study.tuning import storage_url
from ssma.track.live import LiveTracker, open_tracker
from ssma.tune.arm import tune_arm

log = logging.getLogger("ssma")

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # numbers of options, in malloc.h


@dataclass
class Watcher:
    """Logs results with the time left, and passes them on to MLflow."""

    arm: dict[str, Any]
    tracker: LiveTracker
    fits: int
    done: int = 0
    spent: float = 0.0
    finished: bool = False

    def trained(self, record: dict[str, Any], hyperparameters: dict[str, Any], split: int) -> None:
        """Logs a fit, of a trial or of the evaluation."""
        self.done += 1
        self.spent += record["seconds"] or 0.0  # of the fit itself: it may have been trained before this job
        left = self.spent / self.done * max(self.fits - self.done, 0)
        told, part, metric = record["reason"], record["validation"], record["metric"]
        if part:
            told = f"validation {metric} {part[metric]:.4f}, {counted(record['epochs'], 'epoch')}"
        if hyperparameters:
            texts = (f"{key}={f'{v:.4g}' if isinstance(v, float) else v}" for key, v in hyperparameters.items())
            told = f"{told} [{' '.join(texts)}]"
        log.info("fit %d of at most %d, split %d: %s, about %s left", self.done, self.fits, split, told, duration(left))

    def trial(self, entry: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """Logs a trial."""
        log.info("trial %d %s, mean validation %s", entry["number"], entry["state"], entry["validation"])
        self.tracker.trial(self.arm, entry, records)

    def fit(self, split: int, repeat: int, record: dict[str, Any]) -> None:
        """Logs an evaluation fit."""
        self.tracker.fit(self.arm, split, repeat, record)

    def finish(self, status: str, reason: str | None) -> None:
        """Closes the arm."""
        self.finished = True
        self.tracker.finish(self.arm, status, reason)


@dataclass
class Job:
    """An arm, ready to be trained."""

    results: Results
    plan: dict[str, Any]
    arm: dict[str, Any]
    dataset_id: str
    prepared: Prepared
    device: torch.device
    watcher: Watcher | None = None

    @classmethod
    def open(cls, plan_path: Path, arm_id: str, threads: int) -> "Job":
        """Reads plan and data, sets torch's threads and the heap, and takes a GPU where fits run on one.

        Raises:
            StudyError: As `open_results`; if the arm is not in the plan, its class was changed since, the data are not
                prepared, or the device or the compiler is absent.
        """
        torch.set_num_threads(threads)
        keep_freed_memory()
        plan, results = open_results(plan_path)
        arm = named_arm(plan, arm_id)
        if arm["class"]:
            check_class(arm["class"], arm["class_code"])
        dataset_id = named(plan["datasets"], arm["dataset"], "data set")["id"]
        prepared = load(results.data(dataset_id))
        device = pick_device(plan["config"]["device"])
        if device.type == "cuda":
            take_gpu()
        if plan["config"]["compiled"] and _multiplies(arm):
            check_compiler(device)
        return cls(results, plan, arm, dataset_id, prepared, device)

    @property
    def seed(self) -> int:
        return self.plan["config"]["seed"]

    def train(self, hyperparameters: dict[str, Any], split: int, seed: int) -> dict[str, Any]:
        """Returns the record of one fit of this arm."""
        arm = self.arm | {"dataset": self.dataset_id}
        spec = fit_spec(arm, self.prepared.card, self.prepared.splits[split], split, hyperparameters, seed)
        record = run_fit(self.results, self.prepared, spec, self.device, self.plan["config"]["compiled"])
        if self.watcher:
            self.watcher.trained(record, hyperparameters, split)
        return record

    def choose(self, watcher: Watcher) -> dict[str, Any]:
        """Returns the record of the arm's search and choice."""
        url, card = storage_url(self.plan["config"]["tune"]), self.prepared.card
        metric, direction = card["metric"], card["direction"]
        return tune_arm(self.results, self.arm, self.dataset_id, self.seed, metric, direction, self.train, watcher, url)

    @contextmanager
    def watching(self, fits: int) -> Iterator[Watcher]:
        """Gives a watcher of about ``fits`` fits; if the job dies inside, the arm is closed as failed.

        One that is stopped, by Ctrl-C, SIGTERM or SIGHUP, closes it as interrupted. A job that a killed Snakemake has
        left running is waited for: of two at once each would make the MLflow runs that it did not find.
        """
        with exclusive(self.results.arm(self.arm["id"]) / "job.lock"):
            tracker = open_tracker(self.results, self.plan)
            tracker.arm(self.arm)
            self.watcher = Watcher(self.arm, tracker, fits)
            try:
                yield self.watcher
            except BaseException as error:
                if not self.watcher.finished:
                    exits = isinstance(error, KeyboardInterrupt | SystemExit)
                    stopped = exits and getattr(error, "code", STOPPED) == STOPPED
                    tracker.finish(self.arm, "interrupted" if stopped else "failed", f"{type(error).__name__}: {error}")
                raise


def _multiplies(arm: dict[str, Any]) -> bool:
    """Says whether a fit of an arm may multiply slots, which is what is compiled."""
    if arm["aggregator"] != "ssma":
        return False
    return arm["space"].get("ssma.mixing", [arm["settings"]["aggregator"]["mixing"]]) != ["sum"]


def keep_freed_memory() -> None:
    """Lets this process keep what tensors free for the next ones: about as much as a fit of it needed at most.

    By default the GNU C library gives large pieces back, and the system fills them with zeros when they are asked for
    again, tens of thousands of pages in each epoch of a small fit. Now it gives back pieces of 32 MiB and more, as they
    are freed, and what is free at the end of the heap beyond 1 GiB. Other C libraries do as they did.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        set_option(MMAP_THRESHOLD, 2**25)
        set_option(TRIM_THRESHOLD, 2**30)
