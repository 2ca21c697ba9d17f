package io.cleancut.objectstore

import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.{S3ProxyServer, S3Server}

/** The S3 client on s3proxy. */
abstract class S3ProxyContractSuite(dialect: Dialect) extends S3ServerContract(dialect) {
  override protected def start(): S3Server = S3ProxyServer.start()
}

class S3ProxyGenericSuite extends S3ProxyContractSuite(Dialect.Generic)

class S3ProxyAwsSuite extends S3ProxyContractSuite(Dialect.Aws)
