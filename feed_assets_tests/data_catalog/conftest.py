"""Databases of Glue, emulated by moto, each new; and the requests that reach them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
import pytest

from feed_assets.data_catalog.glue import GlueCatalog

if TYPE_CHECKING:
    from types_boto3_glue import GlueClient


@pytest.fixture
def glue(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[GlueClient]:
    """A client of the emulator, which the environment names, too."""
    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("glue")
    yield client
    client.close()


@pytest.fixture
def requests(glue: GlueClient) -> Counter[str]:
    """How many requests of each kind the client has sent."""
    sent: Counter[str] = Counter()
    glue.meta.events.register("before-send.glue", lambda event_name, **_: sent.update([event_name.rpartition(".")[2]]))
    return sent


@pytest.fixture
def catalog(glue: GlueClient) -> GlueCatalog:
    """A database that does not exist yet."""
    return GlueCatalog(f"ads_{uuid4().hex}", lambda: glue)
