"""The report: what the tables say, as one HTML page with pictures.

`collect` makes sums of the tables with Arrow, without Spark; `page` draws them. `queue_state` says what was
on a queue at a time.

May import `audit`, `pipeline` and what is below them; not `jobs`.
"""
