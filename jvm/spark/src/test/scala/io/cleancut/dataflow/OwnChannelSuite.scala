package io.cleancut.dataflow

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.dataflow.OwnChannel.Operation

class OwnChannelSuite extends AnyFunSuite {

  private def epochs(channel: RandomChannel): Seq[Long] =
    ChannelLayout.numbersIn(channel.names(ChannelLayout.Epochs))

  test("a query in a loop reads its own valid epochs after several rollbacks") {
    val channel = new RandomChannel
    (0L to 6L).foreach(epoch => channel.publish(epoch = epoch))
    OwnChannel.follow(channel, Nil)
    assert(epochs(channel) == (0L to 6L))
    val back = Operation(8, 3)
    OwnChannel.follow(channel, Seq(back))
    assert(epochs(channel) == (0L to 3L))
    OwnChannel.follow(channel, Seq(back))
    assert(epochs(channel) == (0L to 3L))
    channel.publish(epoch = 9)
    channel.publish(epoch = 10)
    OwnChannel.follow(channel, Seq(back))
    assert(epochs(channel) == (0L to 3L) ++ (9L to 10L))
    // A rollback to an epoch before the first rollback.
    val undone = Operation(12, 6)
    OwnChannel.follow(channel, Seq(back, undone))
    assert(epochs(channel) == (0L to 6L))
    // A rollback to an epoch after the first rollback; epochs that it skipped stay hidden.
    val again = Operation(14, 9)
    OwnChannel.follow(channel, Seq(back, undone, again))
    assert(epochs(channel) == (0L to 3L) :+ 9L)
  }

  test("operations that the log has deleted are known from the sink") {
    val channel = new RandomChannel
    (0L to 4L).foreach(epoch => channel.publish(epoch = epoch))
    OwnChannel.follow(channel, Seq(Operation(6, 1)))
    channel.publish(epoch = 7)
    channel.publish(epoch = 8)
    channel.put(ChannelLayout.operation(6), """{"formatVersion":1,"source":1}""")
    OwnChannel.follow(channel, Seq(Operation(10, 7)))
    assert(epochs(channel) == Seq(0L, 1L, 7L))
  }

  test("an operation on the last epoch hides no epoch") {
    val channel = new RandomChannel
    (0L to 4L).foreach(epoch => channel.publish(epoch = epoch))
    OwnChannel.follow(channel, Seq(Operation(5, 4)))
    assert(epochs(channel) == (0L to 4L))
  }

  test("the owner of a channel is recognized") {
    val channel = new RandomChannel
    assert(!OwnChannel.isOf(channel, "q"))
    channel.put(ChannelLayout.Owner, """{"formatVersion":1,"queryId":"q","checkpoint":"c"}""")
    assert(OwnChannel.isOf(channel, "q") && !OwnChannel.isOf(channel, "r"))
  }
}
