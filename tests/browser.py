"""A headless Chromium that a test drives, over pipes, by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A tab. What goes wrong in it is in `errors`, what it asked the network for in `requests`."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands, self._answers = commands, answers
        self._count = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        session = self("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise AssertionError("the browser is gone")
            text += byte
        message: dict[str, Any] = json.loads(text)
        values = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(values["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(values["args"]))
            case "Log.entryAdded":
                self.errors.append(values["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(values["request"]["url"])
            case "Page.loadEventFired":
                self._loaded = True
        return message

    def open(self, file: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file, and wait until it is drawn."""
        self.errors.clear()
        self.requests.clear()
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self("Page.navigate", url=file.resolve().as_uri())
        while not self._loaded:
            self._read()
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def hover(self, x: float, y: float) -> None:
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, file: Path) -> None:
        """All of the page as a PNG."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        shot = self(
            "Page.captureScreenshot", captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )  # fmt: skip
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(program: str) -> Iterator[Page]:
    """Start a browser that ends with the block."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads commands from file 3 and answers on file 4.
        process = subprocess.Popen(
            [
                "bash", "-c", f'exec "$0" "$@" 3<&{commands_out} 4>&{answers_in}',
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}",
            ],
            pass_fds=[commands_out, answers_in],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands_out)
        os.close(answers_in)
        with os.fdopen(commands_in, "wb") as commands, os.fdopen(answers_out, "rb") as answers:
            try:
                yield Page(commands, answers)
            finally:
                process.terminate()
                process.wait(10)
