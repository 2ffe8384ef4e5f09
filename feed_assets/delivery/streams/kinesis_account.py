"""A region of AWS as boto3 knows it: credentials, endpoint, and a client for calls that are rare.

Not here: what is called (`kinesis`).
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import boto3
import urllib3
from botocore.config import Config
from botocore.exceptions import NoCredentialsError

from feed_assets.delivery.streams.signing import Keys

if TYPE_CHECKING:
    from types_boto3_kinesis import KinesisClient

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 10.0
_CONNECTIONS: Final = 64


class Account:
    """Credentials of the environment, for one region. Threads may share it."""

    def __init__(self, region: str, endpoint: str | None) -> None:
        """The endpoint may also come from AWS_ENDPOINT_URL_KINESIS and AWS_ENDPOINT_URL. Raises BotoCoreError."""
        self._region = region
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._connect()

    def _connect(self) -> None:
        session = boto3.Session(region_name=self._region)
        self._credentials = session.get_credentials()
        self.client: KinesisClient = session.client(
            "kinesis",
            endpoint_url=self._endpoint,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 1, "mode": "standard"},  # others are not counted, and take no token
                max_pool_connections=_CONNECTIONS,
            ),
        )

    @property
    def endpoint(self) -> str:
        """The URL of Kinesis."""
        return self.client.meta.endpoint_url

    def keys(self) -> Keys:
        """The credentials of now. boto3 renews those that can be renewed before they are over. Raises BotoCoreError."""
        if self._credentials is None:
            raise NoCredentialsError
        frozen = self._credentials.get_frozen_credentials()
        return Keys(frozen.access_key or "", frozen.secret_key or "", frozen.token)

    def renew(self, over: Keys | None) -> None:
        """Look for new credentials, unless those that are over were replaced already. Raises BotoCoreError."""
        with self._lock:
            if over is None or self.keys() == over:
                self._connect()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def connections(endpoint: str) -> urllib3.HTTPConnectionPool:
    """Kept connections to an endpoint, by the proxy and with the certificates that boto3 would use."""
    parts = urlsplit(endpoint)
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
    found = partial(urllib3.ProxyManager, proxy) if proxy else urllib3.PoolManager
    return found(maxsize=_CONNECTIONS, timeout=timeout, retries=False, ca_certs=bundle).connection_from_url(endpoint)
