"""Figures inside a page: drawn as SVG in the text of the page, or as pixels where that would be too long.

Several drawings in one page share one space of names, and matplotlib names things in each of them alike. So
every name of a drawing is replaced by a new one that begins with the picture's own, wherever it is defined
or used. Comments, descriptions of the drawing program and its style sheet, which would hold for the whole
page, are left out. Letters are drawn as outlines: they look the same on every machine, and what they say
stands in the alternative text.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from xml.etree import ElementTree

from matplotlib.figure import Figure

from rhocover.printing import printable
from rhocover.report.drawing import drawn
from rhocover.report.page import Picture
from rhocover.report.page_letters import as_html

SVG, LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
LONGEST = 400_000  # letters of a drawing; beyond, its pixels are shorter
DPI = 150
PIXELS_PER_INCH = 96  # of a browser
OUTLINES: dict[Any, Any] = {"svg.fonttype": "path"}
LEAST_SCALE = 0.62  # of its natural size: drawn smaller, letters of 8 points could not be read


def picture_html(picture: Picture, name: str) -> str:
    """Returns the picture with its caption; `name` is its own in the page."""
    width, height = picture.figure.get_size_inches()
    drawing = svg_html(picture.figure, name, picture.alt)
    if len(drawing) > LONGEST:
        drawing = _pixels(picture, width / height)
    full = PIXELS_PER_INCH * width
    style = f"min-width: {LEAST_SCALE * full:.0f}px; max-width: {full:.0f}px"
    return (
        f'<figure><div class="scroll paper" role="region" tabindex="0" aria-labelledby="{name}-caption">'
        f'<div class="drawing" style="{style}">{drawing}</div></div>'
        f'<figcaption id="{name}-caption">{as_html(picture.caption)}</figcaption></figure>'
    )


def svg_html(figure: Figure, name: str, alt: str) -> str:
    """Returns the figure as an SVG element for the text of a page, every name in it beginning with `name`."""
    root = ElementTree.fromstring(_drawn(figure, "svg"))
    for child in list(root):
        if child.tag == f"{{{SVG}}}metadata":
            root.remove(child)
    _drop_style(root)
    _rename(root, name)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        if "d" in element.attrib:
            element.attrib["d"] = " ".join(element.attrib["d"].split())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-alt"}
    described = ElementTree.Element("title", {"id": f"{name}-alt"})
    described.text = printable(alt)
    root.insert(0, described)
    _trim(root)
    return ElementTree.tostring(root, encoding="unicode", method="xml")


def _pixels(picture: Picture, shape: float) -> str:
    data = base64.b64encode(_drawn(picture.figure, "png")).decode()
    return (
        f'<img alt="{as_html(picture.alt)}" style="aspect-ratio: {shape:.4f}" '
        f'src="data:image/png;base64,{data}">'
    )


def _drawn(figure: Figure, kind: str) -> bytes:
    undated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    return drawn(figure, kind, style=OUTLINES, dpi=DPI, **undated)


def _drop_style(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}style":
                parent.remove(child)


def _rename(root: ElementTree.Element, name: str) -> None:
    """Gives everything that is referred to a new name, and takes the names of the rest away."""
    used = {old for element in root.iter() for key, value in element.items() for old in _named(key, value)}
    new = {old: f"{name}-{number}" for number, old in enumerate(sorted(used))}
    for element in root.iter():
        own = element.attrib.pop("id", None)
        attributes = {key: _renamed(value, new) for key, value in element.items() if key != LINK}
        if LINK in element.attrib:
            target = element.attrib[LINK]
            attributes["href"] = f"#{new[target[1:]]}" if target.startswith("#") else target
        element.attrib = attributes | ({"id": new[own]} if own in new else {})


def _named(key: str, value: str) -> list[str]:
    """Returns the names that an attribute refers to: `#name` in a link, `url(#name)` elsewhere."""
    if key == LINK:
        return [value[1:]] if value.startswith("#") else []
    return re.findall(r"url\(#([^)]+)\)", value)


def _renamed(value: str, new: dict[str, str]) -> str:
    return re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{new[found[1]]})", value)


def _trim(root: ElementTree.Element) -> None:
    """Takes away the blanks between elements: they indent a file that is read in no editor."""
    for element in root.iter():
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
