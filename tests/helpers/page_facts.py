"""What tests ask about a page: how heavy it is, how fast it answered, and where the Tab key leads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
_FOCUS_LIMIT = 1_000
_LOADED = """() => performance.getEntries()
    .filter(entry => ["navigation", "resource"].includes(entry.entryType))
    .map(entry => [entry.name, entry.transferSize])"""
_FIRST_BYTE = "() => performance.getEntriesByType('navigation')[0].responseStart"
_HAS_OUTLINE = """() => {
    const style = getComputedStyle(document.activeElement);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
}"""
_LOST_CELLS = """() => [...document.querySelectorAll("tbody td, tbody th")].filter(cell => {
    if (!cell.checkVisibility({ visibilityProperty: true })) return true;
    const place = cell.getBoundingClientRect();
    if (place.left >= 0 && place.right <= innerWidth) return false;
    const region = cell.closest("[role=region][tabindex='0'][aria-label]");
    return !region || getComputedStyle(region).overflowX !== "auto";
}).map(cell => cell.textContent.trim().slice(0, 80))"""
"""Cells that are hidden; and those beside the window, unless they are in a region that is scrolled by keyboard."""
_SCROLLED_TABLES = """() => [...document.querySelectorAll(".table")]
    .filter(table => table.scrollWidth > table.clientWidth).map(table => table.getAttribute("aria-label"))"""


def bytes_loaded(page: Page) -> list[tuple[str, int]]:
    """URL and bytes of what the page has loaded until now, compressed as it was sent.

    Headers count as 300 bytes. What came from the cache counts as nothing; a page that was just opened has an empty
    one. A stream of events isn't included before it ends.
    """
    return [(url, size) for url, size in page.evaluate(_LOADED)]


def page_weight(page: Page) -> int:
    """The bytes that the page has loaded until now: itself and its assets."""
    return sum(size for _, size in bytes_loaded(page))


def first_byte_ms(page: Page) -> float:
    """How long after the navigation began its response began."""
    return float(page.evaluate(_FIRST_BYTE))


@dataclass(frozen=True, slots=True)
class Focus:
    """An element that has the focus, as assistive technology presents it."""

    role: str
    name: str
    has_outline: bool

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"


def tab_through(page: Page) -> list[Focus]:
    """Press Tab until every element had the focus once. Begin with a page that was just loaded."""
    debugger = page.context.new_cdp_session(page)
    seen: set[int] = set()
    path: list[Focus] = []
    while len(seen) < _FOCUS_LIMIT:
        page.keyboard.press("Tab")
        element = debugger.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]
        node = debugger.send("DOM.describeNode", {"objectId": element["objectId"]})["node"]
        if node["nodeName"] == "BODY" or node["backendNodeId"] in seen:
            debugger.detach()
            return path
        seen.add(node["backendNodeId"])
        asked = {"objectId": element["objectId"], "fetchRelatives": False}
        described = debugger.send("Accessibility.getPartialAXTree", asked)["nodes"][0]
        path.append(Focus(_value(described, "role"), _value(described, "name"), page.evaluate(_HAS_OUTLINE)))
    raise AssertionError(f"Tab never comes back: {[str(focus) for focus in path[-5:]]}")


def assert_fits(page: Page) -> None:
    """The page isn't wider than the window, and no cell of a table is out of reach: see `_LOST_CELLS`."""
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.evaluate("document.documentElement.clientWidth"), page.url
    assert page.evaluate(_LOST_CELLS) == [], page.url


def scrolled_tables(page: Page) -> list[str]:
    """The names of tables that are wider than their place, so that they must be scrolled sideways."""
    return [str(name) for name in page.evaluate(_SCROLLED_TABLES)]


def screenshot(page: Page, name: str) -> Path:
    """Write the whole page to screenshots/NAME.png in the checkout, which Git ignores."""
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True, animations="disabled")
    return path


def _value(described: dict[str, dict[str, str]], key: str) -> str:
    return described.get(key, {}).get("value", "")
