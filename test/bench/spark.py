"""Runs queries of the benchmark in one Spark session and prints a line of JSON for each.

Argument: a JSON object with master, bootstrap, jars (a folder), the topics, warmUps and queries, as spark.ts writes it. CPU is the
JVM's user and system time; its memory is the peak since the query began.
"""

import glob
import json
import os
import random
import shutil
import sys
import tempfile
import time

from pyspark.sql import SparkSession

settings = json.loads(sys.argv[1])
jars = ",".join(sorted(glob.glob(os.path.join(settings["jars"], "*.jar"))))
builder = (
    SparkSession.builder.master(settings["master"])
    .config("spark.driver.memory", "2g")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.parquet.compression.codec", "zstd")
    .config("spark.sql.session.timeZone", "UTC")
)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
ticks = os.sysconf("SC_CLK_TCK")

TUNED_SOURCE = {
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "5000",
    "kafka.receive.buffer.bytes": "1048576",
    "kafka.max.partition.fetch.bytes": "8388608",
}
TUNED_SESSION = {"spark.databricks.delta.snapshotPartitions": "2", "spark.sql.shuffle.partitions": "2"}
TOPIC_OF = {"delta100": "plain100", "delta1k": "plain1k", "json": "orders", "capped": "plain1k", "batches": "small1"}


def cpu_seconds():
    """User and system time of the JVM."""
    with open(f"/proc/{jvm}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / ticks


def peak_megabytes():
    """The JVM's peak since the last reset."""
    with open(f"/proc/{jvm}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def run(query):
    """One query, from its start to its end."""
    plain = query.removesuffix("Tuned")
    topic = settings[TOPIC_OF[plain]]
    is_tuned = query != plain
    for name, value in TUNED_SESSION.items():
        if is_tuned:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
    reader = reader.option("subscribe", topic["name"]).option("startingOffsets", "earliest")
    for name, value in TUNED_SOURCE.items() if is_tuned else ():
        reader = reader.option(name, value)
    if plain == "capped":
        reader = reader.option("maxOffsetsPerTrigger", -(-topic["records"] // 10))
    if plain == "batches":
        reader = reader.option("maxOffsetsPerTrigger", 10)
    rows = reader.load()
    if plain == "json":
        schema = "order_id string, amount double, ts timestamp, customer int"
        rows = rows.selectExpr(f"from_json(cast(value as string), '{schema}') as o").select("o.*")
    folder = tempfile.mkdtemp(prefix="spark-bench-")
    try:
        with open(f"/proc/{jvm}/clear_refs", "w") as file:
            file.write("5")
        cpu, started = cpu_seconds(), time.monotonic()
        writer = rows.writeStream.format("delta").trigger(availableNow=True)
        stream = writer.option("checkpointLocation", os.path.join(folder, "checkpoint")).start(os.path.join(folder, "table"))
        stream.awaitTermination()
        batches = len(os.listdir(os.path.join(folder, "checkpoint", "commits"))) // 2 if plain == "batches" else 1
        used = (cpu_seconds() - cpu) / batches
        figure = {"query": query, "wallS": (time.monotonic() - started) / batches, "cpuS": used, "rssMb": peak_megabytes()}
        count = spark.read.format("delta").load(os.path.join(folder, "table")).count()
        if count != topic["records"]:
            raise SystemExit(f"{query}: {count} of {topic['records']} rows")
        return figure
    finally:
        shutil.rmtree(folder, ignore_errors=True)


for query in settings["warmUps"]:
    run(query)
queries = list(settings["queries"])
random.shuffle(queries)
for query in queries:
    spark._jvm.System.gc()
    time.sleep(1)
    print(json.dumps(run(query)), flush=True)
spark.stop()
