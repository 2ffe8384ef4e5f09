"""A proxy before an S3 server that counts requests at the wire, whoever sends them: boto3, or Spark in its processes.

Here: forwarding as it is, and counting. Not here: faults. It runs in threads of this process.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from feed_assets_tests.listening import serving

_HOP = {"connection", "transfer-encoding", "keep-alive"}


@contextmanager
def counting(port: int) -> Iterator[tuple[str, Counter[str]]]:
    """The endpoint of a proxy before the server on this port, and the number of requests by method.

    Listings are LIST, and copies by the server COPY.
    """
    sent: Counter[str] = Counter()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            with lock:
                copies, lists = "x-amz-copy-source" in self.headers, "list-type" in parse_qs(urlsplit(self.path).query)
                sent["COPY" if copies else "LIST" if lists else self.command] += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server = http.client.HTTPConnection("127.0.0.1", port)
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {*_HOP, "expect"}:
                    server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP and (name.lower() != "content-length" or self.command == "HEAD"):
                    self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            server.close()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - named as http.server calls them

        def handle_expect_100(self) -> bool:
            go_on = super().handle_expect_100()
            self.wfile.flush()  # else the sender waits for seconds, then sends
            return go_on

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as proxy:
        yield f"http://127.0.0.1:{proxy.server_port}", sent
