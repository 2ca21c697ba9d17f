"""The two stateful queries."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from demo import rotations
from demo.job import HOURLY, ROTATIONS, Job
from demo.location import spark_uri

INPUT_SCHEMA = (
    "seq long, event_time timestamp, arrived_at timestamp, cancelled boolean, origin string, "
    "dest string, carrier string, flight long, tailnum string, dep_delay long, arr_delay long, "
    "distance long"
)
# Files are in event order, so nothing is late; the delay only keeps some windows open.
WATERMARK_DELAY = "2 hours"


def build(spark: SparkSession, job: Job, query: str) -> DataFrame:
    """Returns the streaming result of one of the two queries.

    Args:
        spark: the session, in the time zone UTC.
        job: the job with the location of the input and the size of an epoch.
        query: HOURLY or ROTATIONS.
    """
    flights = (
        spark.readStream.schema(INPUT_SCHEMA)
        .option("maxFilesPerTrigger", job.files_per_trigger)
        .parquet(spark_uri(job.input))
        .withWatermark("event_time", WATERMARK_DELAY)
    )
    return {HOURLY: _hourly, ROTATIONS: _rotations}[query](flights)


def _hourly(flights: DataFrame) -> DataFrame:
    """Departures, cancellations and minutes of delay per hour, airport and carrier."""
    hour = f.window("event_time", "1 hour")
    return (
        flights.groupBy(hour, "origin", "carrier")
        .agg(
            f.count("*").alias("flights"),
            f.count_if("cancelled").alias("cancelled"),
            f.sum("dep_delay").alias("dep_delay_min"),
            f.sum("arr_delay").alias("arr_delay_min"),
        )
        .select(
            f.unix_millis("window.start").alias("hour_ms"),
            *("origin", "carrier", "flights", "cancelled", "dep_delay_min", "arr_delay_min"),
        )
    )


def _rotations(flights: DataFrame) -> DataFrame:
    """One row for each departure of a known aircraft, once it departs again or is parked."""
    departures = flights.where("not cancelled and tailnum is not null").select(
        *("tailnum", "event_time", "seq", "dest", "distance"),
        f.unix_millis("arrived_at").alias("arrived_ms"),
    )
    return departures.groupBy("tailnum").applyInPandasWithState(
        rotations.follow,
        rotations.RESULT_SCHEMA,
        rotations.STATE_SCHEMA,
        "append",
        rotations.TIMEOUT,
    )
