import pytest

from ssma.track.names import param_values, safe_keys, safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Hits@10", "Hits_at_10"),
        ("acc (val)", "acc_val"),
        ("a=b", "a_b"),
        ("../x/", "x"),
        ("training.lr", "training.lr"),
        ("[]", "unnamed"),
        ("my.pkg:Class", "my.pkg_Class"),
    ],
)
def test_safe_name(name, safe):
    assert safe_name(name) == safe


def test_long_names_stay_apart():
    one, two = safe_name("x" * 300), safe_name("x" * 301)
    assert len(one) == len(two) == 250
    assert one != two


def test_names_that_collide_are_both_kept():
    safe = safe_keys({"a=b": 1, "a(b": 2})
    assert safe["a_b"] == 1
    assert sorted(safe.values()) == [1, 2]


def test_values_are_text_and_long_ones_are_cut_visibly():
    texts, whole = param_values({"lr": 0.1 + 0.2, "flag": True, "none": None, "name": "gcn", "long": "y" * 9000})
    long = texts.pop("long")
    assert texts == {"lr": "0.3", "flag": "true", "none": "null", "name": "gcn"}
    assert len(long) == 6000
    assert long.endswith("(cut: the whole value is an artifact)")
    assert whole == {"long": "y" * 9000}
