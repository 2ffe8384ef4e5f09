"""What the API and the command line say of a dataset whose members have rules of their own."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from feed_assets.dependencies.http.answers import MIXED, dataset_says
from feed_assets.sensors.raw_facts import raw_datasets
from feed_assets.sources.complete_spec import Complete
from feed_assets_tests.late_data.late_world import source

WITNESS = "counts/{yyyy}-{mm}-{dd}.csv"
COUNTED = Complete(witness=WITNESS, threshold_percent=Decimal(99))


@pytest.mark.parametrize(
    ("others", "basis", "threshold"), [((), "counted", 99_000), (("other",), MIXED, 99_995)], ids=["one", "two"]
)
def test_raw_data_that_is_counted_says_so_and_names_who_counts(others, basis, threshold):
    sources = [source("one").model_copy(update={"complete": COUNTED}), *map(source, others)]
    (declared,) = raw_datasets(sources, date(2020, 3, 1))

    says = dataset_says(declared, flow=None, reads=())

    assert (says.basis, says.witnesses, says.threshold) == (basis, [WITNESS], threshold)
