"""The private names of other libraries that the package uses: listed with a reason, and each used in one place only.

CONTRIBUTING has the list. Whoever raises one of the versions looks at the names again. The names are found by what they
look like, whatever library has them: see `private_names`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version

import pytest

from feed_assets_tests import ROOT

SEEN_WITH = {"dagster": "1.13", "pyspark": "4.3"}
OWNERS = {
    "SparkSession": "_jsparkSession _jvm _jdf _instantiatedSession _activeSession listenerBus statusStore sqlParser "
    "globalTempViewManager",
    "SparkContext": "_gateway",
    "SparkConf": "_jconf",
    "Column": "_jc",
    "JavaGateway": "_gateway_client",
    "LazyPySparkResource": "_spark_session",
    "RunLauncher": "_instance",
    "SqliteEventLogStorage": "_connect has_table conn_string_for_shard",
    "org.apache.spark.sql.catalyst.expressions": "BloomFilterMightContain TryEval",
    "org.apache.spark.sql.catalyst.expressions.aggregate": "BloomFilterAggregate",
    "org.apache.spark.sql.execution.datasources.parquet": "ParquetToSparkSchemaConverter",
    "AssetCheckExecutionContext": "op_execution_context",
    "JobDefinition": "asset_layer",
    "DagsterInstance": "report_dagster_event event_log_storage delete_instigator_state",
    "StepExecutionContext": "entity_partitions_def resolved_run_config selected_output_names",
    "AssetsDefinition": "input_dict",
    "PartitionBackfill": "get_asset_backfill_data",
}
"""The classes of names. A name without an underscore is found only if it is here: the documentation leaves it out."""
PRIVATE_ATTRIBUTES = {name: owner for owner, names in OWNERS.items() for name in names.split()}
INTERNAL = {"SQLQueryContextLogger", "DataFrameQueryContextLogger", "_spark_metadata"}
DOCUMENTED_MODULES = """
    alembic.config alembic.runtime.migration alembic.script boto3.dynamodb.conditions botocore.config
    botocore.exceptions click.shell_completion
    dagster_aws.pipes dagster_aws.s3 fsspec.asyn fsspec.implementations.http fsspec.implementations.sftp
    matplotlib.axes matplotlib.figure
    prometheus_client.core prometheus_client.registry
    py4j.java_gateway py4j.protocol pyspark.errors pyspark.logger pyspark.sql
    pyspark.sql.datasource pyspark.sql.types redis.backoff redis.exceptions redis.retry
    rich.cells rich.console rich.progress rich.table rich.text snowflake.connector
    snowflake.connector.errors sqlalchemy.engine sqlalchemy.exc sqlalchemy.pool starlette.applications
    starlette.exceptions starlette.requests starlette.responses starlette.routing urllib3.exceptions
"""
"""The modules inside a library that its documentation has."""
DOCUMENTED_JAVA = {
    "org.apache.spark.SparkContext",
    # Values of properties, in Spark's page about clouds.
    "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}
SPARKS = re.compile(r"org\.apache\.spark(\.\w+)+")
DOCUMENTED_ALL_THE_SAME = {"_asdict", "_fields", "_replace", "_value_"}
"""Names of the standard library with an underscore that its documentation has, of enumerations as well."""


def private_names() -> dict[str, set[str]]:
    """Each private name of another library, and the modules of the package that use it."""
    used: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "feed_assets").rglob("*.py"):
        module = str(path.relative_to(ROOT))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in (*imported(tree), *written(tree), *inherited(tree, module)):
            used[name].add(module)
    return used


def imported(tree: ast.AST) -> Iterator[str]:
    """What is imported from a module with a private part, or from one that a library's documentation does not have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and is_foreign(node.module):
            for each in node.names:
                if is_undocumented(node.module) or is_private(each.name):
                    yield f"{node.module}.{each.name}"
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if is_foreign(each.name) and is_undocumented(each.name))


def written(tree: ast.AST) -> Iterator[str]:
    """Private attributes and parameters that the module does not define, and names of private things in texts."""
    own = defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            # `os._exit` is documented.
            standard = isinstance(node.value, ast.Name) and node.value.id in sys.stdlib_module_names
            unknown = is_private(node.attr) and node.attr not in own | DOCUMENTED_ALL_THE_SAME and not standard
            if unknown or (node.attr in PRIVATE_ATTRIBUTES and not is_private(node.attr)):
                yield full(node.attr)
            yield from java_names(dotted(node))
        elif isinstance(node, ast.keyword) and node.arg and is_private(node.arg) and node.arg not in own:
            yield full(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            python = re.fullmatch(r"\w+(\.\w+)+", node.value) and is_foreign(node.value) and "._" in node.value
            if node.value in INTERNAL or (python and importable(node.value)):
                yield node.value
            if SPARKS.fullmatch(node.value) and node.value not in DOCUMENTED_JAVA:
                yield node.value


def inherited(tree: ast.AST, module: str) -> Iterator[str]:
    """Private names that a class shares with a class of a library that it extends."""
    foreign = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        and is_foreign(node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and foreign & {dotted(base).partition(".")[0] for base in node.bases}:
            found = vars(importlib.import_module(module.removesuffix(".py").replace("/", "."))).get(node.name)
            names = {name for name in (*defined(node), *attributes(node)) if is_private(name)}
            yield from (full(name) for name in names if isinstance(found, type) and is_of_a_base(found, name))


def attributes(tree: ast.AST) -> Iterator[str]:
    return (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def is_of_a_base(found: type, name: str) -> bool:
    """Whether a class of a library, which this class extends, has the name, or sets it."""
    for base in found.__mro__:
        if is_foreign(base.__module__):
            known = {*vars(base), *getattr(base, "__annotations__", ()), *(getattr(base, "__private_attributes__", ()))}
            own = {name for each in found.__mro__ if not is_foreign(each.__module__) for name in vars(each)}
            if name in known and not (name in own and base.__module__.startswith("pydantic")):
                return True
            if re.search(rf"\bself\.{name}\b", source(base)):
                return True
    return False


@cache
def source(found: type) -> str:
    """The text of a class; none of one that is written in C."""
    try:
        return inspect.getsource(found)
    except (OSError, TypeError):
        return ""


def defined(tree: ast.AST) -> set[str]:
    """The names that a module, or a class, defines itself: in a scope, or as attributes of its own objects."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"} else set()
    return found


def java_names(chain: str) -> Iterator[str]:
    """The class of Spark's Java that a chain of attributes names, unless it is documented."""
    if match := re.search(r"\borg\.apache\.spark(\.[a-z]\w*)*\.[A-Z]\w*$", chain):
        yield from {match[0]} - DOCUMENTED_JAVA


def dotted(node: ast.AST) -> str:
    """A chain of attributes as a text; "()" stands for a call."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    return node.id if isinstance(node, ast.Name) else "()"


def full(name: str) -> str:
    """The name with its class, if that is known."""
    return f"{PRIVATE_ATTRIBUTES[name]}.{name}" if name in PRIVATE_ATTRIBUTES else name


def is_private(name: str) -> bool:
    return re.match(r"_[A-Za-z]", name) is not None


def is_foreign(module: str) -> bool:
    """Whether this is of another library, and not only of types for a checker."""
    first = module.partition(".")[0]
    return bool(first) and first not in {*sys.stdlib_module_names, "feed_assets"} and not first.startswith("types_")


def is_undocumented(module: str) -> bool:
    return "." in module and module not in DOCUMENTED_MODULES.split()


@cache
def importable(name: str) -> bool:
    """Whether a library that is installed has a module of the first part of this name."""
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def listed() -> set[str]:
    """The names in CONTRIBUTING's table."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("## Private names")[2].partition("\n## ")[0].splitlines()
    return {match[1] for row in rows if (match := re.match(r"\| `([^`]+)` \|", row))}


def test_every_private_name_that_is_used_is_listed_with_its_reason_and_no_other() -> None:
    used = private_names()
    assert {name: sorted(modules) for name, modules in used.items() if name not in listed()} == {}
    assert listed() - set(used) == set()


def test_a_private_name_is_used_in_one_module_only() -> None:
    assert {name: modules for name, modules in private_names().items() if len(modules) > 1} == {}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("client = context.gateway._never_seen", ["_never_seen"]),
        ("conf = SparkConf(_never_seen=1)", ["_never_seen"]),
        ("log._never_seen = 1", ["_never_seen"]),
        ("from uvicorn.protocols.utils import get_client_addr", ["uvicorn.protocols.utils.get_client_addr"]),
        ("from pyspark.sql import _never_seen", ["pyspark.sql._never_seen"]),
        ("import dagster._core.never", ["dagster._core.never"]),
        ("name = 'dagster._core.never'", ["dagster._core.never"]),
        ("java.org.apache.spark.sql.never.Seen.call()", ["org.apache.spark.sql.never.Seen"]),
        ("self._own = 1; print(self._own, os._exit, row._replace(a=1)); from pyspark.sql import Row", []),
    ],
)
def test_a_private_name_is_found_by_what_it_looks_like(code: str, names: list[str]) -> None:
    tree = ast.parse(code)
    assert sorted({*imported(tree), *written(tree)}) == names


def test_the_private_names_were_looked_at_with_the_versions_installed() -> None:
    installed = {name: ".".join(version(name).split(".")[:2]) for name in SEEN_WITH}
    assert installed == SEEN_WITH, "Look at CONTRIBUTING's private names again, then state the version here."
