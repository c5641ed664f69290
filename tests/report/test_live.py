"""The live page: renewed while a run goes on, and for this machine only."""

import http.client
import json
import threading

import pytest
from small_runs import Nobody, small_run

from sparcl.errors import SparclError
from sparcl.report.live import LiveRuns, Server


@pytest.fixture
def server(tmp_path):
    with Server(LiveRuns(tmp_path), 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_only_its_own_names_and_known_paths_are_answered(server, tmp_path):
    (tmp_path / "secret").write_text("secret")
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server)[0].status == 200
    assert ask(server, Host=f"localhost:{server.port}")[0].status == 200
    for host in ("evil.example", f"evil.example:{server.port}", "localhost", "127.0.0.1", ""):
        answer, text = ask(server, Host=host)
        assert answer.status == 403 and "What was run" not in text
    for path in ("/secret", "/../secret", "/%2e%2e/secret", "/?", "/sections/", "http://127.0.0.1/"):
        answer, text = ask(server, path)
        assert answer.status in (403, 404) and "no run yet" not in text
    assert ask(server, method="POST")[0].status == 501


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
def test_a_loopback_name_is_answered_however_it_is_written(server, name, monkeypatch):
    assert ask(server, Host=f"{name}:{server.port}")[0].status == 200
    assert ask(server, Host=name)[0].status == 403  # that would be port 80
    monkeypatch.setattr(Server, "port", 80)  # which only root may use: a browser leaves it out then
    for host in (name, f"{name}:", f"{name}:80"):
        assert ask(server, Host=host)[0].status == 200
    for host in (
        f"{name}:81",
        f"{name}.evil.example",
        f"evil.example:{name}",
        "evil.example",
        "[::1",
        "127.0.0.1.",
        "",
    ):
        assert ask(server, Host=host)[0].status == 403


def test_two_host_headers_are_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest("GET", "/", skip_host=True)
    for host in (f"localhost:{server.port}", "evil.example"):
        connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == 403


def test_an_empty_directory_waits_for_a_run(server):
    answer, text = ask(server)
    assert "There is no run yet" in text
    assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_sections_change_while_a_run_goes_on(server, tmp_path):
    seen = []

    class Follower(Nobody):
        def evaluated(self, *_):
            seen.append(json.loads(ask(server, "/sections")[1]))

    small_run(tmp_path / "run", "digits/sparcl-er-90", listener=Follower())
    answer, text = ask(server, "/sections")
    seen.append(json.loads(text))
    states = [sections["overview"]["html"] for sections in seen]
    assert "task 1 of 2, epoch 3 of 3 done" in states[0]
    assert "task 2 of 2, epoch 3 of 3 done" in states[1]
    assert "finished" in states[2] and "not finished" not in states[2]
    digests = [sections["time"]["digest"] for sections in seen]
    assert digests[0] != digests[1] == digests[2]  # what did not change is not drawn anew
    assert ask(server, "/sections", **{"If-None-Match": answer.headers["ETag"]})[0].status == 304
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "settings.json").write_text("{")
    shown = json.loads(ask(server, "/sections")[1])["overview"]["html"]
    assert "Left out" in shown and "finished" in shown  # the others are still there


def test_a_port_in_use_gets_one_line(server, tmp_path):
    with pytest.raises(SparclError, match="cannot be used: Address already in use"):
        Server(LiveRuns(tmp_path), server.port)
