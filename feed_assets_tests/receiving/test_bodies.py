"""Which bodies the real server takes: the headers that describe them, and whether they are what these say.

Not here: limits of bodies (`test_server`).
"""

from __future__ import annotations

import base64
import bz2
import gzip
import http.client
import json
import lzma
import zlib
from contextlib import closing

import pytest

from feed_assets.receiving.limits import Limits
from feed_assets_tests.receiving.light import Light, running_light
from feed_assets_tests.waiting import HANGS

RECORDS = b"".join(b'{"id":"%d","time":"2019-11-24 12:00:00","place":"B\xc3\xbccher"}\n' % each for each in range(3))
ARRAY = b"[" + b",".join(RECORDS.splitlines()) + b"]"
PRETTY = json.dumps(json.loads(ARRAY), indent=1).encode()
TEXT = RECORDS.decode()
LINES_TYPE, JSON_TYPE = ("Content-Type", "application/x-ndjson"), ("Content-Type", "application/json")
GZIP = ("Content-Encoding", "gzip")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server without tokens."""
    light = Light(tmp_path_factory.mktemp("open") / "base", Limits(roll_seconds=3600))
    with running_light(light) as running:
        running.post(RECORDS)  # it shows the figures of its journal from now on
        yield running


def sent(server, body, *headers):
    """The answer to a body with these headers, of which several may have the same name."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANGS)) as client:
        client.putrequest("POST", "/v1/events/shop_ads")
        for name, value in headers:
            client.putheader(name, value)
        if all(name != "Transfer-Encoding" for name, _ in headers):
            client.putheader("Content-Length", str(len(body)))
        client.endheaders(body)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())


def chunked(body):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        pytest.param(gzip.compress(RECORDS), [LINES_TYPE], "a packed file, such as gzip", id="gzip"),
        pytest.param(
            gzip.compress(RECORDS, 0), [LINES_TYPE], "a packed file, such as gzip", id="gzip that only stores"
        ),
        pytest.param(gzip.compress(ARRAY), [JSON_TYPE], "a packed file", id="gzip as JSON"),
        pytest.param(gzip.compress(gzip.compress(RECORDS)), [LINES_TYPE, GZIP], "once", id="gzip in gzip"),
        pytest.param(gzip.compress(RECORDS) + RECORDS, [LINES_TYPE, GZIP], "What follows the gzip", id="text behind"),
        pytest.param(b"", [LINES_TYPE, GZIP], "cut off", id="nothing as gzip"),
        pytest.param(RECORDS, [LINES_TYPE, ("Content-Encoding", "gzip, gzip")], "once", id="gzip, gzip"),
        pytest.param(gzip.compress(RECORDS), [LINES_TYPE, GZIP, GZIP], "once", id="two Content-Encodings"),
        *(
            pytest.param(RECORDS, [LINES_TYPE, ("Content-Encoding", name)], name.lower(), id=f"announced {name}")
            for name in ("deflate", "br", "ZSTD", "compress", "gzip;q=1", "aws-chunked")
        ),
        pytest.param(
            chunked(gzip.compress(RECORDS)), [LINES_TYPE, ("Transfer-Encoding", "gzip, chunked")], "gzip", id="transfer"
        ),
        pytest.param(
            gzip.compress(RECORDS),
            [LINES_TYPE, ("Transfer-Encoding", "gzip")],
            "Transfer-Encoding",
            id="without chunks",
        ),
        pytest.param(zlib.compress(RECORDS), [LINES_TYPE], "a packed file", id="deflate"),
        pytest.param(zlib.compress(RECORDS, 0), [LINES_TYPE], "a packed file", id="deflate that only stores"),
        pytest.param(zlib.compress(RECORDS)[2:-4], [LINES_TYPE], "No record of the body", id="raw deflate"),
        pytest.param(bz2.compress(RECORDS), [LINES_TYPE], "No record of the body", id="bzip2"),
        pytest.param(lzma.compress(RECORDS), [LINES_TYPE], "No record of the body", id="xz"),
        pytest.param(base64.b64encode(RECORDS), [LINES_TYPE], "No record of the body", id="base64"),
        *(
            pytest.param(text.encode(encoding), [media_type], "Nothing was taken", id=f"{encoding} as {media_type[1]}")
            for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp037")
            for text, media_type in ((TEXT, LINES_TYPE), (ARRAY.decode(), JSON_TYPE), (PRETTY.decode(), JSON_TYPE))
        ),
        pytest.param(TEXT.encode("latin-1"), [LINES_TYPE], "is not UTF-8", id="latin-1"),
        pytest.param(ARRAY.decode().encode("latin-1"), [JSON_TYPE], "is not UTF-8", id="latin-1 in an array"),
        *(
            pytest.param(RECORDS, [("Content-Type", f"application/x-ndjson{given}")], charset, id=given)
            for given, charset in (
                ("; charset=utf-16", "utf-16"),
                (';CharSet="ISO-8859-1"', "iso-8859-1"),
                ("; a=b; CHARSET = Windows-1252", "windows-1252"),
                ("; charset=utf-8; charset=latin1", "latin1"),
                ("; charset=utf-8, application/json", "application/json"),
            )
        ),
        pytest.param(RECORDS, [JSON_TYPE], "application/x-ndjson", id="lines as JSON"),
        pytest.param(RECORDS.replace(b"\n", b""), [JSON_TYPE], "not one value", id="values in a row as JSON"),
        pytest.param(RECORDS.replace(b"\n", b""), [LINES_TYPE], "trailing characters", id="values in a row as lines"),
        pytest.param(RECORDS.replace(b"\n", b"\r"), [LINES_TYPE], "No record", id="lines that end with CR"),
        pytest.param(RECORDS.replace(b"{", b"\x1e{"), [LINES_TYPE], "No record", id="a text sequence"),
        pytest.param(ARRAY, [LINES_TYPE], "an array of objects", id="an array as lines"),
        pytest.param(ARRAY.replace(b"},", b"},\n"), [LINES_TYPE], "No record", id="an array in lines"),
        pytest.param(ARRAY.replace(b"{", b"\n{"), [LINES_TYPE], "several lines", id="an array around lines"),
        pytest.param(PRETTY, [LINES_TYPE], "several lines", id="an indented array"),
        pytest.param(b'{\n"id":"1","places":[\n{}\n]\n}\n', [LINES_TYPE], "several lines", id="an indented object"),
        *(
            pytest.param(scalar, [media_type], "No record", id=f"{scalar.decode()} as {media_type[1]}")
            for scalar in (b"1", b'"text"', b"null", b"true")
            for media_type in (LINES_TYPE, JSON_TYPE)
        ),
        pytest.param(b"[1,null,[]]", [JSON_TYPE], "No record", id="an array of other values"),
        pytest.param(b"", [JSON_TYPE], "not one value", id="nothing as JSON"),
        pytest.param(b'{"id":"1"', [JSON_TYPE], "not one value", id="half an object"),
        pytest.param(b"NaN", [JSON_TYPE], "not one value", id="NaN"),
        pytest.param(b"\0" * 100, [LINES_TYPE], "No record", id="zeros"),
        *(
            pytest.param(text, [media_type], "Nothing was taken", id=f"{text[:8].decode()} as {media_type[1]}")
            for text in (
                b"id,time\n1,2019\n",
                b"<a><b/>\n</a>\n",
                b"id=1&time=2019",
                b"id: 1\ntime: 2019\n",
                b"{'id': 1}\n",
            )
            for media_type in (LINES_TYPE, JSON_TYPE)
        ),
        pytest.param(RECORDS, [], "no Content-Type", id="no Content-Type"),
        pytest.param(RECORDS, [("Content-Type", "")], "application/x-ndjson", id="an empty Content-Type"),
        pytest.param(RECORDS, [("Content-Type", "application/x-www-form-urlencoded")], "x-ndjson", id="a form"),
        pytest.param(RECORDS, [("Content-Type", "application/gzip")], "x-ndjson", id="application/gzip"),
        pytest.param(RECORDS, [LINES_TYPE, JSON_TYPE], "2 headers Content-Type", id="two Content-Types"),
        pytest.param(RECORDS, [LINES_TYPE, LINES_TYPE], "2 headers Content-Type", id="the same Content-Type twice"),
    ],
)
def test_a_body_that_is_not_understood_is_refused_with_what_to_send_and_nothing_of_it_is_kept(
    server, body, headers, words
):
    before = server.metric("feed_assets_receive_commit_seconds_count")

    status, answer = sent(server, body, *headers)

    assert (status in {400, 415}, words in answer["detail"]) == (True, True), (status, answer)
    assert server.metric("feed_assets_receive_commit_seconds_count") == before


@pytest.mark.parametrize(
    ("body", "headers", "counts"),
    [
        pytest.param(b"\xef\xbb\xbf" + RECORDS, [LINES_TYPE], (3, 0), id="BOM"),
        pytest.param(b"\xef\xbb\xbf" + ARRAY, [JSON_TYPE], (3, 0), id="BOM as JSON"),
        pytest.param(PRETTY, [JSON_TYPE], (3, 0), id="indented"),
        pytest.param(RECORDS.replace(b"\n", b"\r\n"), [LINES_TYPE], (3, 0), id="lines that end with CR LF"),
        *(
            pytest.param(RECORDS, [("Content-Type", given)], (3, 0), id=given)
            for given in (
                'Application/X-NDJSON ; Charset="UTF-8"',
                "application/jsonl;charset=utf8;",
                "application/x-ndjson; charset=us-ascii; a=b",
                'application/x-ndjson; a="b; c"',
            )
        ),
        *(
            pytest.param(gzip.compress(RECORDS), [LINES_TYPE, *announced], (3, 0), id=f"gzip, {announced}")
            for announced in (
                [("Content-Encoding", "GZip")],
                [("Content-Encoding", "x-gzip")],
                [("Content-Encoding", "identity, gzip")],
                [("Content-Encoding", "identity"), GZIP],
            )
        ),
        pytest.param(gzip.compress(RECORDS) + gzip.compress(RECORDS), [LINES_TYPE, GZIP], (6, 0), id="two members"),
        pytest.param(chunked(RECORDS), [LINES_TYPE, ("Transfer-Encoding", "Chunked")], (3, 0), id="chunked"),
        pytest.param(RECORDS, [LINES_TYPE, ("Content-Encoding", "")], (3, 0), id="an empty Content-Encoding"),
        pytest.param(b"", [LINES_TYPE], (0, 0), id="no line"),
        pytest.param(b"[]", [JSON_TYPE], (0, 0), id="an empty array"),
        pytest.param(b"nope\n\xff\n[1]\n\0\n" + RECORDS, [LINES_TYPE], (3, 4), id="bad records"),
        pytest.param(b"[1,null," + ARRAY[1:], [JSON_TYPE], (3, 2), id="bad items"),
        pytest.param(b'{"id":""}\n', [LINES_TYPE], (0, 1), id="an object that cannot be used"),
        pytest.param(b'{"other":1}', [JSON_TYPE], (0, 1), id="another object"),
    ],
)
def test_a_body_that_is_understood_is_taken_with_its_bad_records(server, body, headers, counts):
    status, answer = sent(server, body, *headers)

    assert (status, answer.get("accepted"), answer.get("rejected")) == (202, *counts), answer
