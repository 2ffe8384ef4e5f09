"""The map of commands, and how the program prints, pipes and fails."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

import feed_assets
from feed_assets.cli import output
from feed_assets.errors import DATABASE_ERRORS

Run = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
Written = Callable[[str, str], Path]


FROZEN_AT_THE_END = """
import atexit, gc, sys
atexit.register(lambda: print("frozen at the end:", gc.get_freeze_count() > 0))  # the first one runs last
import {loaded}
from feed_assets.cli.main import main
main(["feeds", "--help"])
"""


@pytest.mark.parametrize(("loaded", "frozen"), [("dagster", True), ("duckdb", False)])
def test_a_command_ends_without_looking_for_garbage_unless_a_library_would_complain(loaded: str, *, frozen: bool):
    script = FROZEN_AT_THE_END.format(loaded=loaded)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"frozen at the end: {frozen}\n")
    assert done.stderr == ""


def test_help_is_the_map_of_all_commands(run: Run):
    shown = run("--help").stdout
    for command in ("demo", "land", "backfill", "report", "explain", "feed"):
        assert f"\n  {command} " in shown
    shown = run("feed", "--help").stdout
    for command in [
        "ls",
        "latest",
        "files",
        "verify",
        "invalidate",
        "publish",
        "tag",
        "untag",
        "pin",
        "unpin",
        "diff",
        "gc",
    ]:
        assert f"\n  {command} " in shown


def test_a_project_brings_commands_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shop = tmp_path / "corner_shop"
    shop.mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.dagster]\nmodule_name = "corner_shop.definitions"\n')
    (shop / "__init__.py").touch()
    (shop / "greeting.py").write_text(
        "import click\nhello = click.Command('hello', callback=lambda: click.echo('Hi'))\n"
    )

    def program(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "feed_assets.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "Commands of" not in program("--help").stdout
    place = "corner_shop.greeting:hello"
    (shop / "commands.py").write_text(f"COMMANDS = {{'hello': ({place!r}, 'Greet.'), 'land': ({place!r}, 'Greet.')}}\n")
    assert program("--help").stdout.partition("\nCommands of corner_shop.definitions:\n")[2].split()[:2] == [
        "hello",
        "Greet.",
    ]
    assert program("hello").stdout == "Hi\n"
    assert "SOURCE" in program("land", "--help").stdout  # a project replaces no command of every project
    (tmp_path / "pyproject.toml").rename(tmp_path / "kept")
    assert "Commands of corner_shop.definitions" in program("-m", "corner_shop.definitions", "--help").stdout
    (tmp_path / "kept").rename(tmp_path / "pyproject.toml")
    unknown = program("report")
    assert (unknown.returncode, "No such command 'report'" in unknown.stderr) == (2, True)

    (shop / "commands.py").write_text("COMMANDS = {'hello': ('corner_shop.greeting:nothing', 'Greet.')}\n")
    no_command = program("hello")
    assert (no_command.returncode, "corner_shop.greeting:nothing is no command" in no_command.stderr) == (1, True)
    (shop / "commands.py").write_text("COMMANDS = 7\n")
    unreadable = program("feeds", "--help")
    assert (unreadable.returncode, "Usage" in unreadable.stdout) == (0, True)
    assert "corner_shop.commands cannot be read" in program("--help").stderr


@pytest.mark.parametrize(
    "group", ["receive", "receive tokens", "poll", "sources", "warehouse", "catalog", "deliver", "feed"]
)
def test_on_80_columns_no_line_of_a_list_of_commands_is_cut(run: Run, group: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(*group.split(), "--help").stdout.partition("\nCommands:\n")[2]
    assert listed
    assert "..." not in listed


def test_the_usage_of_explain_says_that_it_needs_no_date(run: Run):
    assert run("explain", "--help").stdout.startswith("Usage: main explain [OPTIONS] [DATE]\n")


def test_a_look_at_a_feed_loads_nothing_heavy(tmp_path: Path):
    heavy = {"dagster", "pyspark", "boto3", "duckdb", "pydantic", "rich.console", "rich.table"}  # rich.cells is light
    script = (
        "import sys; from feed_assets.cli.main import main; main(sys.argv[1:], standalone_mode=False); "
        f"print(sorted({heavy} & sys.modules.keys()))"
    )
    for arguments in (["feed", "ls", str(tmp_path)], ["--help"]):
        shown = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
        assert shown.stdout.splitlines()[-1] == "[]"


def test_errors_for_users_have_one_root_and_the_others_end_inside_the_package():
    inside = {
        "AmbiguousError", "BadSignatureError", "BodyError", "CorrectionError", "FieldProblemsError", "HungUpError",
        "LeaseLostError", "LostShardError",
        "MailError", "MovedError", "NotSentError", "NotTakenError", "SessionSettingsError", "StillComparingError",
        "StoppedError", "TooLargeError", "TooMuchHeldError", "UnavailableError", "UnnamedColumnsError", "PayloadError",
        "UnsupportedError", "_LargeHeadError", "_MoreCameError", "_MovedError", "_OtherError",
        "_WrongAnswerError", "_WrongError",
    }  # fmt: skip
    roots = set()
    for file in Path(feed_assets.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            bases = {each.id for each in getattr(node, "bases", ()) if isinstance(each, ast.Name)}
            if bases & {"Exception", "RuntimeError"} or bases in ({"ValueError"}, {"LookupError"}):
                roots.add(node.name)

    assert roots - inside == {"FeedAssetsError"}
    for name in DATABASE_ERRORS:
        module, _, attribute = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), attribute), Exception)


def test_through_a_pipe_there_are_no_escape_codes_and_only_data_on_stdout(
    program: Program, written: Written, tmp_path: Path
):
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    published = program("feed", "publish", tmp_path / "f", written("a.csv", "x\n"), environment=forced)
    assert (published.returncode, published.stderr) == (0, "")
    for command in ("latest", "ls", "files", "verify", "gc"):
        shown = program("feed", command, tmp_path / "f", environment=forced)
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "╭" not in shown.stdout
    result = program("feed", "tag", tmp_path / "f", "golden")
    assert (result.returncode, result.stdout) == (0, "")
    assert "golden" in result.stderr


def test_exit_codes_of_the_program_are_those_of_the_commands(program: Program, tmp_path: Path):
    nothing = program("feed", "latest", tmp_path / "f", "--json")
    assert (nothing.returncode, nothing.stdout) == (3, "")
    assert "no valid update" in nothing.stderr
    assert program("feed", "latest").returncode == 2
    assert program("feed", "latest", tmp_path, "--as-of", "noon").returncode == 2


def test_a_reader_that_closes_the_pipe_early_sees_no_trace_and_the_exit_code_stays(
    program: Program, written: Written, tmp_path: Path
):
    program("feed", "publish", tmp_path / "f", *(written(f"{number:04}.csv", "x\n") for number in range(200)))

    def read_by(reader: str, arguments: str) -> tuple[list[str], str]:
        command = f"{sys.executable} -m feed_assets.cli {arguments} | {reader}; echo ${{PIPESTATUS[0]}}"
        shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        return shown.stdout.split(), shown.stderr

    assert read_by("head -n 1", f"feed files {tmp_path / 'f'}") == (["path", "bytes", "uri", "0"], "")
    assert read_by("true", f"feed files {tmp_path / 'f'}") == (["0"], "")
    assert read_by("true", f"feed latest {tmp_path / 'g'} 2>&1") == (["3"], "")


def test_a_command_whose_reader_leaves_goes_on_to_its_end(written: Written, tmp_path: Path):
    file = written("a.csv", "x\n")
    command = [sys.executable, "-m", "feed_assets.cli", "feed", "publish", str(tmp_path / "f"), str(file)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "f").rglob("_SUCCESS"))) == 1


def test_a_closed_stdout_is_an_error_before_anything_is_done(written: Written, tmp_path: Path):
    command = f"{sys.executable} -m feed_assets.cli feed publish {tmp_path / 'f'} {written('a.csv', 'x')} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "Error: Standard output is closed. To drop what is printed, send it to /dev/null.\n"
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("arguments", ["--help", "--version", "feed --help", "feeds ."])
def test_a_full_disk_behind_stdout_is_an_error_without_a_trace(
    arguments: str, run: Run, tmp_path: Path, written: Written
):
    run("feed", "publish", tmp_path / "f", written("a.csv", "x\n"))
    command = [sys.executable, "-m", "feed_assets.cli", *arguments.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: No space left on device: free some on ")
    assert "the file that the output goes to" in done.stderr
    assert done.stderr.count("\n") == 1


def test_several_problems_in_one_message_stand_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]):
    output.complain("two problems:\n  first\n  \x1b[2J")
    output.print_text("one\ntwo")

    assert capsys.readouterr() == ("one\ntwo\n", "two problems:\n  first\n  \\x1b[2J\n")


def test_an_error_is_broken_at_spaces_on_a_narrow_terminal(
    program_on: Callable[[int, str, str, Path], str], tmp_path: Path
):
    shown = program_on(40, "feed", "latest", tmp_path)

    assert shown.startswith("Error:")
    assert [line for line in shown.splitlines() if len(line) > 40 and " " in line] == []


def test_names_that_would_move_the_cursor_are_printed_escaped(run: Run, tmp_path: Path):
    update = tmp_path / "f" / "20191201.000000"
    update.mkdir(parents=True)
    (update / "\x1b[2Ja\nb é.csv").write_text("")
    (update / b"\xff.csv".decode(errors="surrogateescape")).write_text("")
    (update / "_SUCCESS").write_text("2")
    shown = run("feed", "files", tmp_path / "f").stdout
    assert "\\x1b[2Ja\\nb é.csv" in shown
    assert "\\udcff.csv" in shown
    assert "\x1b" not in shown
    assert len(json.loads(run("feed", "files", tmp_path / "f", "--json").stdout)) == 2


def test_on_a_terminal_the_header_is_bold_and_no_color_is_respected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.print_table(("name", "n"), [("[red]a", 1)], empty="")
    shown = capsys.readouterr().out
    assert "[red]a" in shown
    assert shown.startswith("\x1b[1mname")
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_table(("name", "n"), [("a", 1)], empty="")
    assert "\x1b" not in capsys.readouterr().out


def test_a_title_is_broken_at_spaces_and_bold_on_a_terminal_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    title = "The missing tenth arrives days late"
    output.print_title(title)
    shown = capsys.readouterr().out
    assert click.unstyle(shown).splitlines() == ["", "The missing tenth arrives days", "late"]
    assert shown.count("\x1b[1m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_title(title)
    assert "\x1b" not in capsys.readouterr().out


def test_on_a_terminal_of_80_columns_the_names_of_updates_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    header = ("partition", "update", "state", "files", "bytes", "held", "why")
    why = "invalidated by someone: the partner has sent the wrong file for this day"
    output.print_table(
        header,
        [
            ("2019-11-29", "20991231.000000 *", "valid", 12, 123456789, "golden, pinned by a reader", ""),
            ("2019-11-29", "20191231.000000", "invalidated", 12, 123456789, "", why),
        ],
        empty="",
    )
    shown = click.unstyle(capsys.readouterr().out)
    assert "20991231.000000 *" in shown
    assert shown.count("2019-11-29") == 2
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_name_too_long_for_a_line_is_folded_and_not_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    output.print_table(("partition", "why"), [("x" * 100, "y")], empty="")
    assert capsys.readouterr().out.count("x") == 100


def test_a_closed_stdout_is_no_reason_for_a_trace(program: Program, written: Written, tmp_path: Path):
    program("feed", "publish", tmp_path / "f", written("a.csv", "x\n"))
    for arguments in ("feed ls", "feed latest", "feed ls --json"):
        command = f"{sys.executable} -m feed_assets.cli {arguments} {tmp_path / 'f'} >&-"
        shown = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert "Traceback" not in shown.stderr
