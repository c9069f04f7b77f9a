"""Commands of the pipeline and its tables: run, audit, report, jobs, and Spark's sinks and subscriptions."""
