"""What a browser did with a page."""

from __future__ import annotations

import json
from typing import Any

from selenium.webdriver import Chrome as Browser


def requested(browser: Browser) -> set[str]:
    """Give the addresses that the page asked for, and its own, since it was opened.

    What the browser's own pages ask for (a new tab, as it starts) is not the page's.
    """
    found = set()
    for entry in browser.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked = message["params"]
            if not asked["documentURL"].startswith("chrome://"):
                found.add(asked["request"]["url"])
    return found


def complaints(browser: Browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]
