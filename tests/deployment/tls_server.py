"""A TLS server in a thread: scripted answers, or Flower's own SuperLink application."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Scripted = Callable[[str, str, bytes], tuple[int, dict[str, str], bytes]]
"""Method, path and body → status, headers and body."""


@contextmanager
def listening(
    folder: Path, script: Scripted, port: int = 0, host: str = "127.0.0.1"
) -> Iterator[int]:
    """Answers over TLS with the certificate of a kit's server folder, and yields the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            status, headers, body = script(self.command, self.path, self.rfile.read(length))
            self.send_response_only(status)
            for name, value in ({"Date": self.date_time_string()} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((host, port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.handle_error = lambda *_: None  # a probe that hangs up is no news
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def superlink(folder: Path, port: int, registered: list[bytes]) -> Iterator[None]:
    """Flower's SuperLink application, without its child processes, with some keys registered."""
    import uvicorn
    from flwr.superlink.main import create_app

    app = create_app()
    app.state.enable_supernode_auth = True
    state = app.state.linkstate_factory.state()
    for key in registered:
        state.create_node("owner", "owner", key, 30)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host="127.0.0.1",
            port=port,
            ssl_certfile=folder / "server.pem",
            ssl_keyfile=folder / "server.key",
            log_level="error",
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
