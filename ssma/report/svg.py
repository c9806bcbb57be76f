"""A figure for the page: SVG with tooltips, in the page itself, without scripts."""

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ssma.study.ids import slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIP = "tip:"
"""What the group id of an artist starts with that has a tooltip; the text of it follows."""
DIGITS = re.compile(r"(?<=\.\d\d)\d+")
"""What a coordinate has beyond a hundredth of a point: it is not seen, and makes the page a third larger."""
REFERENCE = re.compile(r"#([A-Za-z][^\s)\"]*)(?=[)\"])")


def inline_svg(figure: "Figure", name: str) -> str:
    """Returns a figure as an SVG element to be placed in a page; hovering over a mark shows what it is.

    An artist has a tooltip if its group id (``set_gid``) is `TIP` and a text. Namespaces are dropped, since HTML needs
    none. Ids are the figure's name, a colon and a number: they are no name of a part of the page, and a figure is the
    same each time, while matplotlib takes ids from sizes, which differ in their last bits.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in root.iter():
        for child in [child for child in parent if child.tag.endswith("}metadata")]:
            parent.remove(child)
    used = dict.fromkeys(REFERENCE.findall(buffer.getvalue()))
    ids = {old: f"{slug(name)}:{number}" for number, old in enumerate(used)}
    for element in root.iter():
        _give_tooltip(element)
        if element.get("id") not in ids:
            element.attrib.pop("id", None)
        element.tag = _local(element.tag)
        if "d" in element.attrib:
            element.set("d", DIGITS.sub("", element.get("d")))
        element.attrib = {_local(key): _renamed(key, value, ids) for key, value in element.attrib.items()}
    told = {"role": "img", "aria-label": f"Figure {name}, which the caption explains"}
    root.attrib.update(told, style=f"max-width: {root.attrib.pop('width')}")
    del root.attrib["height"]
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _renamed(key: str, value: str, ids: dict[str, str]) -> str:
    """Returns the value of an attribute with the new name of the id that it is or refers to."""
    if key == "id":
        return ids[value]
    if _local(key) == "href" and value.startswith("#"):  # an image holds its data there
        return f"#{ids[value.removeprefix('#')]}"
    return REFERENCE.sub(lambda found: f"#{ids[found[1]]}", value)


def _give_tooltip(element: ElementTree.Element) -> None:
    name = element.get("id", "")
    if name.startswith(TIP):
        title = ElementTree.Element("title")
        title.text = name.removeprefix(TIP)
        element.insert(0, title)
