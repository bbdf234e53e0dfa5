"""Headless Chromium through its debugging pipe (--remote-debugging-pipe): JSON messages, each followed by
a null byte, so only the standard library is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Chromium:
    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()

        def wire():  # the browser reads from descriptor 3 and writes to 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--no-first-run", "--disable-extensions", "--disable-background-networking",
                     f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen([path] + arguments, preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.count, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.buffer:
            if not select.select([self.read_fd], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            block = os.read(self.read_fd, 1 << 20)
            if not block:
                raise EOFError("Chromium has ended")
            self.buffer += block
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        until = time.monotonic() + 60
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)


class Tab:
    """A page, and its problems: errors on the console, scripts that failed or were refused, requests."""

    def __init__(self, browser, width, height, dark):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, url):
        self.browser.events.clear()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + 60
        while not self.value("document.readyState === 'complete' && location.href !== 'about:blank'"):
            if time.monotonic() > until:
                raise TimeoutError(f"{url} is not loaded")
            time.sleep(0.05)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        out = []
        for e in self.browser.events:
            p = e.get("params", {})
            if e.get("sessionId") != self.session:
                continue
            if e["method"] == "Runtime.exceptionThrown":
                out.append(str(p["exceptionDetails"]))
            elif e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                out.append(str(p["args"]))
            elif e["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                out.append(p["entry"]["text"])
        return out

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path):
        height = min(12000, self.value("document.documentElement.scrollHeight"))
        width = self.value("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
