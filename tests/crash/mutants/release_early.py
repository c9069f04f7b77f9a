"""``python -m tests.crash.mutants.release_early``: a broker that answers before the sync."""

from tests.crash.mutants.writers import EarlyWriter, serve_with

if __name__ == "__main__":
    serve_with(EarlyWriter)
