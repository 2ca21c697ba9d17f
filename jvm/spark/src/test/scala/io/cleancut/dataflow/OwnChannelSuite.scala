package io.cleancut.dataflow

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.dataflow.OwnChannel.Operation

class OwnChannelSuite extends AnyFunSuite {

  private def epochs(of: DrawnChannel): Seq[Long] =
    ChannelLayout.numbersIn(of.names(ChannelLayout.Epochs))

  test("a loop that goes back, and back again, reads what counts for it") {
    val channel = new DrawnChannel
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
    // To before it went back.
    val undone = Operation(12, 6)
    OwnChannel.follow(channel, Seq(back, undone))
    assert(epochs(channel) == (0L to 6L))
    // And to where it had gone on: what was left then stays hidden.
    val again = Operation(14, 9)
    OwnChannel.follow(channel, Seq(back, undone, again))
    assert(epochs(channel) == (0L to 3L) :+ 9L)
  }

  test("acts that the log has no more are known from the sink") {
    val channel = new DrawnChannel
    (0L to 4L).foreach(epoch => channel.publish(epoch = epoch))
    OwnChannel.follow(channel, Seq(Operation(6, 1)))
    channel.publish(epoch = 7)
    channel.publish(epoch = 8)
    channel.put(ChannelLayout.operation(6), """{"formatVersion":1,"source":1}""")
    OwnChannel.follow(channel, Seq(Operation(10, 7)))
    assert(epochs(channel) == Seq(0L, 1L, 7L))
  }

  test("an act that goes on from the last epoch changes nothing") {
    val channel = new DrawnChannel
    (0L to 4L).foreach(epoch => channel.publish(epoch = epoch))
    OwnChannel.follow(channel, Seq(Operation(5, 4)))
    assert(epochs(channel) == (0L to 4L))
  }

  test("it is known whose a channel is") {
    val channel = new DrawnChannel
    assert(!OwnChannel.isOf(channel, "q"))
    channel.put(ChannelLayout.Owner, """{"formatVersion":1,"queryId":"q","checkpoint":"c"}""")
    assert(OwnChannel.isOf(channel, "q") && !OwnChannel.isOf(channel, "r"))
  }
}
