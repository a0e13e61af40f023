"""A headless Chromium that is spoken to through pipes: no package, no port, no driver."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from time import monotonic
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)
_TIMEOUT = 60.0
# Chromium reads commands from descriptor 3 and answers on 4.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass
class Browser:
    """One tab.

    Attributes:
        read: the pipe that answers and events come from.
        write: the pipe that commands go to.
        session: of the tab, once there is one.
        events: what happened besides answers, by name.
    """

    read: int
    write: int
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def open(self, file: Path, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.events.clear()
        self.call("Page.navigate", url=file.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors in scripts."""
        return [event for event in self.events if event.get("method") == "Runtime.exceptionThrown"]

    def move_mouse(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, file: Path) -> None:
        found = self.call("Page.captureScreenshot", captureBeyondViewport=False)
        file.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        end = monotonic() + _TIMEOUT
        while b"\0" not in self._rest:
            ready, _, _ = select([self.read], [], [], max(0.0, end - monotonic()))
            assert ready, "the browser does not answer"
            found = os.read(self.read, 1 << 20)
            assert found, "the browser has gone"
            self._rest += found
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are out of the way of 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextmanager
def browser() -> Iterator[Browser]:
    """Starts Chromium with a profile of its own and ends it."""
    assert PROGRAM is not None
    to_read, to_write = _pipe(), _pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(to_write[0]), str(to_read[1]), *words],
            pass_fds=(to_write[0], to_read[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_write[0])
        os.close(to_read[1])
        try:
            tab = Browser(to_read[0], to_write[1])
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
            tab.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Network"):
                tab.call(f"{domain}.enable")
            yield tab
        finally:
            os.close(to_write[1])
            process.terminate()
            process.wait()
            os.close(to_read[0])
