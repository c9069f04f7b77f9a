"""``python traceable.py COMMAND…``: becomes COMMAND, which any process of the same user may then trace.

Ubuntu's kernel lets strace attach to its descendants alone, unless the process has agreed (Yama, prctl(2)).
"""

import ctypes
import os
import sys

PR_SET_PTRACER = 0x59616D61
ANY_PROCESS = -1

if __name__ == "__main__":
    # A kernel without Yama doesn't know this call, and doesn't need it.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANY_PROCESS), 0, 0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
