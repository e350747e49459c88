"""Screenshots of the web console for the docs: `python -m tools.web_screens` writes docs/screens/web/*.png.

Runs `kshare web --demo` until its groups are in the states that the pictures show. Needs the Chromium that `tools/test`
installs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tools import chromium

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screens" / "web"
PAGES = {
    "overview": "/",
    "group": "/group?name=packers",
    "group-full-window": "/group?name=couriers",
    "settings": "/group/settings?name=packers",
    "offsets": "/group/offsets?name=invoices",
    "records": "/records/topic?topic=orders",
    "dead-letters": "/dead-letters/topic?topic=dlq.orders",
    "workers": "/workers",
    "wire": "/wire",
}
_DESKTOP, _PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=360, height=740)
_LIVED_S = 25.0
"""So long, the demo needs to fill the window, and to have dead letters."""


def main() -> int:
    path = chromium.found()
    if path is None:
        sys.stderr.write("there is no Chromium: python -m tools.chromium installs it\n")
        return 1
    command = [sys.executable, "-m", "kshare", "web", "--demo", "--allow-changes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        try:
            assert console.stdout is not None
            url = console.stdout.readline().split()[-1].rstrip("/")
            time.sleep(_LIVED_S)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                take(browser, url)
                browser.close()
        finally:
            console.terminate()
    return 0


def take(browser: Browser, url: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    desktop = browser.new_context(viewport=_DESKTOP, color_scheme="light").new_page()
    phone = browser.new_context(viewport=_PHONE, color_scheme="dark").new_page()
    for name, path in PAGES.items():
        _save(desktop, url + path, f"{name}-light")
        _save(phone, url + path, f"{name}-dark")


def _save(page: Page, url: str, name: str) -> None:
    page.goto(url)
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
    sys.stdout.write(f"{name}.png\n")


if __name__ == "__main__":
    sys.exit(main())
