"""The private names of Dagster and Spark that the package uses: listed with a reason, and each used in one place only.

CONTRIBUTING has the list. Whoever raises one of the versions looks at the names again.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEN_WITH = {"dagster": "1.13", "pyspark": "4.3"}
OWNERS = {
    "SparkSession": "_jsparkSession _jvm _jsc _jdf _jmap _instantiatedSession _activeSession listenerBus statusStore "
    "sqlParser globalTempViewManager",
    "SparkContext": "_gateway",
    "Column": "_jc",
    "org.apache.spark.sql.catalyst.expressions": "BloomFilterAggregate BloomFilterMightContain TryEval",
    "org.apache.spark.sql.classic": "ExpressionUtils",
    "org.apache.spark.sql.execution.datasources.parquet": "ParquetToSparkSchemaConverter",
    "AssetCheckExecutionContext": "op_execution_context",
    "JobDefinition": "asset_layer",
    "DagsterInstance": "report_dagster_event event_log_storage delete_instigator_state",
    "StepExecutionContext": "entity_partitions_def resolved_run_config selected_output_names",
    "AssetsDefinition": "input_dict",
    "PartitionBackfill": "get_asset_backfill_data",
}
PRIVATE_ATTRIBUTES = {name: owner for owner, names in OWNERS.items() for name in names.split()}
INTERNAL = {
    "pyspark.core.context",
    "pyspark.sql.classic.column",
    "org.apache.spark.sql.catalyst",
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "_spark_metadata",
}
LIBRARIES = ("dagster", "dagster_pyspark", "dagster_aws", "pyspark", "py4j")


def private_names() -> dict[str, set[str]]:
    """Each private name, and the modules of the package that use it."""
    used: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "feed_assets").rglob("*.py"):
        module = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and is_private(node.module or ""):
                for each in node.names:
                    used[f"{node.module}.{each.name}"].add(module)
            elif isinstance(node, ast.Attribute) and node.attr in PRIVATE_ATTRIBUTES:
                used[f"{PRIVATE_ATTRIBUTES[node.attr]}.{node.attr}"].add(module)
            elif isinstance(node, ast.Import):
                for each in node.names:
                    if is_private(each.name):
                        used[each.name].add(module)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_private(node.value):
                used[node.value].add(module)
    return used


def is_private(name: str) -> bool:
    """Whether this is `INTERNAL`, or a dotted name of a library with a part that begins with an underscore."""
    return name in INTERNAL or (
        re.fullmatch(r"\w+(\.\w+)+", name) is not None and name.split(".", maxsplit=1)[0] in LIBRARIES and "._" in name
    )


def listed() -> set[str]:
    """The names in CONTRIBUTING's table."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("## Private names")[2].partition("\n## ")[0].splitlines()
    return {match[1] for row in rows if (match := re.match(r"\| `([^`]+)` \|", row))}


def test_every_private_name_that_is_used_is_listed_with_its_reason_and_no_other() -> None:
    assert listed() == set(private_names())


def test_a_private_name_is_used_in_one_module_only() -> None:
    assert {name: modules for name, modules in private_names().items() if len(modules) > 1} == {}


def test_the_private_names_were_looked_at_with_the_versions_installed() -> None:
    installed = {name: ".".join(version(name).split(".")[:2]) for name in SEEN_WITH}
    assert installed == SEEN_WITH, "Look at CONTRIBUTING's private names again, then state the version here."
