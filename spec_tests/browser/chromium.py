"""The Chromium of the system, driven by Playwright: for it no host exists but this one, and every request it makes is written down."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # root in a container
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
"""The last one proves that nothing is fetched: names of other hosts do not resolve."""
HERE = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "file:", "about:")
VIEWPORT = {"width": 1000, "height": 1800}
"""High enough for the highest view: what lies below the fold is not in a screenshot."""

FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir><cachedir>{cache}</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <match target="pattern"><edit name="family" mode="append" binding="weak"><string>DejaVu Sans</string></edit></match>
  <match target="font">
    <edit name="antialias"><bool>true</bool></edit><edit name="hinting"><bool>false</bool></edit><edit name="rgba"><const>none</const></edit>
  </match>
</fontconfig>
"""
"""One family, unhinted, so that a screenshot is the same on every machine."""


def program() -> str | None:
    """Where Chromium is, under any of its names."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def font() -> Path | None:
    """The folder of the DejaVu fonts."""
    found = next(Path("/usr/share/fonts").rglob("DejaVuSansMono.ttf"), None)
    return found and found.parent


def launch(playwright: Playwright, scratch: Path) -> Browser:
    """A Chromium with a new profile that knows DejaVu alone."""
    fonts = scratch / "fonts.conf"
    fonts.write_text(FONTS.format(fonts=font(), cache=scratch / "fonts"), encoding="utf-8")
    environment = {
        **os.environ,
        "FONTCONFIG_FILE": str(fonts),
        "TZ": "UTC",
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "XDG_CONFIG_HOME": str(scratch / "config"),
    }
    return playwright.chromium.launch(executable_path=program(), args=list(FLAGS), env=environment)


class Watch:
    """What a context asked of the network, and what its pages complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("console", lambda said: self.complaints.append(f"{said.text} {said.location}") if said.type == "error" else None)
        context.on("weberror", lambda found: self.complaints.append(found.error.stack or found.error.message))
        context.on("page", self._follow)

    def _follow(self, page: Page) -> None:
        page.on("websocket", lambda socket: self.asked.append(socket.url))

    def elsewhere(self) -> list[str]:
        """Requests that would have left this machine."""
        return [url for url in self.asked if not url.startswith(HERE)]
