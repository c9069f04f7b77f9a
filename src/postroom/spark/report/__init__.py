"""The report: what the tables say, as one HTML page with pictures.

`reading` and `collect` make sums of the tables with Arrow, without Spark; `page` draws them.
"""
