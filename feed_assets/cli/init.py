"""`feed-assets init`: write an example project to start from.

Here: the command. Not here: the files, which are those of `examples/shop` (`feed_assets/template`).
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
from pathlib import Path

import click

from feed_assets.cli.output import print_text

TEMPLATE = Path(__file__).parents[1] / "template"
PACKAGE = "shop"
"""The package of the template. Some files name it, as no relative import is possible there."""
NOT_COPIED = re.compile(r"__pycache__|\.venv|build|.*\.egg-info|data|sample|\.dagster")


class PackageName(click.ParamType[str]):
    """A name for a new Python package."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the name."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*", value) or keyword.iskeyword(value):
            like = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
            hint = f", such as {like}" if like.isidentifier() and not keyword.iskeyword(like) else ""
            self.fail(f"{value!r} cannot name a Python package: use a-z, 0-9 and _ after a letter{hint}.", param, ctx)
        if NOT_COPIED.fullmatch(value):
            self.fail(f"The project's .gitignore leaves out {value}/: choose another name.", param, ctx)
        if Path(value).exists():
            self.fail(f"{Path(value).absolute()} exists: choose another name, or another folder.", param, ctx)
        if importlib.util.find_spec(value) is not None:
            self.fail(f"This environment already has a package {value}: choose another name.", param, ctx)
        return value


@click.command()
@click.argument("name", type=PackageName())
def init(name: str) -> None:
    """Write a Dagster project into the new folder NAME. Its Python package is called NAME, too.

    The project cleans orders and refunds. It has audits, sensors and sample deliveries. Change it into your own.
    """
    try:
        _copy_template(name)
    except OSError as error:
        message = f"{Path(name).absolute()} cannot be written ({error.strerror}): go to a folder of your own."
        raise click.ClickException(message) from None
    print_text(f"{Path(name).absolute()} is a project to start from. Next:")
    sample = f"python -m {name}.sample"
    for line in (
        f"cd {name}",
        "pip install -e .",
        f"{sample}  # then type the commands that it prints",
        "feed-assets dev",
    ):
        print_text(f"  {line}")
    print_text("Its README.md explains each step, and which file to change.")


def _copy_template(name: str) -> None:
    """Write the project into a new folder. If that fails, no folder is left, as the next call would refuse the name."""
    Path(name).mkdir()
    try:
        _copy_files(name)
    except OSError:
        shutil.rmtree(name, ignore_errors=True)
        raise


def _copy_files(name: str) -> None:
    for path in sorted(TEMPLATE.rglob("*")):
        parts = path.relative_to(TEMPLATE).parts
        if path.is_dir() or any(NOT_COPIED.fullmatch(part) for part in parts):
            continue
        target = Path(name, *(name if part == PACKAGE else part for part in parts))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(re.sub(rf"\b{PACKAGE}\b", name, path.read_text(encoding="utf-8")), encoding="utf-8")
