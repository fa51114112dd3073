"""What a browser did with a page."""

from __future__ import annotations

import json
from typing import Any

from selenium.webdriver import Chrome as Browser


def requested(browser: Browser) -> set[str]:
    """Give the addresses that the browser asked for since the last page was opened."""
    found = set()
    for entry in browser.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.add(message["params"]["request"]["url"])
    return found


def complaints(browser: Browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]
