"""refuse.py ERRNO COMMAND PROGRAM ARGUMENT...: runs a program to which bpf(2) answers with an error.

COMMAND is the number of the one command that is refused, or -1 for all of them. It is a seccomp filter, so that the program and the kernel are the real ones.
"""

import ctypes
import os
import platform
import struct
import sys

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
# Classic BPF over struct seccomp_data: the call's number is at 0, its first argument at 16.
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
errno, command = int(sys.argv[1]), int(sys.argv[2])
program = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, BPF), (LOAD, 0, 0, 16)]
program += [(EQUAL, 0, 1, command)] if command >= 0 else [(EQUAL, 0, 0, 0)]
program += [(RETURN, 0, 0, ERRNO | errno), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
filter = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter, 0, 0):
    sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[3], sys.argv[3:])
