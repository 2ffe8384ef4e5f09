"""What other programs rely on: the JSON, the exit codes, and what goes to which stream."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]
Written = Callable[[str, str], Path]

PLAIN_READER = """
cd "$1" 2>/dev/null || exit 3
for update in $(ls -r | grep -E '^[0-9]{8}\\.[0-9]{6}$'); do
  files=$(find "$update" -type f ! -path "$update/_SUCCESS" | wc -l)
  if [ "$(cat "$update/_SUCCESS" 2>/dev/null)" = "$((files))" ]; then echo "$update"; exit 0; fi
done
exit 3
"""


def plain_latest(folder: Path) -> str | None:
    """What a shell script that knows nothing but the plain protocol reads."""
    answer = subprocess.run(["sh", "-c", PLAIN_READER, "sh", folder], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def answer(result: Result) -> Any:
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_publish_and_latest_print_exactly_the_promised_object(run: Run, written: Written, tmp_path: Path):
    feed = tmp_path / "f" / "v1.0"
    files = written("b.csv", "x\n1\n"), written("a.csv", "x\n")
    published = run("feed", "publish", feed, "--partition", "2019-11-24", *files, "--json")
    expected = {
        "feed": feed.as_uri(),
        "partition": "2019-11-24",
        "update": "20191201.120000",
        "uri": f"{feed.as_uri()}/2019-11-24/20191201.120000",
        "files": [{"path": "a.csv", "bytes": 2}, {"path": "b.csv", "bytes": 4}],
    }
    assert answer(published) == expected
    assert answer(run("feed", "latest", feed, "--partition", "2019-11-24", "--json")) == expected
    assert answer(run("feed", "latest", feed.as_uri(), "--partition", "2019-11-24", "--json")) == expected
    assert plain_latest(feed / "2019-11-24") == "20191201.120000"


def test_a_location_may_hold_its_updates_itself(run: Run, written: Written, tmp_path: Path):
    run("feed", "publish", tmp_path / "f", written("a.csv", "x\n"))
    latest = answer(run("feed", "latest", tmp_path / "f", "--json"))
    assert (latest["partition"], latest["update"]) == (None, "20191201.120000")
    assert plain_latest(tmp_path / "f") == latest["update"]


def test_a_partition_is_also_a_location_of_its_own(run: Run, written: Written, tmp_path: Path):
    run("feed", "publish", tmp_path / "f", "-p", "day", written("a.csv", "x\n"))
    there = answer(run("feed", "latest", tmp_path / "f" / "day", "--json"))
    assert (there["feed"], there["partition"]) == ((tmp_path / "f" / "day").as_uri(), None)
    assert there["uri"] == answer(run("feed", "latest", tmp_path / "f", "-p", "day", "--json"))["uri"]


@pytest.mark.parametrize("first", ["f -p 2019-11-24", "f/2019-11-24"])
@pytest.mark.parametrize("spelling", ["f -p 2019-11-24", "f/2019-11-24"])
def test_publish_and_latest_name_feed_and_partition_as_their_arguments_do(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, spelling: str
):
    monkeypatch.chdir(tmp_path)
    file = written("a.csv", "x\n")
    run("feed", "publish", *first.split(), file)
    published = answer(run("feed", "publish", *spelling.split(), file, "--json"))
    assert published == answer(run("feed", "latest", *spelling.split(), "--json"))
    feed, *partition = spelling.split(" -p ")
    assert (published["feed"], published["partition"]) == (
        (tmp_path / feed).as_uri(),
        partition[0] if partition else None,
    )
    assert published["uri"] == (tmp_path / "f" / "2019-11-24" / "20191201.120001").as_uri()


def test_what_is_done_to_a_partitions_own_location_is_done_to_its_feed(run: Run, written: Written, tmp_path: Path):
    feed, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", feed, "-p", "a day %", file)
    second = answer(run("feed", "publish", feed / "a day %", file, "--json"))
    assert second["update"] == "20191201.120001"
    run("feed", "tag", feed / "a day %", "good")
    assert answer(run("feed", "ls", feed, "--json"))[0]["tags"] == ["good"]
    assert not (feed / "a day %" / ".feed").exists()


def test_as_of_is_the_latest_begun_at_or_before(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed, file = tmp_path / "f", written("a.csv", "x\n")
    for hour in ("2019-12-01T08:00:00+00:00", "2019-12-01T10:00:00Z", "2019-12-01T13:00:00+01:00"):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", hour)
        run("feed", "publish", feed, file)
    for as_of, update in {
        "20191201.080000": "20191201.080000",
        "20191201.095959": "20191201.080000",
        "20191201.100000": "20191201.100000",
        "20301201.100000": "20191201.120000",
    }.items():
        assert answer(run("feed", "latest", feed, "--as-of", as_of, "--json"))["update"] == update
    early = run("feed", "latest", feed, "--as-of", "20191201.075959", "--json", code=3)
    assert early.stdout == ""
    assert "no valid update as of 2019-12-01 07:59:59. 3 updates were begun later; see why" in early.stderr
    run("feed", "invalidate", feed, "--update", "20191201.080000", "--reason", "wrong")
    between = run("feed", "latest", feed, "--as-of", "20191201.110000", code=0)
    assert "20191201.100000" in between.stdout
    message = run("feed", "latest", feed, "--as-of", "20191201.090000", code=3).stderr
    assert "Update 20191201.080000 is not valid, and 2 updates were begun later" in message


def test_no_valid_update_is_exit_code_3_with_the_reason_on_stderr(run: Run, written: Written, tmp_path: Path):
    nothing = run("feed", "latest", tmp_path / "nowhere", "--json", code=3)
    assert nothing.stdout == ""
    assert nothing.stderr.startswith(f"Error: {(tmp_path / 'nowhere').as_uri()} has no valid update. There is nothing")
    run("feed", "publish", tmp_path / "f", "-p", "one", written("a.csv", "x\n"))
    run("feed", "latest", tmp_path / "f", "-p", "other", code=3)
    run("feed", "files", tmp_path / "f", "-p", "other", code=3)
    run("feed", "invalidate", tmp_path / "f", "-p", "other", "--reason", "wrong", code=3)


def test_a_torn_update_is_not_read(run: Run, written: Written, tmp_path: Path):
    feed, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", feed, file)
    run("feed", "publish", feed, file)
    (feed / "20191201.120001" / "a.csv").unlink()
    assert answer(run("feed", "latest", feed, "--json"))["update"] == "20191201.120000" == plain_latest(feed)


@pytest.mark.parametrize(
    "arguments",
    [
        ["latest"],
        ["latest", "FEED", "--as-of", "2019-12-01"],
        ["latest", "FEED", "--as-of", "20191301.000000"],
        ["latest", "FEED", "--partition", "a/b"],
        ["latest", "FEED", "--partition", ".."],
        ["latest", "FEED", "--partition", "20191201.120000"],
        ["latest", "FEED", "--partition", ".feed"],
        ["latest", "FEED", "--partition", ""],
        ["latest", "FEED", "--nonsense"],
        ["latest", "FEED"],
        ["latest", ""],
        ["latest", "ftp://somewhere/feed"],
        ["latest", "s3a://bucket/feed"],
        ["latest", "s3://"],
        ["latest", "s3://bucket//x"],
        ["latest", "s3://bucket/a//b"],
        ["latest", "s3://bucket/../x"],
        ["latest", "s3://bucket/a\\b"],
        ["latest", "LOOP"],
        ["latest", "n" * 300],
        ["latest", "FEED", "--partition", "n" * 300],
        ["latest", "FEED", "--partition", "caf\udce9"],
        ["pin", "DIRECT", "--until", "9999-12-31T23:59:59.5"],
        ["pin", "DIRECT", "--until", "0001-01-01T00:00:00+05:00"],
        ["latest", "FILE"],
        ["publish", "FEED", "FILE"],
        ["publish", "DIRECT", "--partition", "day", "FILE"],
        ["publish", "DIRECT"],
        ["publish", "DIRECT", "NOWHERE"],
        ["publish", "DIRECT", "FILE", "FILE"],
        ["invalidate", "DIRECT"],
        ["invalidate", "DIRECT", "--reason", " "],
        ["invalidate", "DIRECT", "--reason", "wrong", "--update", "latest"],
        ["pin", "DIRECT", "--until", "soon"],
        ["pin", "DIRECT", "--until", "2019-12-01T11:59:59"],
        ["tag", "DIRECT", "a/b"],
        ["gc", "DIRECT", "--keep", "0"],
        ["gc", "DIRECT", "--younger-than", "a month"],
        ["gc", "DIRECT", "--younger-than", "99999999999d"],
        ["nonsense", "DIRECT"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_a_bad_argument_is_exit_code_2(run: Run, written: Written, tmp_path: Path, arguments: list[str]):
    file = written("a.csv", "x\n")
    run("feed", "publish", tmp_path / "f", "-p", "day", file)
    run("feed", "publish", tmp_path / "direct", file)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    words = {"FEED": tmp_path / "f", "DIRECT": tmp_path / "direct", "FILE": file, "NOWHERE": tmp_path / "nowhere"}
    words["LOOP"] = loop
    refused = run("feed", *(words.get(word, word) for word in arguments), code=2)
    assert refused.stdout == ""
    assert "Error: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert plain_latest(tmp_path / "direct") == "20191201.120000", "nothing was changed"


@pytest.mark.parametrize(
    "command",
    [
        "latest UPDATE",
        "files UPDATE/",
        "ls UPDATE",
        "verify UPDATE",
        "publish UPDATE FILE",
        "publish UPDATE -p day FILE",
        "invalidate UPDATE --reason wrong",
        "tag UPDATE good",
        "untag UPDATE good",
        "pin UPDATE --until 1d",
        "unpin UPDATE",
        "diff UPDATE",
        "gc UPDATE --yes",
    ],
)
def test_the_location_of_an_update_is_no_feed_and_the_update_stays_in_force(
    run: Run, written: Written, tmp_path: Path, command: str
):
    feed, file = tmp_path / "f", written("a.csv", "x\n")
    update = answer(run("feed", "publish", feed, "-p", "day", file, "--json"))["uri"]
    before = sorted(feed.rglob("*"))
    words = command.replace("UPDATE", update).replace("FILE", str(file)).split()
    refused = run("feed", *words, code=2)
    assert f"is an update; name its feed: {(feed / 'day').as_uri()}" in refused.stderr
    assert sorted(feed.rglob("*")) == before


def test_a_mixed_feed_is_exit_code_2(run: Run, written: Written, tmp_path: Path):
    feed, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", feed, "-p", "day", file)
    (feed / "20180101.000000").mkdir()
    (feed / "20180101.000000" / "a.csv").write_text("x\n")
    for command in (["latest", feed], ["ls", feed], ["publish", feed, file], ["publish", feed, "-p", "day", file]):
        assert "Error: " in run("feed", *command, code=2).stderr


def test_a_directory_that_cannot_be_read_is_exit_code_1_without_a_trace(run: Run, tmp_path: Path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "loop").symlink_to(tmp_path / "f" / "loop")
    (tmp_path / "f" / ".feed").write_text("a file where a folder belongs")
    failed = run("feed", "publish", tmp_path / "f", "-p", "day", __file__, code=1)
    assert failed.stderr.startswith("Error: ")
    assert "Traceback" not in failed.stderr
    traced = run("--debug", "feed", "publish", tmp_path / "f", "-p", "day", __file__, code=1)
    assert "Traceback" in traced.stderr
    assert traced.stderr.endswith(failed.stderr)


def test_the_clock_can_be_fixed_and_a_clock_that_cannot_be_read_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for text in ("yesterday", "0001-01-01T00:00:00+05:00", "0001-01-01", "9999-12-31T23:59:59"):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", text)
        assert f"FEED_ASSETS_AS_OF is {text!r}" in run("feed", "latest", tmp_path, code=1).stderr


def test_files_names_each_file_as_other_programs_open_it(run: Run, written: Written, tmp_path: Path):
    run("feed", "publish", tmp_path / "f", written("a b.csv", "x\n"))
    (file,) = answer(run("feed", "files", tmp_path / "f", "--json"))
    assert file == {
        "path": "a b.csv",
        "bytes": 2,
        "uri": (tmp_path / "f" / "20191201.120000" / "a b.csv").as_uri(),
    }


def test_an_empty_update_is_valid_and_has_no_files(run: Run, tmp_path: Path):
    update = tmp_path / "f" / "20191201.000000"
    update.mkdir(parents=True)
    (update / "_SUCCESS").write_text("0")
    assert answer(run("feed", "latest", tmp_path / "f", "--json"))["files"] == []
    assert run("feed", "files", tmp_path / "f").stdout == ""


def test_an_update_of_the_first_second_there_is_has_none_before_it_to_compare_with(run: Run, tmp_path: Path):
    update = tmp_path / "f" / "00010101.000000"
    update.mkdir(parents=True)
    (update / "_SUCCESS").write_text("0")
    assert answer(run("feed", "latest", tmp_path / "f", "--json"))["update"] == "00010101.000000"
    assert "has no valid update before 00010101.000000" in run("feed", "diff", tmp_path / "f", code=3).stderr


def test_a_damaged_record_does_not_keep_ls_from_the_updates(run: Run, written: Written, tmp_path: Path):
    feed = tmp_path / "f"
    run("feed", "publish", feed, written("a.csv", "x\n"))
    (record,) = (feed / ".feed" / "records").iterdir()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"update": None}))
    assert [row["state"] for row in answer(run("feed", "ls", feed, "--json"))] == ["valid"]
