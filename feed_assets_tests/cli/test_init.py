"""`feed-assets init`, and the module that commands work on: what is chosen, and what is wrong with it."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from runpy import run_path

import pytest
from click.testing import Result

from feed_assets_tests import ROOT

Run = Callable[..., Result]
IGNORED = re.findall(r"^/?([a-z]\w*)/$", (ROOT / "examples/shop/.gitignore").read_text(), re.MULTILINE)
"""Packages of these names would not be committed."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; what commands add to the path of imports ends with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("MODULE", "BASE", "SOURCES", "FIRST_DAY", "LOG_LEVEL"):
        monkeypatch.setenv(f"FEED_ASSETS_{name}", "")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_the_example_is_what_init_writes(run: Run, folder: Path):
    output = run("init", "shop").stdout

    assert "pip install -e ." in output
    assert contents(folder / "shop") == contents(ROOT / "examples" / "shop")
    assert len((folder / "shop/shop/definitions.py").read_text().splitlines()) < 60
    run("init", "my_orders")
    assert not any("shop" in name or "shop" in text for name, text in contents(folder / "my_orders").items())


def test_the_sample_is_of_a_day_that_sensors_process_at_once(run: Run, folder: Path):
    run("init", "shop")

    last_due = run_path(str(folder / "shop/shop/sample.py"))["last_due"]

    assert last_due(datetime(2024, 3, 5, 2, 59, tzinfo=UTC)) == date(2024, 3, 3)
    assert last_due(datetime(2024, 3, 5, 3, tzinfo=UTC)) == date(2024, 3, 4)


def test_the_sample_prints_commands_that_bring_in_all_that_came_on_time(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run("init", "shop")
    monkeypatch.chdir(folder / "shop")
    monkeypatch.setattr(sys, "argv", ["sample", "2024-03-04"])

    run_path("shop/sample.py", run_name="__main__")

    printed = capsys.readouterr().out
    late = {"late-orders.csv", "broken-orders.csv"}
    assert set(re.findall(r" sample/(\S+)", printed)) == {each.name for each in Path("sample").iterdir()} - late
    assert "sample/rates.csv --partition 2024-03-04-12:00" in printed
    assert "2024-03-04T12:00:00Z" in Path("sample/rates.csv").read_text()


def test_a_folder_that_cannot_be_written_is_named(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", mkdir)

    said = run("init", "shop", code=1).stderr

    assert f"{folder}/shop cannot be written (Read-only file system): go to a folder" in " ".join(said.split())


def test_a_project_that_the_disk_takes_only_half_of_leaves_nothing(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write = Path.write_text

    def write_some(path: Path, *arguments: str, **options: str) -> int:
        if path.name == "kinds.py":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", write_some)

    assert "No space left on device" in run("init", "half", code=1).stderr

    assert not (folder / "half").exists()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("My Shop", "use a-z, 0-9 and _ after a letter, such as my_shop"),
        ("class", "cannot name a Python package"),
        ("there", "exists: choose another name"),
        *((name, f".gitignore leaves out {name}/") for name in IGNORED),
        ("dagster", "already has a package dagster"),
    ],
)
def test_a_name_that_does_not_do_is_refused_and_nothing_is_written(run: Run, folder: Path, name: str, part: str):
    (folder / "there").mkdir()

    assert part in " ".join(run("init", name, code=2).stderr.split())
    assert [each.name for each in folder.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("pyproject", "module"),
    [
        ('[tool.dagster]\nmodule_name = "one"', "one"),
        ('[tool.dagster]\nmodules = [{type = "module", name = "two"}]', "two"),
        ('[tool.dg.project]\nroot_module = "three"', "three.definitions"),
        ('[tool.dg.project]\nroot_module = "x"\ncode_location_target_module = "four"', "four"),
    ],
)
def test_the_module_is_the_one_that_pyproject_names_unless_an_option_or_a_variable_does(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, pyproject: str, module: str
):
    (folder / "pyproject.toml").write_text(pyproject)

    assert f"There is no module {module}, " in run("sources", code=1).stderr
    monkeypatch.setenv("FEED_ASSETS_MODULE", "from_the_variable")
    assert "There is no module from_the_variable, " in run("sources", code=1).stderr
    assert "There is no module from_the_option, " in run("-m", "from_the_option", "sources", code=1).stderr


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("print('stdout is for results')", "theirs has no Definitions"),
        ("import dagster as dg\na, b = dg.Definitions(), dg.Definitions()", "several Definitions, a and b"),
        ("import dagster as dg\ndefs = dg.Definitions()", "belong to no project of feed_assets"),
        (
            "import dagster as dg\n@dg.definitions\ndef defs():\n    return 1 / 0",
            "ZeroDivisionError: division by zero (",
        ),
        ("\nimport absent_package", "theirs cannot be loaded: ModuleNotFoundError: No module named 'absent_package' ("),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3 ("),
        ("def broken(", "theirs cannot be loaded: SyntaxError"),
    ],
)
def test_what_is_wrong_with_a_module_is_one_error_without_a_stack_trace(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, content: str, part: str
):
    (folder / "theirs.py").write_text(content)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

    result = run("--module", "theirs", "sources", code=1)
    message = result.stderr

    assert result.stdout == ""
    assert part in message
    assert "Traceback" not in message
    assert "theirs.py" in message or "Definitions" in message or "definitions" in message


def test_debug_shows_where_in_a_library_a_module_failed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "theirs.py").write_text("import json\njson.loads('{')\n")
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

    message = run("--debug", "--module", "theirs", "sources", code=1).stderr

    assert "json/decoder.py" in message
    assert message.splitlines()[-1].startswith("Error: theirs cannot be loaded: JSONDecodeError")


def test_an_asset_in_another_time_zone_than_its_input_is_named_by_every_command(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "sources").mkdir()
    (folder / "theirs.py").write_text(
        """
from datetime import date
from pathlib import Path
import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.project.assembly import Project

project = Project.of(sources=Path("sources"), first_day=date(2024, 1, 1))
feed = StructType([StructField("id", StringType())])

@dg.asset(partitions_def=project.days, metadata=feed_metadata("daily/v1", feed))
def daily(): ...

@dg.asset(
    partitions_def=dg.WeeklyPartitionsDefinition("2024-01-07", timezone="America/New_York"),
    metadata=feed_metadata("weekly/v1", feed),
)
def weekly(daily): ...

defs = project.definitions(assets=[daily, weekly])
"""
    )
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

    for command in (["explain", "2024-01-07"], ["backfill", "--from", "2024-01-07", "--to", "2024-01-07"], ["dev"]):
        message = run("--module", "theirs", *command, code=1).stderr
        assert "from weekly to daily: Timezones UTC and America/New_York don't match. Correct the partitions" in message


def test_a_failed_backfill_of_a_project_without_sources_does_not_miss_raw_data(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "sources").mkdir()
    (folder / "theirs.py").write_text(
        """
from datetime import date
from pathlib import Path
import dagster as dg
from feed_assets.project.assembly import Project

project = Project.of(sources=Path("sources"), first_day=date(2019, 11, 1))

@dg.asset(partitions_def=project.days)
def broken():
    raise ValueError

defs = project.definitions(assets=[broken], resources={"spark": dg.ResourceDefinition.none_resource()})
"""
    )
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

    message = run("--module", "theirs", "backfill", "--from", "2019-11-01", "--to", "2019-11-01", code=1).stderr

    assert "1 of 1 day failed: 2019-11-01" in message
    assert "no raw data" not in message


def test_commands_do_not_repeat_dagsters_remarks_on_features_in_beta(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    mapping = "dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)"
    (folder / "theirs.py").write_text(f"import warnings\nimport dagster as dg\n{mapping}\nwarnings.warn('mine')")
    monkeypatch.delitem(sys.modules, "theirs", raising=False)

    run("--module", "theirs", "sources", code=1)

    assert [str(each.message) for each in recwarn] == ["mine"]


def test_below_a_projects_folder_a_command_says_where_to_go_instead_of_taking_the_example(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "pyproject.toml").write_text('[tool.dagster]\nmodule_name = "theirs"')
    (folder / "sub" / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder / "sub" / "sub")

    assert f"belongs to the project theirs in {folder}: run the command there" in run("sources", code=1).stderr
    (folder / "pyproject.toml").write_text("[tool")  # perhaps of another program
    run("sources")


def test_a_path_is_no_name_of_a_module(run: Run):
    assert "../theirs is no name of a module" in run("--module", "../theirs", "sources", code=1).stderr


def test_a_pyproject_that_cannot_be_read_or_names_several_modules_says_so(run: Run, folder: Path):
    (folder / "pyproject.toml").write_text("[tool")
    assert f"{folder / 'pyproject.toml'} cannot be read" in run("sources", code=1).stderr
    (folder / "pyproject.toml").write_text('[tool.dagster]\nmodules = [{name = "one"}, {name = "two"}]')
    assert "choose one of one, two with --module" in run("sources", code=1).stderr
