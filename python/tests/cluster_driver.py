"""What test_spark_cluster runs as its driver: MASTER CAPTURES ROWS. It tells on its output how far it is."""

import os
import sys
import threading
import time

import pyarrow.parquet
from pyspark.sql import SparkSession
from tidegate import spark as on_spark


def main() -> None:
    master, captures, rows = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    build = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    # Tasks enough for the test to kill an executor between two of them: by itself, each of the two cores would have one.
    build = build.config("spark.executor.memory", "600m").config("spark.default.parallelism", "20")
    session = build.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    tracker = session.sparkContext.statusTracker()

    def executors() -> int:
        # The driver is one of them.
        return len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1

    def tell() -> None:
        while True:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and 3 <= stage.numCompletedTasks < stage.numTasks - 3 for stage in stages):
                print("underway", flush=True)
                return
            time.sleep(0.01)

    while executors() < 2:
        time.sleep(0.1)
    threading.Thread(target=tell, daemon=True).start()
    found = on_spark.analyse(session, captures).persist()
    pyarrow.parquet.write_table(found.rows.toArrow(), rows)
    # What the lost executor kept is made again.
    again = found.rows.count()
    print(f"{executors()} executor left, {again} rows again, {found.problems.count()} problems", flush=True)
    on_spark.report(found.rows, least_clients=1).save(f"{rows}-report")
    session.stop()


if __name__ == "__main__":
    main()
