import pandas
import pyarrow.parquet
import pytest

from ssma.errors import StudyError
from ssma.report.frame import COLUMNS, collect, read_frame, write_frame
from ssma.report.html import _counts, _provenance
from ssma.study.lookup import read_plan
from ssma.study.records import read_record, write_record


def evaluation(frame, arm):
    return frame[(frame["arm"] == arm) & (frame["stage"] == "evaluate")]


def test_every_planned_fit_has_a_row(study):
    frame = collect(study)
    assert evaluation(frame, "MUTAG-gin-ssma")["status"].tolist() == ["missing"] * 6
    assert evaluation(frame, "MUTAG-gin-ssma")["metric"].unique() == ["accuracy"]
    assert evaluation(frame, "MUTAG-gin-sum")["reason"].unique() == ["no valid trial: 2 failed"]
    assert evaluation(frame, "MUTAG-gcn-ssma")["status"].tolist() == ["ok"] * 5 + ["diverged"]
    assert evaluation(frame, "MUTAG-gcn-ssma-k4")["status"].tolist() == ["diverged"] * 2 + ["missing"] * 4
    assert frame["test"].max() < 1
    tuned = frame[(frame["arm"] == "MUTAG-gcn-ssma") & (frame["stage"] == "tune")]
    assert tuned["trial"].tolist() == [0, 0, 1, 1, 2, 3]
    assert tuned["trial_state"].tolist() == ["complete"] * 4 + ["pruned", "failed"]
    assert tuned["reason"].iloc[-1] == "width 0" and tuned["split"].isna().iloc[-1]
    assert list(frame)[: len(COLUMNS)] == list(COLUMNS)


def test_text_that_looks_like_nothing_keeps_its_rows(fabric):
    values = ["none", "None", "NA", "", "attention", 3, True, None]
    for number, value in enumerate(values):
        fabric.arm(f"MUTAG-gcn-ssma-{number}", {"ssma.selection": value}, splits=1, repeats=1)
        fabric.tuned(f"MUTAG-gcn-ssma-{number}", [("complete", {"mixed": value, "whole": 2}, [0.5])])
    fabric.plan()
    write_frame(collect(fabric.results), fabric.results.frame)
    frame = read_frame(fabric.results.frame)
    assert len(frame) == 2 * len(values)
    shown = frame[frame["stage"] == "tune"]["set.ssma.selection"]
    assert shown.dropna().tolist() == ["none", "None", "NA", "", "attention", "3", "true"]
    assert frame.groupby("set.ssma.selection", dropna=True).size().sum() == 2 * (len(values) - 1)
    assert frame["hp.whole"].dtype == "Int64"
    pandas.testing.assert_frame_equal(frame, collect(fabric.results))


def test_a_number_and_its_text_are_two_values_of_a_setting(fabric):
    values = [1, "1", True, "true", "yes", None, {"a": 1}, '{"a":1}']
    for number, value in enumerate(values):
        fabric.arm(f"MUTAG-gcn-mine-{number}", {"mine.p": value}, splits=1, repeats=1)
    fabric.plan()
    shown = collect(fabric.results)["set.mine.p"]
    assert shown.dropna().tolist() == ["1", '"1"', "true", '"true"', "yes", '{"a":1}', r'"{\"a\":1}"']
    assert shown.isna().sum() == 1


def test_a_damaged_frame_is_refused(study):
    """One changed bit in a number was another number, and one in what pandas notes of columns a traceback."""
    file = study.root / "frame.parquet"
    write_frame(collect(study), file)
    written, table = file.read_bytes(), pyarrow.parquet.read_table(file)
    numbers = pyarrow.parquet.read_metadata(file).row_group(0).column(list(COLUMNS).index("test"))
    last = numbers.data_page_offset - 3  # in the last of the different values, which stand before the rows
    file.write_bytes(written[:last] + bytes([written[last] ^ 1]) + written[last + 1 :])
    with pytest.raises(StudyError, match="frame.parquet: not a readable frame .*collect the records again"):
        read_frame(file)
    noted = {key: text.replace(b"numpy_type", b"numpy_typf") for key, text in table.schema.metadata.items()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(noted), file)
    with pytest.raises(StudyError, match="frame.parquet: not a readable frame .*collect the records again"):
        read_frame(file)


def test_broken_records_are_named(study):
    path = study.fit("MUTAG-gcn-sum-e0r0")
    path.write_text(path.read_text().replace("0.8", "0.9"))
    row = collect(study).set_index("fit").loc["MUTAG-gcn-sum-e0r0"]
    assert row["status"] == "failed"
    assert row["reason"].startswith("damaged record: ")
    assert "MUTAG-gcn-sum-e0r0.json" in row["reason"]


def test_a_fit_whose_record_is_gone_is_missing(study):
    study.fit("MUTAG-gcn-sum-e0r0").unlink()
    row = evaluation(collect(study), "MUTAG-gcn-sum").iloc[0]
    assert (row["status"], row["seed"]) == ("missing", 7)
    assert "MUTAG-gcn-sum-e0r0.json is not there" in row["reason"]
    study.fit("ZINC-gcn-sum-e0r0").unlink()
    row = evaluation(collect(study), "ZINC-gcn-sum").iloc[0]
    assert (row["status"], row["metric"], row["direction"]) == ("missing", "mae", "minimize")


def test_evaluation_fits_keep_the_hyperparameters_that_they_were_made_with(fabric):
    arm = fabric.arm("MUTAG-gcn-sum", splits=1, repeats=1)
    fabric.tuned(arm, [("complete", {"training.lr": 0.1}, [0.5])])
    fabric.evaluated(arm, {(0, 0): 0.7})
    made = read_record(fabric.results.evaluation(arm)) | {"chosen": {"0": {"training.lr": 0.2}}}  # searched again since
    write_record(fabric.results.evaluation(arm), made)
    fabric.plan()
    assert evaluation(collect(fabric.results), arm)["hp.training.lr"].tolist() == [0.2]


def test_a_part_of_a_plan_has_the_rows_of_its_arms(study):
    plan = read_plan(study.plan)
    arms = [arm for arm in plan["arms"] if arm["dataset"] == "ZINC"]
    assert set(collect(study, plan | {"arms": arms})["arm"]) == {"ZINC-gcn-sum", "ZINC-gcn-ssma"}


def test_fits_without_a_record_are_no_fits_of_the_page(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-sum", splits=3, repeats=1), {(0, 0): 0.7, (1, 0): 0.8, (2, 0): 0.9})
    fabric.plan()
    fabric.results.fit("MUTAG-gcn-sum-e0r0").unlink()
    path = fabric.results.fit("MUTAG-gcn-sum-e1r0")
    path.write_text(path.read_text().replace("0.8", "0.9"))
    plan, frame = read_plan(fabric.results.plan), collect(fabric.results)
    assert _counts(plan, frame) == "1 arm; 1 of 3 planned evaluation fits ok; 1 fit in all."
    assert dict(_provenance(frame))["Device"] == "cpu (1 fit)"


def test_fits_that_were_compiled_are_counted(fabric):
    arm = fabric.arm("MUTAG-gcn-ssma", splits=3, repeats=1)
    fabric.evaluated(arm, {(0, 0): 0.7, (1, 0): 0.8, (2, 0): 0.9})
    fabric.plan()
    plain = collect(fabric.results)
    assert "Compiled" not in dict(_provenance(plain))
    for name, compiled in (("e0r0", True), ("e1r0", True), ("e2r0", False)):
        fabric.fit(arm, name, 0.8, split=int(name[1]), compiled=compiled)
    frame = collect(fabric.results)
    assert frame["compiled"].fillna(False).tolist().count(True) == 2
    assert dict(_provenance(frame))["Compiled"] == "2 fits"


def test_seeds_added_after_the_fact_are_kept(fabric):
    arm = fabric.arm("MUTAG-gcn-sum", splits=1, repeats=1)
    fabric.evaluated(arm, {(0, 0): 0.5, (0, 1): 0.9})
    fabric.plan()
    assert collect(fabric.results)["test"].tolist() == [0.5, 0.9]


def test_no_plan_and_no_frame_are_one_clear_error(fabric):
    with pytest.raises(StudyError, match="ssma plan"):
        collect(fabric.results)
    with pytest.raises(StudyError, match=r"records.parquet.*collect"):
        read_frame(fabric.results.frame)
