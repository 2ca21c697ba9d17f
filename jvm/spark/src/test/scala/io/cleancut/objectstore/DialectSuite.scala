package io.cleancut.objectstore

import java.net.URI

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.conf.ObjectStoreSettings
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.locations.ObjectStores
import io.cleancut.objectstore.s3.{Dialect, S3Connection}

class DialectSuite extends AnyFunSuite {
  private def connection(environment: (String, String)*)(
      change: ObjectStoreSettings => ObjectStoreSettings
  ) = S3Connection.of(change(ObjectStoreSettings.Default), environment.toMap)

  private def at(endpoint: String) = connection()(_.copy(endpoint = Some(endpoint)))

  Seq(
    "https://s3.eu-west-1.amazonaws.com" -> Dialect.Aws,
    "https://s3.cn-north-1.amazonaws.com.cn" -> Dialect.Aws,
    "https://account.r2.cloudflarestorage.com" -> Dialect.R2,
    "https://ACCOUNT.eu.R2.cloudflarestorage.com" -> Dialect.R2,
    "https://r2.cloudflarestorage.com.example.org" -> Dialect.Generic,
    "https://notamazonaws.com" -> Dialect.Generic,
    "http://127.0.0.1:9000" -> Dialect.Generic
  ).foreach { case (endpoint, dialect) =>
    test(s"the store at $endpoint has the dialect $dialect") {
      assert(at(endpoint).dialect == dialect)
    }
  }

  test("without an endpoint the dialect is AWS, and the SDK determines the region") {
    assert(connection()(identity) == S3Connection(Dialect.Aws, None, None, pathStyle = false))
  }

  test("requests to R2 are signed for its region, whatever the environment") {
    val r2 = connection("AWS_REGION" -> "eu-west-1")(
      _.copy(endpoint = Some("https://a.r2.cloudflarestorage.com"))
    )
    assert(r2.region.contains("auto") && r2.pathStyle)
  }

  test("requests to other stores are signed for the region of the environment, if any") {
    val store = (environment: Seq[(String, String)]) =>
      connection(environment: _*)(_.copy(endpoint = Some("http://127.0.0.1:1"))).region
    assert(store(Nil).contains("us-east-1"))
    assert(store(Seq("AWS_REGION" -> "eu-west-1")).contains("eu-west-1"))
    assert(store(Seq("AWS_REGION" -> "", "AWS_DEFAULT_REGION" -> "x")).contains("x"))
  }

  test("an endpoint in the environment has the effect of a configured one") {
    val url = "http://127.0.0.1:9000"
    val fromEnvironment =
      connection("AWS_ENDPOINT_URL" -> "http://other", "AWS_ENDPOINT_URL_S3" -> url)(
        identity
      )
    assert(
      fromEnvironment.endpoint.contains(
        URI.create(url)
      ) && fromEnvironment.dialect == Dialect.Generic
    )
  }

  test("configuration overrides the settings derived from the endpoint") {
    val configured = connection()(
      _.copy(
        endpoint = Some("http://127.0.0.1:9000"),
        dialect = Some("r2"),
        region = Some("eu"),
        pathStyle = Some(false)
      )
    )
    assert(
      configured.dialect == Dialect.R2 && configured.region.contains("eu") && !configured.pathStyle
    )
  }

  test("without a region the store is refused, and the error names the key to set") {
    val nowhere = Map(
      "aws.disableEc2Metadata" -> "true",
      "aws.sharedCredentialsFile" -> "/nowhere",
      "aws.configFile" -> "/nowhere"
    )
    nowhere.foreach { case (name, value) => System.setProperty(name, value) }
    val settings = ObjectStoreSettings.Default
    try {
      val thrown = intercept[CleancutException](
        ObjectStores.open("s3://bucket/q", settings, fail("no file system"), Clock.System)
      )
      assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
      assert(thrown.getMessage.contains("stateStore.cleancut.s3.region"))
      assert(thrown.getMessage.length < 700 && thrown.getCause != null)
    } finally nowhere.keys.foreach(System.clearProperty)
  }

  test("a location consists of a bucket and a path") {
    assert(BucketPath.parse("s3://bucket/a/b/") == BucketPath("bucket", "a/b/"))
    assert(BucketPath.parse("s3://bucket") == BucketPath("bucket", ""))
    assert(BucketPath.parse("s3://bucket/").fullName(ObjectKey("k")) == "k")
    assert(BucketPath.parse("s3://bucket/a").toString == "s3://bucket/a")
  }

  Seq("s3:///q", "s3://b/q", "s3://bucket/a//b", "s3://bucket/../b", "s3a://bucket/q").foreach {
    text =>
      test(s"$text is not a valid location") {
        val thrown = intercept[CleancutException](BucketPath.parse(text))
        assert(thrown.errorId == "CLEANCUT_OBJECT_LOCATION_INVALID")
        assert(thrown.getMessage.contains(text))
      }
  }

  Seq("", "/a", "a/", "a//b", ".", "a/..", "a\nb", "a" * 1025).foreach { name =>
    test(s"'${name.take(20)}' is not a valid object name") {
      intercept[IllegalArgumentException](ObjectKey(name))
    }
  }
}
