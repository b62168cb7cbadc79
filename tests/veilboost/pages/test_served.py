"""The page's server: this machine, the token, reading alone; a browser shows it without an error."""

import http.client
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from kept_stores import end_process
from used_folders import used
from veilboost.command_line import main
from veilboost.doctor.findings import Finding
from veilboost.doctor.places import Place
from veilboost.pages.served import MOST, PageServer, Watched

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("used")
    kept = used(folder, n_runs=100)
    with PageServer(Watched([str(folder)]), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)
    del kept
    end_process(folder)


def asked(server, path, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_the_page_is_sent_to_those_who_have_its_token(server):
    answer, page = asked(server, f"/{server.token}/")
    assert answer.status == 200
    assert page.count("<h2>") == 2
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; style-src 'sha256-" in policy
    assert "unsafe" not in policy
    kept = {name: answer.headers[name] for name in ("Referrer-Policy", "Cache-Control", "Refresh")}
    assert kept == {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Refresh": "5"}
    still, text = asked(server, f"/{server.token}/still")
    assert still.headers["Refresh"] is None
    assert f'href="/{server.token}/"' in text


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/", "GET", None, 403),
        ("/{token}", "GET", None, 403),
        ("/{token}/other", "GET", None, 403),
        ("/{token}x/", "GET", None, 403),
        ("/%FF/", "GET", None, 403),
        ("/{token}/", "GET", "evil.example", 421),
        ("/{token}/", "GET", "evil.example:{port}", 421),
        ("/{token}/", "GET", "localhost:{port}", 200),
        ("/{token}/", "POST", None, 501),
        ("/{token}/", "DELETE", None, 501),
        ("/favicon.ico", "GET", None, 204),
    ],
)
def test_other_requests_show_nothing(server, path, method, host, status):
    known = {"token": server.token, "port": server.server_port}
    answer, text = asked(server, path.format(**known), method, host and host.format(**known))
    assert answer.status == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    if status != 200:
        assert server.token not in text
        assert "acme" not in text
        assert status != 403 or "veilboost page has printed" in text


def test_it_answers_at_once_however_long_folders_take(monkeypatch, tmp_path):
    looks = []

    def slow(path):
        looks.append(path)
        if len(looks) > 1:
            time.sleep(1.5)
        return iter(())

    monkeypatch.setattr("veilboost.pages.served.places_of", slow)
    monkeypatch.setattr("veilboost.pages.served.OLD", 0.0)
    watched = Watched(["a"])
    time.sleep(0.01)
    began = time.perf_counter()
    for _ in range(5):
        watched.newest()
    assert len(looks) == 2
    assert time.perf_counter() - began < 1.4


def test_a_hundred_runs_are_sent_within_a_fifth_of_a_second(server):
    best = 9.0
    for _ in range(5):
        began = time.perf_counter()
        _, page = asked(server, f"/{server.token}/")
        best = min(best, time.perf_counter() - began)
    assert page.count("<td>70</td>") == 100
    assert best < 0.2


def test_a_port_that_is_taken_or_none_is_named(server, tmp_path, caplog):
    for port in (server.server_port, 70000):
        assert main(["page", str(tmp_path), "--port", str(port)]) == 2
    with pytest.raises(Exception, match=f"--port={server.server_port}"):
        PageServer(server.watched, server.server_port)


def test_addresses_of_parties_are_tried(server):
    assert server.watched.reached("127.0.0.1:1") in ("127.0.0.1:1: Connection refused", "not tried yet")
    assert server.watched.reached("other:1") == "not tried yet"


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it_without_an_error(server, width, tmp_path):
    def shown(address):
        picture = tmp_path / "page.png"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
        place = [f"--user-data-dir={tmp_path}", f"--window-size={width},2000", f"--screenshot={picture}"]
        done = subprocess.run(
            [BROWSER, *options, *place, address], capture_output=True, text=True, timeout=120
        )
        return [line for line in done.stderr.splitlines() if "CONSOLE" in line], picture.stat().st_size

    errors, size = shown(server.address)
    assert errors == []
    assert size > 20_000
    blocked = Path(tmp_path / "blocked.html")
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;">'
    blocked.write_text(f'{policy}<p style="color: red">x</p>')
    assert shown(blocked.as_uri())[0]  # an error would be seen


def test_slow_requests_keep_nobody_out(server):
    slow = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(MOST)]
    for one in slow:
        one.sendall(b"GET / HTTP/1.0\r\nX: ")
    assert asked(server, "/")[0].status == 403
    slow[0].settimeout(5)
    assert slow[0].recv(1) == b""  # long before a slow one's own time is over
    for one in slow:
        one.close()


def test_folders_that_cannot_be_read_any_more_are_named(monkeypatch):
    def vanishing(path):
        if looks.append(path) or len(looks) > 1:
            raise FileNotFoundError(2, "No such file or directory", "party.store")
        return iter(())

    looks = []
    monkeypatch.setattr("veilboost.pages.served.places_of", vanishing)
    monkeypatch.setattr("veilboost.pages.served.OLD", 0.0)
    watched = Watched(["a"])
    time.sleep(0.01)
    watched.newest()
    ((place,), _) = watched.newest()
    assert "party.store" in place.findings[0].seen
    assert place.findings[0].mend


def test_silent_addresses_do_not_delay_the_page(monkeypatch):
    row = {"party": "bank", "address": "10.0.0.1:1"}
    place = Place("a", "plan", [Finding("names", "bank", rows=(row,))])
    monkeypatch.setattr("veilboost.pages.served.places_of", lambda path: iter([place]))
    tried = threading.Event()
    monkeypatch.setattr(
        "veilboost.pages.served.examine", lambda *_: tried.wait(10) and ([place.findings[0]], None)
    )
    began = time.perf_counter()
    watched = Watched(["a"])
    assert time.perf_counter() - began < 5
    assert watched.reached("10.0.0.1:1") == "not tried yet"
    tried.set()
