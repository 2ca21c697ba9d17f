package io.cleancut.objectstore

import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.{S3Server, VersityGateway}

/** The S3 client on versitygw, on which the whole queries with kills run. */
class VersityGatewaySuite extends S3ServerContract(Dialect.Generic) {
  override protected def start(): S3Server = VersityGateway.start()
}
