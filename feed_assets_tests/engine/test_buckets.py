import pwd

import boto3
import pytest
from botocore.config import Config

from feed_assets.engine import buckets
from feed_assets.engine.buckets import JarsError, bucket_jars, bucket_settings
from feed_assets.engine.paths import to_read, to_write

ENDPOINT, STYLE = "fs.s3a.endpoint", "fs.s3a.path.style.access"
REGION = "fs.s3a.endpoint.region"


@pytest.fixture(autouse=True)
def jars(tmp_path, monkeypatch):
    (tmp_path / "hadoop-aws.jar").touch()
    monkeypatch.setenv("FEED_ASSETS_SPARK_JARS", str(tmp_path))
    return tmp_path


def client(region="eu-central-1", **more):
    return boto3.client("s3", region_name=region, aws_access_key_id="an-id", aws_secret_access_key="a-secret", **more)


def test_spark_uses_the_stores_endpoint_in_the_style_that_boto3_uses():
    found = bucket_settings(client(endpoint_url="http://127.0.0.1:7480"))
    virtual = bucket_settings(
        client(endpoint_url="http://store.test", config=Config(s3={"addressing_style": "virtual"}))
    )

    assert (found[ENDPOINT], found[STYLE], found[REGION]) == ("http://127.0.0.1:7480", "true", "eu-central-1")
    assert (virtual[ENDPOINT], virtual[STYLE]) == ("http://store.test", "false")


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "cn-north-1"])
def test_for_aws_itself_the_region_says_where_the_bucket_is(region):
    found = bucket_settings(client(region))

    assert found[REGION] == region
    assert ENDPOINT not in found


@pytest.mark.parametrize("fips", ["true", "false"])
def test_spark_uses_the_fips_endpoints_of_aws_if_boto3_does(monkeypatch, fips):
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)

    assert bucket_settings(client("us-gov-west-1"))["fs.s3a.endpoint.fips"] == fips


def test_no_credential_is_in_sparks_configuration():
    found = " ".join(bucket_settings(client(endpoint_url="http://127.0.0.1:7480")).values())

    assert "an-id" not in found
    assert "a-secret" not in found


def test_the_named_directorys_jars_are_used(jars):
    assert bucket_jars() == [jars / "hadoop-aws.jar"]


def test_a_named_directory_without_jars_is_an_error_that_says_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_SPARK_JARS", str(tmp_path / "nothing"))

    with pytest.raises(JarsError, match=r"no jar is there\. On a machine that reaches Maven's repository"):
        bucket_jars()


@pytest.mark.slow
def test_a_machine_without_a_registry_is_told_what_is_missing_and_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("FEED_ASSETS_SPARK_JARS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(buckets, "_COMMITTERS", "test.nobody:has-this:1")
    settings = tmp_path / "ivy.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='none'/><resolvers><filesystem name='none'>"
        f"<artifact pattern='{tmp_path}/[artifact].[ext]'/></filesystem></resolvers></ivysettings>"
    )
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.ivySettings {settings}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    with pytest.raises(JarsError, match=r"(?s)cannot be fetched: .*not found.*set FEED_ASSETS_SPARK_JARS"):
        bucket_jars()

    assert list((tmp_path / "cache" / "feed_assets").iterdir()) == []


@pytest.mark.parametrize("home", [None, "file"])
def test_a_user_whose_cache_cannot_be_written_is_told_what_to_set(tmp_path, monkeypatch, home):
    def nobody(_):
        raise KeyError

    for variable in ("FEED_ASSETS_SPARK_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    if home:
        (tmp_path / home).touch()
        monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    with pytest.raises(JarsError, match=r"cannot be kept .*Set XDG_CACHE_HOME .*or FEED_ASSETS_SPARK_JARS"):
        bucket_jars()


@pytest.mark.parametrize(
    ("uri", "written", "read"),
    [
        ("s3://bucket/a b/%20[x]*.parquet", "s3a://bucket/a b/%20[x]*.parquet", r"s3a://bucket/a b/%20\[x\]\*.parquet"),
        ("file:///a%20b/%5Bx%5D.parquet", "file:///a b/[x].parquet", r"file:///a b/\[x\].parquet"),
    ],
)
def test_a_uri_becomes_hadoops_path_of_exactly_this_object(uri, written, read):
    assert (to_write(uri), to_read(uri)) == (written, read)
