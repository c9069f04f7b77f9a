"""The report: what the tables say, as one HTML page with pictures. `collect` asks Spark, `page` draws."""

from postroom.spark.report.collect import collect
from postroom.spark.report.data import LedgerSpan, ReportData
from postroom.spark.report.page import page

__all__ = ["LedgerSpan", "ReportData", "collect", "page"]
