"""Commands that list what is below a base: feeds, sources, what is in quarantine. Nothing here starts Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import PAGE_SIZE
from feed_assets.cli.main import main
from feed_assets.file_feed import Facts, Feed, claim, publish_files, reject, stage, staged_files
from feed_assets.file_feed.discovery import feed_locations, summarize
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.cli.conftest import NOON
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, write_sources

Run = Callable[..., Result]
Written = Callable[[str, str], Path]
NOW = datetime.fromisoformat(f"{NOON}+00:00")


@pytest.fixture
def base(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A feed with a version and days of which one was rejected, one of others without control area, one at the top."""
    base = tmp_path / "base"
    monkeypatch.setenv("FEED_ASSETS_BASE", str(base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)))
    board = open_blackboard(str(base))
    clean = Feed(board, "clean-ads/v1.0")
    for day in ("2019-11-24", "2019-11-25"):
        publish_files(clean, day, [written("a.csv", "x\n")], now=NOW, owner="t", facts=Facts())
    for day in ("2019-11-25", "2019-11-26"):
        reject(stage(claim(clean, day, now=NOW, owner="t"), (), Facts(), now=NOW), reason="bad", now=NOW)
    for folder in ("theirs/2019-11-24/20191125.000000", "catalog/20191125.000000"):
        (base / folder).mkdir(parents=True)
        (base / folder / "_SUCCESS").write_text("0")
    for day, hour in (("2019-11-24", "05"), ("2019-11-26", "07")):
        raw = base / f"raw/ads/shop_ads/{day}/{hour}/theirs.parquet"
        raw.parent.mkdir(parents=True)
        raw.write_bytes(b"PAR1")
    return base


def test_every_feed_is_listed_with_what_is_in_force_and_what_is_not(run: Run, base: Path):
    found = {each["location"]: each for each in json.loads(run("feeds", "--json").stdout)}

    assert list(found) == ["catalog", "clean-ads/v1.0", "theirs"]
    assert found["catalog"]["latest"] == "20191125.000000"
    assert found["theirs"]["newest"] == "2019-11-24"
    clean = found["clean-ads/v1.0"]
    assert (clean["partitions"], clean["newest"]) == (2, "2019-11-25")
    assert (clean["without"], clean["behind"]) == (["2019-11-26"], ["2019-11-25"])
    shown = run("feeds", base).stdout
    assert "no valid update: 2019-11-26; newer update not in force: 2019-11-25" in shown


def test_feeds_below_the_base_of_the_environment_are_listed_without_loading_a_project(
    run: Run, base: Path, monkeypatch
):
    shown = run("feeds", base).stdout
    monkeypatch.setenv("FEED_ASSETS_MODULE", "no.such.module")

    assert run("feeds").stdout == shown
    monkeypatch.delenv("FEED_ASSETS_BASE")
    assert "There is no module no.such.module" in run("feeds", code=1).stderr


def test_below_a_base_without_feeds_it_says_which_base_that_is(run: Run, tmp_path: Path):
    assert f"There is no feed below {tmp_path}" in run("feeds", tmp_path).stderr
    assert run("feeds", "gopher://x", code=2).stdout == ""


def test_a_base_that_is_named_and_not_there_is_an_error_that_says_what_is_near(run: Run, base: Path):
    misspelt = base.parent / "bass"

    for options in ([], ["--json"]):
        result = run("feeds", misspelt, *options, code=3)
        assert result.stdout == ""
        assert f"There is nothing at {misspelt.as_uri()}." in result.stderr
        assert "Did you mean base?" in result.stderr


def test_an_empty_base_as_of_a_variable_that_is_not_set_is_no_other_base(run: Run, base: Path):
    for nothing in "", "file://":
        assert run("feeds", nothing, code=2).stdout == ""


def test_finding_feeds_takes_the_same_listings_however_many_updates_they_have(base: Path, written: Written):
    def listings() -> int:
        board = RecordingBlackboard(open_blackboard(str(base)))
        for location in feed_locations(board, leave_out={"raw"}):
            summarize(Feed(board, location), now=NOW)
        return board.counts()["page"]

    before = listings()
    feed = Feed(open_blackboard(str(base)), "clean-ads/v1.0")
    for day in range(1, 29):
        publish_files(feed, f"2019-10-{day:02}", [written("a.csv", "x\n")], now=NOW, owner="t", facts=Facts())

    assert listings() == before
    assert 0 < before < 20


def test_of_more_feeds_than_a_page_all_are_found():
    feeds = [f"feed-{number:04}/v1.0" for number in range(PAGE_SIZE + 2)]
    board = MemoryBlackboard({f"{feed}/{day}/20191125.000000/_SUCCESS": b"0" for feed in feeds for day in ("a", "b")})
    board.put("0", b"a file beside them")
    assert list(feed_locations(board)) == feeds


def test_every_source_is_listed_with_the_days_that_have_raw_data(run: Run, base: Path):
    ads, clicks = json.loads(run("sources", "--json").stdout)

    assert (ads["source"], ads["format"], ads["lookback_days"], ads["buffer_hours"]) == ("ads/shop_ads", "csv", 7, 0)
    assert (ads["days"], ads["first_day"], ads["last_day"]) == (2, "2019-11-24", "2019-11-26")
    assert (clicks["source"], clicks["days"], clicks["last_day"]) == ("clicks/shop_clicks", 0, None)
    assert "5 %" in run("sources").stdout


def test_a_source_to_check_that_is_not_known_is_a_bad_argument(run: Run, base: Path):
    assert "ads/shop_ads, clicks/shop_clicks" in run("sources", "check", "shop", code=2).stderr


def test_what_is_in_quarantine_is_counted_by_reason_with_the_first_record(
    run: Run, base: Path, written: Written, tmp_path: Path
):
    def line(number: int, reason: str, **more: str) -> str:
        return json.dumps({"file": "log.csv", "line": number, "reason": reason, "record": f"r{number}", **more}) + "\n"

    records = [line(number, "missing ad_id", source="shop_ads") for number in (9, 3)]
    feed = Feed(open_blackboard(str(base)), "quarantine/clean-ads/v1.0")
    files = [written("a.json", "".join([*records, line(5, "odd time", source="shop_ads")])), written("b.json", "")]
    publish_files(feed, "2019-11-25", files, now=NOW, owner="t", facts=Facts())
    late = claim(feed, "2019-11-25", now=NOW, owner="t")
    (base / late.prefix).mkdir(parents=True)
    (base / late.prefix / "c.json").write_text(line(1, "missing ad_id", source="shop_ads"))
    reject(stage(late, staged_files(late, 1), Facts(), now=NOW), reason="bad", now=NOW)
    landing = base / "quarantine/landing/ads/shop_ads/0123456789abcdef.json"
    landing.parent.mkdir(parents=True)
    landing.write_text(line(7, "no usable time"))
    landing.with_stem("0123456789abcdef-2").write_text(line(7, "of a landing that was killed") * 2)
    superseded = landing.with_stem("00000000000000ff")
    superseded.write_text(line(7, "of a landing that was superseded"))
    for entry in ("0123456789abcdef/1", "00000000000000ff/1", "00000000000000ff/2"):
        key = base / f"raw/.landed/ads/shop_ads/entries/{entry}.json"
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_text("{}")

    found = json.loads(run("quarantine", "--json").stdout)

    assert [(each["where"], each["partition"], each["reason"], each["records"]) for each in found] == [
        ("clean-ads/v1.0", "2019-11-25", "missing ad_id", 2),
        ("clean-ads/v1.0", "2019-11-25", "odd time", 1),
        ("clean-ads/v1.0", "2019-11-25", "missing ad_id", 1),
        ("landing/ads/shop_ads", None, "no usable time (column time)", 1),
    ]
    assert [each["state"] for each in found] == ["valid", "valid", "rejected", ""]
    assert (found[0]["line"], found[0]["example"]) == (3, "r3")
    assert len(json.loads(run("quarantine", "2019-11-25", "--json").stdout)) == 3
    assert len(json.loads(run("quarantine", "--feed", "landing", "--json").stdout)) == 1
    assert len(json.loads(run("quarantine", "--feed", "clean-ads", "--json").stdout)) == 3
    assert json.loads(run("quarantine", "--feed", "ad-effectiveness/v1.0", "--json").stdout) == []
    assert json.loads(run("quarantine", "--feed", "landing/clicks", "--json").stdout) == []
    shutil.rmtree(base / late.prefix)
    assert len(json.loads(run("quarantine", "2019-11-25", "--json").stdout)) == 2
    assert "Nothing of 2019-11-24 is in quarantine" in run("quarantine", "2019-11-24").stderr
    run("feed", "invalidate", base / "clean-ads/v1.0", "-p", "2019-11-25", "--reason", "wrong")
    assert json.loads(run("quarantine", "2019-11-25", "--json").stdout) == []


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize("name", ["clean_ads", "clean-ads/v1", "landing/ads/shop"])
def test_a_mistyped_feed_of_the_quarantine_is_an_error_that_says_what_is_near(run: Run, name: str):
    stderr = run("quarantine", "--feed", name, code=2).stderr
    assert f"Invalid value for --feed: there is no feed {name!r} below" in stderr
    assert "Did you mean" in stderr


def test_files_that_cannot_be_read_are_an_error_that_names_the_update_and_what_to_do(
    run: Run, base: Path, written: Written
):
    board = open_blackboard(str(base))
    damaged = written("damaged.json", '{"file": "log.csv", "line": 1, "reason": "cut o')
    sound = written("sound.json", '{"file": "log.csv", "line": 1, "reason": "odd time", "record": "r"}\n')
    for day, file in (("2019-11-24", damaged), ("2019-11-25", sound)):
        publish_files(Feed(board, "quarantine/clean-ads/v1.0"), day, [file], now=NOW, owner="t", facts=Facts())
    effectiveness = Feed(board, "ad-effectiveness/v1.0")
    publish_files(effectiveness, "2019-11-24", [written("a.parquet", "no parquet")], now=NOW, owner="t", facts=Facts())

    result = run("quarantine", "--json", code=1)
    assert [each["reason"] for each in json.loads(result.stdout)] == ["odd time"]
    report = run("report", code=1)
    for shown, feed in ((result, "quarantine/clean-ads/v1.0"), (report, "ad-effectiveness/v1.0")):
        uri = (base / feed).as_uri()
        assert f"Error: The files of {uri}/2019-11-24/20191201.120000 cannot be read" in shown.stderr
        assert (
            f"`feed-assets feed invalidate {uri} --partition 2019-11-24 --update 20191201.120000 --reason"
            in shown.stderr
        )


@pytest.mark.parametrize(
    "damaged",
    [b'{"file": "log.csv", "line": 1, "reason": "cut o', b"\x1f\x8b\x08\x00garbage", b"\xff\xfe\x00{", b"[1, 2"],
)
def test_a_damaged_quarantine_of_a_landing_is_an_error_that_names_its_file_and_hides_no_other(
    run: Run, base: Path, damaged: bytes
):
    folder = base / "quarantine/landing/ads/shop_ads"
    folder.mkdir(parents=True)
    entries = base / "raw/.landed/ads/shop_ads/entries"
    sound = b'{"file": "log.csv", "line": 1, "reason": "odd time", "record": "r"}\n'
    for name, content in (("00000000000000ff", damaged), ("0123456789abcdef", sound)):
        (folder / f"{name}.json").write_bytes(content)
        (entries / name).mkdir(parents=True)
        (entries / name / "1.json").write_text("{}")

    shown = run("quarantine", "--json", code=1)

    assert [(each["where"], each["reason"]) for each in json.loads(shown.stdout)] == [
        ("landing/ads/shop_ads", "odd time")
    ]
    assert f"Error: {(folder / '00000000000000ff.json').as_uri()} cannot be read: " in shown.stderr
    assert "/0.json" not in shown.stderr


@pytest.mark.parametrize(("width", "slow"), [(80, []), (40, [["sources"]])])
def test_on_a_narrow_terminal_no_name_date_or_number_is_broken(
    width: int, slow: list[list[str]], program_on: Callable[..., str], base: Path
):
    feed = base / "clean-ads/v1.0"
    expected = {
        "feeds": ["clean-ads/v1.0", "20191201.120000", "2019-11-25"],
        "sources": ["ads/shop_ads", "days", "buffer hours"],
        "ls": ["20191201.120000 *", "2019-11-25", "rejected", "20191201.120001"],
    }
    for arguments in (["feeds", base], ["feed", "ls", feed], *slow):
        shown = program_on(width, *arguments)
        for part in expected[next(name for name in reversed(arguments) if name in expected)]:
            assert any(part in line for line in shown.splitlines()), (part, shown)
        for line in shown.splitlines():
            assert len(line) <= width or "/" in line, line


def test_every_number_of_a_table_has_thousands_separators(run: Run, written: Written, tmp_path: Path):
    feed, file = tmp_path / "f", written("large.csv", "x" * 1_234_567)
    run("feed", "publish", feed, file)

    for command in "ls", "files", "latest":
        assert "1,234,567" in run("feed", command, feed).stdout
        assert "1234567" in run("feed", command, feed, "--json").stdout


@pytest.mark.parametrize(
    ("variable", "value", "bold"), [("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False)]
)
def test_a_terminal_that_knows_no_bold_text_gets_none(base: Path, monkeypatch, variable: str, value: str, bold: bool):
    monkeypatch.setattr("feed_assets.cli.output._is_terminal", lambda _: True)
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)

    shown = CliRunner().invoke(main, ["feeds", str(base)], color=True)

    assert shown.exit_code == 0
    assert ("\x1b" in shown.stdout) is bold


def test_quiet_leaves_data_and_errors(run: Run, base: Path):
    feed = base / "clean-ads/v1.0"

    assert run("feed", "tag", feed, "golden", "-p", "2019-11-24").stderr
    assert run("feed", "untag", feed, "golden", "-p", "2019-11-24", "--quiet").stderr == ""
    (base.parent / "nothing").mkdir()
    assert run("feeds", base.parent / "nothing", "-q").stderr == ""
    assert run("feeds", "--quiet").stdout == run("feeds").stdout
    assert "no valid update" in run("feed", "latest", feed, "-p", "2019-12-24", "--quiet", code=3).stderr


def test_a_time_is_iso_8601_or_the_name_of_an_update_wherever_one_is_taken(run: Run, base: Path, monkeypatch):
    feed = base / "clean-ads/v1.0"
    for moment in ("20191201.120000", "2019-12-01T12:00:00", "2019-12-01T13:00:00+01:00", "2019-12-02"):
        shown = run("feed", "latest", feed, "-p", "2019-11-24", "--as-of", moment, "--json")
        assert json.loads(shown.stdout)["update"] == "20191201.120000"
        run("feed", "pin", feed, "-p", "2019-11-24", "--until", moment.replace("2019", "2029"))
        monkeypatch.setenv("FEED_ASSETS_AS_OF", moment)
        run("feeds")
    run("feed", "latest", feed, "-p", "2019-11-24", "--as-of", "2019-12-01T11:59:59", code=3)
    assert "2019-12-01T16:00:00" in run("feed", "latest", feed, "--as-of", "7d", code=2).stderr


@pytest.mark.parametrize("command", [["explain"], ["report", "--date"], ["report", "--from"], ["quarantine"]])
def test_a_day_is_written_in_one_way(run: Run, base: Path, command: list[str]):
    for day in ("20191124", "2019-W47-7", "2019-13-29", "yesterday"):
        assert "give one such as 2019-11-24" in run(*command, day, code=2).stderr
