package io.cleancut.e2e

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutExtensions
import io.cleancut.conf.Keys
import io.cleancut.objectstore.S3TestStore
import io.cleancut.testkit.{LongTest, S3ProxyServer, S3Server, TestDirectory}

/**
 * A query whose checkpoint is on an object store, with a function that does not seal and skips
 * repeated epochs. Its driver dies after the function and before the cut. The next driver must
 * commit the frames of the tasks of the first run.
 */
class DeathsOnS3Suite extends AnyFunSuite with KillableRuns with BeforeAndAfterAll {
  import KillableRuns._

  private var server: S3Server = _

  override protected def beforeAll(): Unit = server = S3ProxyServer.start()

  override protected def afterAll(): Unit = server.close()

  for ((name, master) <- Seq(("one process", Local), ("a cluster", Cluster)))
    test(
      s"no rows are lost if drivers die between the function and the cut, in $name",
      LongTest
    ) {
      TestDirectory.use("deaths-on-s3") { home =>
        val query = s"deaths/${name.replace(' ', '-')}"
        val job = jobIn(home, s"s3://${S3Server.Bucket}/$query")
        val confs = onServer :+ master
        val cuts = S3TestStore.archive(server.endpoint, query)
        (0 until 5).foreach(KillableQuery.write(job, _))
        // The first epoch, before which no cut lists the stores, and a later one.
        for (epoch <- Seq(0L, 3L)) {
          val died = run(job, confs :+ (KillableQuery.DriverDeathKey -> epoch.toString): _*)
          assert(died.exitCode == 137, died.printed)
          assert(cuts.cuts.epochs() == (0L until epoch))
        }
        val last = run(job, confs: _*)
        assert(last.exitCode == 0, last.printed)
        assert(cuts.cuts.epochs() == (0L to 4L))
        val calls = Seq("0", "0 skipped", "1", "2", "3", "3 skipped", "4")
        assert(KillableQuery.calls(job) == calls)
        checkRows(job, files = 5, last)
      }
    }

  private def onServer: Seq[(String, String)] = Seq(
    Keys.S3Endpoint.name -> server.endpoint,
    Keys.S3Region.name -> "us-east-1",
    Keys.S3PathStyle.name -> "true",
    "spark.sql.extensions" -> classOf[CleancutExtensions].getName,
    "spark.executor.extraJavaOptions" -> S3Server.CredentialOptions
  ) ++ S3Server.Credentials ++ Skipping
}
