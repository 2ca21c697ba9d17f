package io.cleancut.testkit

import org.scalatest.{BeforeAndAfterAll, Suite}

/** An S3 server of a suite, with a proxy that injects faults. */
trait ProxiedServer extends BeforeAndAfterAll { this: Suite =>
  protected var server: S3Server = _
  protected var proxy: FaultProxy = _

  protected def startServer(): S3Server = S3ProxyServer.start()

  /** The endpoint of the proxy. */
  protected def endpoint: String = proxy.endpoint + server.path

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    server = startServer()
    proxy = new FaultProxy(server.port)
  }

  override protected def afterAll(): Unit = {
    proxy.close()
    server.close()
    super.afterAll()
  }
}
