package io.cleancut.e2e

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutExtensions
import io.cleancut.conf.Keys
import io.cleancut.objectstore.S3TestStore
import io.cleancut.testkit.{LongTest, S3ProxyServer, S3Server, TestDirectory}

/**
 * A query whose checkpoint is on an object store, with a function that seals nothing and returns
 * early for what it has seen. Its driver dies when the function has taken an epoch, so before the
 * cut; the next one finds the frames of tasks that nobody ran again, and has to commit them.
 */
class DeathsOnS3Suite extends AnyFunSuite with MortalRuns with BeforeAndAfterAll {
  import MortalRuns._

  private var server: S3Server = _

  override protected def beforeAll(): Unit = server = S3ProxyServer.start()

  override protected def afterAll(): Unit = server.close()

  for ((name, master) <- Seq(("one process", Local), ("a cluster", Cluster)))
    test(
      s"drivers that die between a function's rows and the cut lose nothing, in $name",
      LongTest
    ) {
      TestDirectory.use("deaths-on-s3") { home =>
        val query = s"deaths/${name.replace(' ', '-')}"
        val job = jobIn(home, s"s3://${S3Server.Bucket}/$query")
        val confs = onServer :+ master
        val cuts = S3TestStore.archive(server.endpoint, query)
        (0 until 5).foreach(MortalQuery.write(job, _))
        // The first epoch, with no cut before it to say which stores there are, and a later one.
        for (epoch <- Seq(0L, 3L)) {
          val died = run(job, confs :+ (MortalQuery.DriverDeathKey -> epoch.toString): _*)
          assert(died.exitCode == 137, died.printed)
          assert(cuts.cuts.epochs() == (0L until epoch))
        }
        val last = run(job, confs: _*)
        assert(last.exitCode == 0, last.printed)
        assert(cuts.cuts.epochs() == (0L to 4L))
        val calls = Seq("0", "0 skipped", "1", "2", "3", "3 skipped", "4")
        assert(MortalQuery.calls(job) == calls)
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
