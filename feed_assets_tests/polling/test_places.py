"""The places of partners: a directory, a bucket, SFTP and HTTP behave alike, and credentials are in no description."""

from __future__ import annotations

import asyncio
import functools
import gzip
import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import asyncssh
import paramiko
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.polling.places import BoardPlace, open_place
from feed_assets.polling.port import ChangedError, PlaceError
from feed_assets.sources.loading import load_source
from feed_assets.sources.spec import SpecError
from feed_assets_tests.listening import serving
from feed_assets_tests.polling.partners import (
    LONG_AGO,
    TODAY,
    Watched,
    content,
    describe,
    landed,
    poller,
    send,
    without_spark,
)

PASSWORD = "a-partners-password"
OPTIONS = "FEED_ASSETS_POLL_ADS_SHOP_ADS"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a directory to those who have a token, save files that are `refused`; keeps account of requests."""

    def do_GET(self):
        if self._allowed():
            super().do_GET()

    def do_HEAD(self):
        if self._allowed():
            super().do_HEAD()

    def _allowed(self):
        self.server.requests.append(f"{self.command} {self.path}")
        allowed = self.headers["Authorization"] == f"Bearer {PASSWORD}"
        if answer := self.server.refused.get(self.path) if allowed else 401:
            self.send_error(answer)
        return not answer

    def log_message(self, *_):
        pass


@contextmanager
def http_server(directory: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    handler = functools.partial(Quiet, directory=directory)
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        server.requests, server.refused = [], {}
        yield server


class Login(asyncssh.SSHServer):
    def begin_auth(self, username):
        return bool(username)

    def password_auth_supported(self):
        return True

    def validate_password(self, username, password):
        return (username, password) == ("acme", PASSWORD)


@contextmanager
def sftp_server(directory: Path, home: Path) -> Iterator[int]:
    """A server of SFTP over a directory, whose key is known in this home; its port."""
    key, loop, started = asyncssh.generate_private_key("ssh-ed25519"), asyncio.new_event_loop(), threading.Event()
    ports = []

    async def serve():
        server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Login,
            server_host_keys=[key],
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=os.fsencode(directory)),
        )
        ports.append(server.get_port())
        started.set()

    def run():
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    (home / ".ssh").mkdir(parents=True)
    public = key.export_public_key().decode().strip()
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{ports[0]} {public}\n", encoding="utf-8")
    yield ports[0]

    async def stop():
        others = asyncio.all_tasks(loop) - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()

    asyncio.run_coroutine_threadsafe(stop(), loop)
    thread.join()


@pytest.fixture(params=["directory", "s3", "sftp", "http"])
def partner(request, tmp_path, monkeypatch):
    """The URL of an empty place, and a function that puts a file there."""
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    write = functools.partial(send, outbox)
    match request.param:
        case "directory":
            yield outbox.as_uri(), write
        case "s3":
            server = request.getfixturevalue("versitygw")
            bucket = f"partner-{uuid4().hex}"
            server.client().create_bucket(Bucket=bucket)
            options = {"endpoint_url": server.endpoint, "region_name": server.region}
            keys = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
            monkeypatch.setenv(OPTIONS, json.dumps(options | keys))

            def put(name, *ids, **_):
                server.client().put_object(Bucket=bucket, Key=f"out/{name}", Body=content(*ids).encode())

            yield f"s3://{bucket}/out", put
        case "sftp":
            monkeypatch.setenv("HOME", str(tmp_path / "home"))
            monkeypatch.setenv(OPTIONS, json.dumps({"password": PASSWORD}))
            (outbox / "files").mkdir()
            with sftp_server(outbox, tmp_path / "home") as port:
                yield f"sftp://acme@127.0.0.1:{port}/files", functools.partial(send, outbox / "files")
        case "http":
            monkeypatch.setenv(OPTIONS, json.dumps({"headers": {"Authorization": f"Bearer {PASSWORD}"}}))
            with http_server(outbox) as server:
                yield f"http://127.0.0.1:{server.server_port}/", write


@pytest.fixture(autouse=True)
def _without_spark():
    with without_spark():
        yield


def test_files_of_any_place_land_once_and_a_replaced_file_replaces(tmp_path, partner):
    url, write = partner
    source = describe(tmp_path / "shop_ads.yaml", url)
    names = ["2019-11-27/a b&c.csv", "2019-11-28/1.csv"]
    for name in names:
        write(name, name)
    write("2019-11-20/too-old.csv", "old")
    write("2019-11-28/other.txt", "other")
    board, places = MemoryBlackboard(), [Watched(open_place(source)) for _ in range(3)]

    first = poller(board).poll(source, places[0])
    second = poller(board).poll(source, places[1])
    write(names[1], "new", "newer", time=None)
    third = poller(board).poll(source, places[2])

    assert (first.taken, first.failed, first.left) == (names, {}, {})
    assert (second.seen, places[1].downloads) == (2, [])
    assert (third.replaced, places[2].downloads) == ([names[1]], [names[1]])
    assert landed(board) == [names[0], "new", "newer"]


def test_a_file_that_changes_during_its_download_is_left(tmp_path, partner):
    url, write = partner
    source = describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv", lookback_days=3650)
    write("1.csv", "1")
    board = MemoryBlackboard()

    def replace_it(operation, name):
        if operation == "download":
            write(name, "2", "3", time=None)

    polled = poller(board).poll(source, Watched(open_place(source), replace_it))

    assert (polled.left, landed(board)) == ({"1.csv": "it changed since it was listed"}, [])
    assert poller(board).poll(source).taken == ["1.csv"]


class Page(http.server.BaseHTTPRequestHandler):
    """Serves `pages`: path -> body, body and headers, or the status of a refusal."""

    def do_GET(self):
        self.close_connection = True
        if self.headers["Authorization"] or self.headers["X-Api-Key"]:
            self.server.authorized.append(self.path)
        page = self.server.pages.get(self.path, 404)
        if isinstance(page, int):
            self.send_error(page)
            return
        body, headers = page if isinstance(page, tuple) else (page, {})
        self.send_response(302 if "Location" in headers else 200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - http.server looks for this name

    def log_message(self, *_):
        pass


@contextmanager
def pages(served: dict, authorized: list | None = None) -> Iterator[str]:
    """The URL of a server of these pages; `authorized` gets the paths of requests with credentials."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.pages, server.authorized = served, [] if authorized is None else authorized
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("link", "name", "path"),
    [
        ('<a href="./1.csv">', "1.csv", "1.csv"),
        ('<a href="./a:b.csv">', "a:b.csv", "a:b.csv"),
        ('<a href="a:b.csv">', "a:b.csv", "a:b.csv"),
        ('<a href="o\'brien.csv">', "o'brien.csv", "o'brien.csv"),
        ("<A HREF=/out%20of%20acme/1.csv>", "1.csv", "1.csv"),
        ('<a href="a&amp;b%23%3f%25.csv">', "a&b#?%.csv", "a&b%23%3F%25.csv"),
    ],
)
def test_links_of_a_page_are_read_as_html_and_urls_are(tmp_path, link, name, path):
    others = (
        '<a href="?C=N;O=D"><a href="../"><a href="/"><a href="http://acme.com/2.csv"><a href="in/3.csv"><a name=x>'
        '<a href="http://[acme/4.csv">'
    )
    page = f"<html>{others}{link}file</a>".encode()
    with pages({"/out%20of%20acme/": page, f"/out%20of%20acme/{path}": content("1").encode()}) as url:
        source = describe(tmp_path / "shop_ads.yaml", url, pattern="out of acme/*.csv")
        assert poller(MemoryBlackboard()).poll(source).taken == [f"out of acme/{name}"]


@pytest.mark.parametrize("moved", ["/new/path/", "/new/path/index.html"])
@pytest.mark.parametrize("link", ["/new/path/1.csv", "1.csv"])
def test_links_of_a_page_count_from_the_address_that_its_server_redirects_to(tmp_path, moved, link):
    page = f'<a href="/new/path/"><a href="/2.csv"><a href="/out/3.csv"><a href="{link}">'.encode()
    redirect = (b"", {"Location": moved})
    with pages({"/out/": redirect, moved: page, "/new/path/1.csv": content("1").encode()}) as url:
        source, board = describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv"), MemoryBlackboard()
        assert (poller(board).poll(source).taken, landed(board)) == (["1.csv"], ["1"])


def test_a_folder_whose_address_loses_its_last_slash_stays_the_folder(tmp_path):
    page = b'<a href="/out/1.csv"><a href="2.csv"><a href="/3.csv">'
    files = {f"/out/{name}.csv": content(name).encode() for name in "12"}
    with pages({"/out/": (b"", {"Location": "/out"}), "/out": page, **files}) as url:
        source = describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv")
        assert poller(MemoryBlackboard()).poll(source).taken == ["1.csv", "2.csv"]


@pytest.mark.parametrize("asked_again", ["/login", "/login?next=/out/", "/auth/sign-in"])
def test_a_server_that_asks_for_a_login_is_an_error_and_not_an_empty_folder(tmp_path, asked_again):
    page = b'<form></form><a href="/register">Register</a><a href="/">Home</a>'
    with pages({"/out/": (b"", {"Location": asked_again}), asked_again: page}) as url:
        message = f"leads from {url}/out/ to {url}/[a-z/-]+(\\?...)?, where no link is to a file"
        with pytest.raises(PlaceError, match=message):
            poller(MemoryBlackboard()).poll(describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv"))


@pytest.mark.parametrize("base", ["/out/files/", "files/", "files/index.html"])
def test_links_count_from_the_base_that_a_page_names(tmp_path, base):
    page = f'<base href="{base}"><base href="/else/"><a href="1.csv"><a href="../2.csv">'.encode()
    with pages({"/out/": page, "/out/2.csv": content("2").encode()}) as url:
        source = describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv")
        assert poller(MemoryBlackboard()).poll(source).taken == ["2.csv"]


def test_redirects_in_a_circle_are_told_as_such(tmp_path):
    circle = {"/out/": (b"", {"Location": "/in/"}), "/in/": (b"", {"Location": "/out/"})}
    with pages(circle) as url, pytest.raises(PlaceError, match="leads in a circle"):
        poller(MemoryBlackboard()).poll(describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv"))


def test_the_signature_of_an_address_that_a_file_redirects_to_is_not_shown(tmp_path):
    signed = f"/store/1.csv?X-Amz-Signature={PASSWORD}"
    with pages({"/out/": b'<a href="1.csv">', "/out/1.csv": (b"", {"Location": signed}), signed: 403}) as url:
        done = poller(MemoryBlackboard()).poll(describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv"))
    assert "/store/1.csv?..." in str(done.failed["1.csv"])
    assert PASSWORD not in str(done.failed["1.csv"])


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key"])
@pytest.mark.parametrize("of_session", [False, True])
def test_another_server_that_a_partner_redirects_to_does_not_get_the_credentials(
    tmp_path, monkeypatch, header, of_session
):
    options = {"headers": {header: PASSWORD}}
    monkeypatch.setenv(OPTIONS, json.dumps({"client_kwargs": options} if of_session else options))
    paths, trusted, others = ("/out/", "/out/1.csv"), [], []
    there = dict(zip(paths, (b'<a href="/out/1.csv">', content("1").encode()), strict=True))
    with pages(there, others) as other:
        here = {path: (b"", {"Location": f"{other}{path}"}) for path in paths}
        with pages(here, trusted) as url:
            source = describe(tmp_path / "shop_ads.yaml", f"{url}/out", pattern="*.csv")
            assert poller(MemoryBlackboard()).poll(source).taken == ["1.csv"]
    assert (set(trusted), others) == (set(paths), [])


def test_names_that_are_not_utf_8_stay_two_names(tmp_path):
    names = ["caf%E8.csv", "caf%E9.csv"]
    page = "".join(f'<a href="{name}">' for name in names).encode()
    with pages({"/": page, **{f"/{name}": content(name).encode() for name in names}}) as url:
        source, board = describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv"), MemoryBlackboard()
        assert (poller(board).poll(source).taken, landed(board)) == (names, names)


def test_a_name_with_a_quoted_slash_is_no_path_and_replaces_no_other_file(tmp_path):
    names = ["..%2f1.csv", "1.csv", "in%2F1.csv"]
    page = "".join(f'<a href="{name}">' for name in names).encode()
    with pages({"/": page, **{f"/{name}": content(name).encode() for name in names}}) as url:
        source, board = describe(tmp_path / "shop_ads.yaml", url, pattern="*1.csv"), MemoryBlackboard()
        assert (poller(board).poll(source).taken, landed(board)) == (names[1:], names[1:])


@pytest.mark.parametrize("media_type", ["application/json", "text/xml"])
def test_a_listing_that_is_no_page_is_an_error_and_not_an_empty_folder(tmp_path, media_type):
    listing = (b'[{"name": "1.csv", "type": "file"}]', {"Content-Type": media_type})  # as of nginx
    with pages({"/": listing}) as url:
        assert f"/ is {media_type}, and no page of links in HTML" in problem(tmp_path, url, pattern="*.csv")


def test_a_page_without_end_is_refused_and_not_held_in_memory(tmp_path):
    packed = gzip.compress(bytes(65 * 1024 * 1024))
    with pages({"/": (packed, {"Content-Encoding": "gzip"})}) as url:
        place = open_place(describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv"))
        with pytest.raises(PlaceError, match="has more than 67,108,864 bytes: divide the folder"):
            list(place.entries(""))


def test_a_download_ends_where_more_comes_than_the_server_shows(tmp_path):
    with pages({"/": b'<a href="1.csv">', "/1.csv": bytes(32 * 1024 * 1024)}) as url:
        place = open_place(describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv"))
        (file,) = place.look(place.entries(""))
        with pytest.raises(ChangedError):
            place.download(replace(file, size=72), tmp_path / "1.csv")
    assert (tmp_path / "1.csv").stat().st_size < 8 * 1024 * 1024


def test_a_packed_file_comes_as_it_is_also_if_the_server_calls_that_an_encoding(tmp_path):
    packed, encoded = gzip.compress(content("1").encode()), {"Content-Encoding": "gzip"}
    with pages({"/": b'<a href="1.csv.gz">', "/1.csv.gz": (packed, encoded)}) as url:
        place = open_place(describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv.gz"))
        (file,) = place.look(place.entries(""))
        place.download(file, tmp_path / "1.csv.gz")
    assert (tmp_path / "1.csv.gz").read_bytes() == packed


def test_only_folders_of_the_lookback_are_asked_of_a_server(tmp_path, monkeypatch):
    monkeypatch.setenv(OPTIONS, json.dumps({"headers": {"Authorization": f"Bearer {PASSWORD}"}}))
    send(tmp_path / "outbox", "2019-11-28/1.csv", "1")
    board = MemoryBlackboard()
    with http_server(tmp_path / "outbox") as server:
        url = f"http://127.0.0.1:{server.server_port}"
        source = describe(tmp_path / "shop_ads.yaml", url, lookback_days=3)
        poller(board).poll(source)
        server.requests.clear()
        poller(board).poll(source)
        days = ["2019-11-28", "2019-11-29", "2019-11-30", "2019-12-01", "2019-12-02"]
        assert {each.rstrip("/") for each in server.requests} == {f"GET /{day}" for day in days} | {
            "HEAD /2019-11-28/1.csv"
        }


def test_a_file_that_a_server_refuses_has_failed_and_one_that_is_gone_has_not(tmp_path, monkeypatch):
    monkeypatch.setenv(OPTIONS, json.dumps({"headers": {"Authorization": f"Bearer {PASSWORD}"}}))
    names = [f"2019-11-28/{number}.csv" for number in range(6)]
    for name in names:
        send(tmp_path / "outbox", name, name)
    board = MemoryBlackboard()
    with http_server(tmp_path / "outbox") as server:
        source = describe(tmp_path / "shop_ads.yaml", f"http://127.0.0.1:{server.server_port}")
        server.refused = dict(zip((f"/{name}" for name in names), (403, 429, 503, 404, 410), strict=False))
        polled = poller(board).poll(source)
        server.refused = {}
        again = poller(board).poll(source)

    assert (polled.seen, polled.taken) == (4, names[5:])
    assert [(name, text[:3]) for name, text in polled.failed.items()] == list(
        zip(names, ("403", "429", "503"), strict=False)
    )
    assert PASSWORD not in str(polled.problems)
    assert (again.taken, again.failed, landed(board)) == (names[:5], {}, names)


def test_of_the_keys_in_known_hosts_any_is_trusted_and_a_revoked_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(OPTIONS, json.dumps({"password": PASSWORD}))
    send(tmp_path / "outbox", "1.csv", "1")
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    with sftp_server(tmp_path / "outbox", tmp_path / "home") as port:
        known_hosts = tmp_path / "home/.ssh/known_hosts"
        url, known = f"sftp://acme@127.0.0.1:{port}/", known_hosts.read_text(encoding="utf-8")
        host, key = known.split(" ", 1)
        hashed = f"{paramiko.HostKeys.hash_host(host)} {key}"
        before = f"# acme\n\nbroken\n@cert-authority *.acme.com {other}\n@revoked {host} {other}\n{host} {other}\n"
        source = describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv", lookback_days=3650)
        for lines in (known, hashed, before + known, before + hashed):
            known_hosts.write_text(lines, encoding="utf-8")
            assert poller(MemoryBlackboard()).poll(source).taken == ["1.csv"]
        for lines in (before, before + f"@cert-authority {known}", f"other.acme.com {key}"):
            known_hosts.write_text(lines, encoding="utf-8")
            assert "known_hosts does not have its key" in problem(tmp_path, url, pattern="*.csv")
        known_hosts.write_text(f"{known}@revoked {hashed}", encoding="utf-8")
        assert "known_hosts says that its key is revoked" in problem(tmp_path, url, pattern="*.csv")


def test_a_link_that_a_server_does_not_follow_is_named_and_the_others_land(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(OPTIONS, json.dumps({"password": PASSWORD}))
    send(tmp_path / "outbox", "1.csv", "1")
    for name in ("endless.csv", "endless.txt"):
        (tmp_path / "outbox" / name).symlink_to(name)
    with sftp_server(tmp_path / "outbox", tmp_path / "home") as port:
        url = f"sftp://acme@127.0.0.1:{port}/"
        source = describe(tmp_path / "shop_ads.yaml", url, pattern="*.csv", lookback_days=3650)
        os.utime(tmp_path / "outbox/endless.csv", (LONG_AGO, LONG_AGO), follow_symlinks=False)
        polled = poller(MemoryBlackboard()).poll(source)
    assert (polled.taken, polled.problems) == (["1.csv"], ["endless.csv: Too many levels of symbolic links"])


def test_a_server_that_cannot_be_read_is_an_error_that_shows_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    with sftp_server(outbox, tmp_path / "home") as port, http_server(outbox) as server:
        url = f"sftp://acme@127.0.0.1:{port}"
        monkeypatch.setenv(OPTIONS, '{"password": "a-wrong-secret"}')
        assert "Authentication failed" in problem(tmp_path, url)
        monkeypatch.setenv(OPTIONS, json.dumps({"password": PASSWORD}))
        assert "there is no directory /typo on the server" in problem(tmp_path, f"{url}/typo", pattern="*.csv")
        with monkeypatch.context() as broken:
            broken.setattr(paramiko.SFTPClient, "listdir_iter", raising(paramiko.SFTPError("Garbage packet received")))
            assert "Garbage packet received" in problem(tmp_path, f"{url}/", pattern="*.csv")
        (outbox / os.fsdecode(b"caf\xe9.csv")).touch()
        assert "/ has a file whose name is not UTF-8, 'caf\\udce9.csv'" in problem(tmp_path, f"{url}/", pattern="*.csv")
        (tmp_path / "home/.ssh/known_hosts").write_text("", encoding="utf-8")
        assert "known_hosts does not have its key; compare it with the partner" in problem(tmp_path, url)
        monkeypatch.delenv(OPTIONS)
        url = f"http://127.0.0.1:{server.server_port}/"
        assert "401" in problem(tmp_path, url, pattern="*.csv")
        monkeypatch.setenv(OPTIONS, '{"headers": "a-wrong-secret"}')
        assert "not a mapping" in problem(tmp_path, url, pattern="*.csv")
    monkeypatch.setenv(OPTIONS, "a-wrong-secret")
    assert problem(tmp_path, url).startswith(f"{OPTIONS} is not a JSON object of options")


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def problem(tmp_path, url, **more):
    source = describe(tmp_path / "shop_ads.yaml", url, **more)
    with pytest.raises(PlaceError) as caught:
        poller(MemoryBlackboard()).poll(source)
    assert PASSWORD not in str(caught.value)
    assert "a-wrong-secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("place", "ftp://acme.com/out", "starts with ftp://; use a directory, or one of file, s3, sftp, http, https"),
        ("place", "sftp://acme:secret@acme.com/out", "has credentials, which do not belong here"),
        ("place", "https://token@acme.com/out", "has credentials, which do not belong here"),
        ("place", "sftp://acme:sec/secret@acme.com/out", "has credentials, which do not belong here"),
        ("place", "s3://AKIAID:sec/secret@bucket/out", "has credentials, which do not belong here"),
        ("place", "s3://AKIAID:secret", "has credentials, which do not belong here"),
        ("place", "https://acme:\u2100secret@acme.com/out", "is no URL; it is not shown"),
        ("place", "https:///out", "names no host; write https://host/directory"),
        ("place", "sftp://acme@acme.com:ssh/out", "'acme.com:ssh' has no port from 0 to 65535; write sftp://"),
        ("place", "https://acme.com:65536/out", "'acme.com:65536' has no port from 0 to 65535"),
        ("pattern", "/var/*.csv", "is no relative path"),
        ("pattern", "../*.csv", "is no relative path"),
        ("pattern", "**/*.csv", "is no relative path"),
        ("pattern", "{yyyy}/*.csv", "has a part of a date; use {yyyy}, {mm} and {dd}, or none of them"),
        ("pattern", "{year}/*.csv", "has {year}; there are {yyyy}, {mm}, {dd} and {hh}"),
        ("lookback_days", 0, "greater than or equal to 1"),
        ("at", "noon", "there is no such field; there are place, pattern, every, lookback_days, settle_seconds"),
    ],
)
def test_a_wrong_description_of_a_place_is_a_message_with_its_line(tmp_path, field, value, message):
    with pytest.raises(SpecError) as caught:
        describe(tmp_path / "shop_ads.yaml", **{"place": "/out", field: value})
    assert f"poll.{field}: " in str(caught.value)
    assert message in str(caught.value)
    assert "shop_ads.yaml:" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_relative_place_is_beside_the_description(tmp_path, monkeypatch):
    describe(tmp_path / "sources" / "shop_ads.yaml", "../outbox")
    send(tmp_path / "outbox", "2019-11-28/1.csv", "1")
    monkeypatch.chdir("/")
    source = load_source(tmp_path / "sources" / "shop_ads.yaml", KINDS)
    assert poller(MemoryBlackboard()).poll(source).taken == ["2019-11-28/1.csv"]


def test_names_that_are_paths_out_of_the_place_are_no_files(tmp_path):
    source = describe(tmp_path / "shop_ads.yaml", tmp_path, pattern="*.csv", lookback_days=3650)
    bucket, board = MemoryBlackboard(clock=lambda: TODAY), MemoryBlackboard()
    for name in ("../up.csv", "..csv", "a\\b.csv", "new\nline.csv", "good.csv", "folder/in.csv"):
        bucket.put(name, content(name).encode())
    assert poller(board).poll(source, BoardPlace(bucket)).taken == ["good.csv"]


def test_a_file_whose_name_no_store_takes_is_named_and_the_others_land(tmp_path):
    source = describe(tmp_path / "shop_ads.yaml", tmp_path / "out", pattern="*.csv", lookback_days=3650)
    for name in (b"m\xe4rz.csv", b"new\nline.csv", b"good.csv"):
        send(tmp_path / "out", os.fsdecode(name), "1")

    polled = poller(MemoryBlackboard()).poll(source)

    assert polled.taken == ["good.csv"]
    march, line = polled.problems
    assert march.startswith(r"'m\udce4rz.csv': no store takes its name: have it renamed")
    assert line.startswith(r"'new\nline.csv': ")


def test_a_folder_whose_name_no_store_takes_is_passed_over(tmp_path):
    source = describe(tmp_path / "shop_ads.yaml", tmp_path, pattern="*/{yyyy}-{mm}-{dd}/*.csv")
    bucket, board = MemoryBlackboard(), MemoryBlackboard()
    for folder in ("", "a\\b", "new\nline", "good"):
        bucket.put(f"{folder}/2019-11-28/1.csv", content(folder).encode())
    assert poller(board).poll(source, BoardPlace(bucket)).taken == ["good/2019-11-28/1.csv"]
