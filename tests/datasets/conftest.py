"""A publisher on this machine, with the faults that networks have."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Publisher:
    """Serves bytes by name at ``address``.

    Attributes:
        files: the bytes by name.
        cuts: after how many bytes the coming answers are cut off, one an answer; then they are whole.
        failures: the status codes of the coming answers, before any that is good.
        knows_ranges: whether range requests are answered in part.
        asked: the ranges that were asked for, in order; None for a whole file.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A `Publisher` that answers on 127.0.0.1 during the test."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    published = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            published.asked.append(asked)
            content = published.files.get(self.path.lstrip("/"))
            if published.failures or content is None:
                self.send_error(published.failures.pop(0) if published.failures else 404)
                return
            start = 0
            if asked and published.knows_ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            cut = published.cuts.pop(0) if published.cuts else len(content)
            self.wfile.write(content[start : start + cut])

        def log_message(self, *_: object) -> None:
            """Tests are silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        published.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield published
        server.shutdown()
        thread.join()
