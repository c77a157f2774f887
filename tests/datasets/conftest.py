"""A publisher on this machine, with the usual faults of a network."""

from __future__ import annotations

import contextlib
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
        cuts: the next responses are cut off after this many bytes, one entry per response; later ones are complete.
        failures: the status codes of the next responses, before any successful one.
        knows_ranges: whether the server supports range requests.
        asked: the requested ranges, in order; None for a whole file.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """A `Publisher` on 127.0.0.1, for the duration of the test."""
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
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            cut = published.cuts.pop(0) if published.cuts else len(content)
            with contextlib.suppress(ConnectionError):  # the client may stop reading
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
