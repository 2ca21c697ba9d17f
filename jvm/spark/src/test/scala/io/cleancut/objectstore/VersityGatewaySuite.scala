package io.cleancut.objectstore

import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.{S3Server, VersityGateway}

/** The S3 client on versitygw, which the queries with killed drivers use. */
class VersityGatewaySuite extends S3ServerContract(Dialect.Generic) {
  override protected def start(): S3Server = VersityGateway.start()
}
