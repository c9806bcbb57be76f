"""Where a study keeps its things. Every path hangs on one folder, so that results can be moved."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Results:
    """The folder ``results/<study>`` and the names inside it."""

    root: Path

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def frame(self) -> Path:
        return self.root / "records.parquet"

    @property
    def is_report(self) -> bool:
        """Whether the folder is a report: it holds what pages are made from, and no records of fits."""
        return self.frame.exists() and (self.root / "index.html").exists() and not self.fits.exists()

    @property
    def store(self) -> Path:
        return self.root / "mlflow"

    @property
    def store_made(self) -> Path:
        """The workflow's flag of the store: without it, each arm that is added would run the jobs of all again."""
        return self.store / "created"

    def data(self, dataset_id: str) -> Path:
        return self.root / "data" / dataset_id

    def arm(self, arm_id: str) -> Path:
        return self.root / "arms" / arm_id

    def chosen(self, arm_id: str) -> Path:
        return self.arm(arm_id) / "chosen.json"

    def evaluation(self, arm_id: str) -> Path:
        return self.arm(arm_id) / "evaluation.json"

    def search(self, search_id: str) -> Path:
        return self.root / "search" / f"{search_id}.journal"

    def theory(self, experiment_id: str) -> Path:
        return self.root / "theory" / f"{experiment_id}.json"

    def log(self, job: str, item_id: str) -> Path:
        return self.root / "logs" / job / f"{item_id}.log"

    @property
    def fits(self) -> Path:
        return self.root / "fits"

    def fit(self, fit_id: str) -> Path:
        return self.fits / fit_id[:2] / f"{fit_id}.json"
