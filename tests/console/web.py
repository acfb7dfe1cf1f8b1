"""A hostile web: pages that try to run scripts in the console or to send requests from it, redirects, long lists. Each request is recorded."""

import contextlib
import http.server
import threading

LINKS = 250
# What a crawler finds that is not there: a link, and the targets of a refresh and of a frame.
NOT_FOUND = 3
# The start, the pages that it links to, their links, the redirect, and the URLs without a page.
URLS = LINKS + 6 + NOT_FOUND
BIG = 700 * 1024
LONG = "/long/" + "a" * 900

ATTACK = """<!doctype html><html><head><title>Attack</title>
<base href="{origin}/stolen/">
<meta http-equiv="refresh" content="0; url={origin}/beacon?refresh">
<link rel="stylesheet" href="{origin}/beacon?style"><link rel="preconnect" href="{origin}"><link rel="icon" href="{origin}/beacon?icon">
<style>@import "{origin}/beacon?import"; body {{ background: url({origin}/beacon?background) }}</style>
<script>parent.document.title = "attacked"; new Image().src = "{origin}/beacon?script"</script></head>
<body background="{origin}/beacon?body" onload="new Image().src='{origin}/beacon?load'">
<h1>Harmless heading</h1><script>top.location = "{origin}/beacon?top"</script>
<img src="{origin}/beacon?image" onerror="parent.attacked = 1"><img srcset="{origin}/beacon?srcset 1x">
<svg onload="parent.attacked = 1"><image href="{origin}/beacon?svg"/></svg>
<iframe src="{origin}/beacon?frame"></iframe><object data="{origin}/beacon?object"></object><embed src="{origin}/beacon?embed">
<video poster="{origin}/beacon?poster" autoplay src="{origin}/beacon?video"></video>
<form action="{origin}/beacon?form"><button>Send</button></form>
<a href="javascript:parent.attacked=1">a script</a> <a href="{origin}/">a link</a> <a href="mailto:a@b.example">mail</a>
<div style="background: url({origin}/beacon?attribute)">styled</div>
<template><img src="{origin}/beacon?template"></template><noscript><img src="{origin}/beacon?noscript"></noscript>
</body></html>"""


def page(title, body):
    return f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requested.append(self.path)
        origin = f"http://{self.headers['Host']}"
        links = "".join(f'<a href="/item/{number}">item</a> ' for number in range(LINKS))
        pages = {
            "/": page("Start", f'<a href="/attack">a</a> <a href="/hop">b</a> <a href="/missing">c</a> <a href="/many">d</a> <a href="/big">e</a> <a href="{LONG}">f</a>'),
            "/attack": ATTACK.format(origin=origin).encode(),
            "/many": page("Many", links),
            "/big": page("Big", "<p>" + "word " * (BIG // 5) + "</p>"),
            LONG: page("Long", "<p>long</p>"),
        }
        article = '<link rel="canonical" href="/item/2"><nav><a href="/">start</a></nav><article><h1>Words</h1><p>One two three four five <b>six</b> seven.</p></article>'
        pages |= {"/item/1": page("Canonical", article), "/item/3": page("Elsewhere", '<link rel="canonical" href="https://elsewhere.example/">')}
        if self.path == "/hop":
            self.send_response(302)
            self.send_header("Location", "/attack")
            self.end_headers()
        elif self.path in pages or self.path.startswith("/item/"):
            body = pages.get(self.path) or page(self.path, "<p>an item</p>")
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_error(404)


@contextlib.contextmanager
def hostile():
    """The server; `origin` is its address, `requested` has the paths."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requested = []
    server.origin = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
