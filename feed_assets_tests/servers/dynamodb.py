"""DynamoDB Local: Amazon's own server of DynamoDB, in memory.

Here: where its jars come from, and how it is started. Maven fetches them once. The server by itself listens on all
addresses: so it is made through Py4J, which can give it another one, and ends with the process that started it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from feed_assets.engine.java import JavaError, ensure_java
from feed_assets_tests.listening import free_port
from feed_assets_tests.servers.server import MissingServerError, done, kept

VERSION = "2.6.1"
POM = f"""\
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies><dependency><groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>
"""


def jars() -> Path:
    """The directory with the server's jars and its native library. Raises MissingServerError."""
    with kept(f"dynamodb-local-{VERSION}") as place:
        if not (place / "jars").exists():
            (place / "pom.xml").write_text(POM, encoding="utf-8")
            # First beside its place: a fetch that is interrupted leaves nothing.
            goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={place / 'fetching'}"]
            done(["mvn", "-q", "-B", "-f", str(place / "pom.xml"), *goal])
            (place / "fetching").rename(place / "jars")
        return place / "jars"


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """The endpoint of a server on 127.0.0.1, without a table. Raises MissingServerError."""
    folder = jars()
    try:
        java = ensure_java() / "bin" / "java"
    except JavaError as error:
        raise MissingServerError(str(error)) from None
    import pyspark  # noqa: PLC0415 - has the jar of Py4J

    (py4j,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{folder}/*",
        javaopts=[f"-Djava.library.path={folder}", "-XX:TieredStopAtLevel=1"],
        java_path=str(java),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        jvm, listening = gateway.jvm, free_port()
        options = gateway.new_array(jvm.java.lang.String, 4)
        for index, option in enumerate(("-inMemory", "-disableTelemetry", "-port", str(listening))):
            options[index] = option
        made = jvm.com.amazonaws.services.dynamodbv2.local.main.ServerRunner.createServerFromCommandLineArgs(options)
        server = made.getClass().getDeclaredField("server")
        server.setAccessible(True)
        for connector in server.get(made).getConnectors():
            connector.setHost("127.0.0.1")
        made.start()
        yield f"http://127.0.0.1:{listening}"
    finally:
        gateway.shutdown()
