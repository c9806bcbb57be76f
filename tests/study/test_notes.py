"""Where Snakemake keeps its locks and notes, asked of Snakemake itself."""

import os
from pathlib import Path

from snakemake.persistence import MetadataRecord
from snakemake.persistence.db import DbPersistence
from snakemake.persistence.file import FilePersistence
from snakemake.settings.enums import PersistenceBackend
from snakemake.settings.types import WorkflowSettings

from ssma.study.jobs import free_dead_locks
from ssma.study.notes import Notes


def test_locks_and_notes_in_snakemakes_database_are_those_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(".snakemake").mkdir()
    settings = WorkflowSettings(persistence_backend=PersistenceBackend.DB)
    notes, page = Notes.of(settings), Path("reports/mine/index.html")
    assert not notes.has(page) and notes.unlock("mine") is None  # before Snakemake has made its tables
    of_snakemake = DbPersistence()
    elsewhere = DbPersistence(path=tmp_path / "other", db_url=notes.database)
    of_snakemake._write_locks("output", [str(page), "results/mine/records.parquet", "results/mine2/plan.json"])
    of_snakemake._write_locks("input", ["results/mine/arms/a/tuned", "results/other/mine/x"])
    elsewhere._write_locks("output", [str(page)])
    elsewhere._write_record(str(page), MetadataRecord(record_format_version=6))
    descriptor, alone = free_dead_locks(notes, "mine")
    os.close(descriptor)
    assert alone
    left = {("output", "results/mine2/plan.json"), ("input", "results/other/mine/x")}
    assert set(of_snakemake._read_locks()) == left
    assert elsewhere._read_locks() == [("output", str(page))]
    of_snakemake._mark_incomplete(str(page), None)
    assert not notes.has(page)
    of_snakemake._write_record(str(page), MetadataRecord(record_format_version=6))
    assert notes.has(page)
    assert Notes.of(WorkflowSettings()) == Notes(Path(".snakemake"))


def test_a_note_is_found_however_long_the_name_of_its_file_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(".snakemake").mkdir()
    files = [Path(f"reports/{'s' * length}/ablations/{'a' * length}/index.html") for length in (9, 80, 100)]
    notes, of_snakemake = Notes(Path(".snakemake")), FilePersistence()
    assert not any(map(notes.has, files))
    for file in files:
        of_snakemake._write_record(str(file), MetadataRecord())
    assert all(map(notes.has, files))
