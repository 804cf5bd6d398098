"""Captures and reports on many machines, with Spark.

>>> from tidegate import spark as on_spark
>>> found = on_spark.analyse(session, "s3a://samples/2026-11-22/*.pcapng.zst", asn="networks.mmdb")
>>> found.rows.write.partitionBy("date", "hour").parquet("s3a://rows/segments")
>>> found.problems.show()
>>> print(on_spark.report(on_spark.dataset(session, "s3a://rows")))

It needs PySpark 4: `pip install './python[spark]'`, on the driver and on each executor.
"""

from ._analyse import Analysis, analyse
from ._report import dataset, report

__all__ = ["Analysis", "analyse", "dataset", "report"]
