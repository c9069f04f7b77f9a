"""``python -m tests.crash.mutants.write_late``: a broker that answers before it has written anything."""

from tests.crash.mutants.writers import LateWriter, serve_with

if __name__ == "__main__":
    serve_with(LateWriter)
