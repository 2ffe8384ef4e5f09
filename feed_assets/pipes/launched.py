"""Definitions whose steps run as Spark jobs: the same assets and checks, computed and audited elsewhere.

Here: the definitions of Dagster's side. Not here: a single job (`jobs`), and ways to start it (`launchers`).
"""

from collections.abc import Collection, Iterable, Iterator

import dagster as dg
from dagster_pipes import PipesContext

from feed_assets.checks.asset_checks import audit_name
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.pipes.jobs import LAUNCHER, Result, run_job
from feed_assets.pipes.launchers import Launcher
from feed_assets.project.assembly import PROJECT


def launched(
    definitions: dg.Definitions, launcher: Launcher, *, module: str, assets: Collection[str] | None = None
) -> dg.Definitions:
    """The same definitions, with feeds that are computed and audited by jobs of this launcher.

    A step of Dagster starts one job, for all its partitions. `module` is the module of these definitions (`__name__`):
    the job imports it, and gets the definitions as they were given. `assets` are names; by default all feeds that are
    computed here. Checks other than their audits run as before. Raises DagsterInvalidDefinitionError for another name,
    or for definitions of no project.
    """
    if PipesContext.is_initialized():
        return definitions  # this is the job
    resources, checks = definitions.resources or {}, definitions.asset_checks or ()
    if PROJECT not in resources:
        raise dg.DagsterInvalidDefinitionError("`launched` takes the definitions of a project: `project.definitions`.")
    feeds = {
        spec.key.to_user_string(): asset
        for asset in definitions.assets or ()
        if isinstance(asset, dg.AssetsDefinition)
        for spec in asset.specs
        if declared_feed(spec.metadata) is not None
    }
    chosen = feeds.keys() if assets is None else set(assets)
    if unknown := sorted(chosen - feeds.keys()):
        raise dg.DagsterInvalidDefinitionError(
            f"{', '.join(unknown)}: no feed of these names is computed here. `launched` takes {', '.join(feeds)}."
        )
    audits = {
        asset: [
            each
            for each in checks
            if isinstance(each, dg.AssetChecksDefinition) and each.node_def.name in map(audit_name, asset.keys)
        ]
        for asset in {feeds[name] for name in chosen}
    }
    moved = {each for of_asset in audits.values() for each in of_asset}
    return dg.Definitions(
        assets=[
            _launched(each, audits[each], module) if isinstance(each, dg.AssetsDefinition) and each in audits else each
            for each in definitions.assets or ()
        ],
        asset_checks=[each for each in checks if each not in moved],
        schedules=definitions.schedules,
        sensors=definitions.sensors,
        jobs=definitions.jobs,
        resources={**resources, LAUNCHER: launcher},
        executor=definitions.executor,
        loggers=definitions.loggers,
        metadata=definitions.metadata,
    )


def _launched(
    asset: dg.AssetsDefinition, audits: Iterable[dg.AssetChecksDefinition], module: str
) -> dg.AssetsDefinition:
    """The asset and its audit in one step, whose inputs and outputs Dagster neither loads nor stores."""
    specs, op = {spec.key: spec for spec in asset.specs}, asset.op
    # A run configures them as it does without jobs.
    resources = {*op.required_resource_keys, *(name for audit in audits for name in audit.required_resource_keys)}

    @dg.multi_asset(
        name=op.name,
        ins={
            name: dg.AssetIn(
                key,
                metadata=op.ins[name].metadata,
                partition_mapping=asset.get_partition_mapping(key),
                dagster_type=dg.Nothing,
            )
            for name, key in asset.keys_by_input_name.items()
        },
        outs={
            name: dg.AssetOut(key=key, dagster_type=dg.Nothing, is_required=False)
            for name, key in asset.keys_by_output_name.items()
        },
        check_specs=[spec for audit in audits for spec in audit.check_specs],
        can_subset=True,
        partitions_def=asset.partitions_def,
        backfill_policy=asset.backfill_policy,
        config_schema=getattr(op.config_schema.config_type, "fields", None),
        required_resource_keys={*resources, LAUNCHER, PROJECT, "blackboard", "clock"},
        retry_policy=op.retry_policy,
        op_tags=op.tags,
        pool=op.pool,
    )
    def compute(context: dg.AssetExecutionContext) -> Iterator[Result]:
        yield from run_job(context, module, resources)

    return compute.map_asset_specs(lambda spec: specs[spec.key])
