package io.cleancut.objectstore

import io.cleancut.objectstore.s3.{Dialect, RetryPolicy}
import io.cleancut.testkit.{RadosGateway, S3Server}

/** The S3 client on Ceph's gateway, a server that people run S3 with. For `make nightly`. */
class RadosGatewaySuite extends S3ServerContract(Dialect.Generic) {
  override protected def start(): S3Server = RadosGateway.start()

  // It answers 500 to who completes an upload that was aborted, which is tried until the deadline.
  override protected def policy: RetryPolicy = RetryPolicy(deadlineMs = 15000)
}
