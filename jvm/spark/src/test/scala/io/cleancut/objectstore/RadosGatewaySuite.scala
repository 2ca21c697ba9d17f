package io.cleancut.objectstore

import io.cleancut.objectstore.s3.{Dialect, RetryPolicy}
import io.cleancut.testkit.{RadosGateway, S3Server}

/** The S3 client on Ceph's S3 gateway, for `make nightly`. */
class RadosGatewaySuite extends S3ServerContract(Dialect.Generic) {
  override protected def start(): S3Server = RadosGateway.start()

  // It responds with 500 to the completion of an aborted upload, so the client retries until the
  // deadline.
  override protected def policy: RetryPolicy = RetryPolicy(deadlineMs = 15000)
}
