import gc
import weakref

import pandas
import pytest

from ssma.report.frame import collect
from ssma.report.once import once, rows_of
from ssma.report.paired import compare_family
from ssma.report.tables import comparison
from ssma.study.lookup import read_plan


class Sizes(list):
    """A list that can be watched."""


def test_a_frame_is_asked_once_and_forgotten_with_what_was_found():
    asked = []

    @once
    def sizes(frame):
        asked.append(len(frame))
        return Sizes([len(frame)])

    frame = pandas.DataFrame({"a": [1, 2]})
    assert [sizes(frame), sizes(frame), sizes(frame.copy()), sizes(frame[:1])] == [[2], [2], [2], [1]]
    assert asked == [2, 2, 1]
    found = weakref.ref(sizes(frame))
    del frame
    gc.collect()
    assert found() is None


def test_rows_have_python_values_and_none_where_there_is_none(study):
    rows = rows_of(collect(study))["MUTAG-gcn-ssma"]
    assert [(row["stage"], row["trial"], row["split"], row["repeat"], row["test"]) for row in rows[2:8]] == [
        ("tune", 1, 0, None, 0.90), ("tune", 1, 1, None, 0.94), ("tune", 2, 0, None, 0.99), ("tune", 3, None, None, None),
        ("evaluate", 0, 0, 0, 0.85), ("evaluate", 0, 0, 1, 0.85),
    ]  # fmt: skip
    assert {type(row["split"]) for row in rows} == {int, type(None)}


@pytest.mark.parametrize("what", [comparison, lambda plan, name, frame: compare_family(plan, frame, PAIRS[name], {})])
def test_more_arms_look_no_more_often_at_all_rows(study, monkeypatch, what):
    plan, counts, get = read_plan(study.plan), {}, pandas.DataFrame.__getitem__
    for name in ("main", "kappa_slots"):
        frame, looks = collect(study), []
        size = len(frame)

        def counted(self, key, looks=looks, size=size):
            looks.append(len(self) == size)
            return get(self, key)

        with monkeypatch.context() as patch:
            patch.setattr(pandas.DataFrame, "__getitem__", counted)
            what(plan, name, frame)
        counts[name] = sum(looks)
    assert counts["main"] == counts["kappa_slots"] > 0, "6 arms, and 3 arms"


PAIRS = {
    "main": {f"{place}-ssma": f"{place}-sum" for place in ("MUTAG-gcn", "MUTAG-gin", "ZINC-gcn")},
    "kappa_slots": {"MUTAG-gcn-ssma-k2": "MUTAG-gcn-ssma"},
}
