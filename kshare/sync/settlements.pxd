# C types for settlements.py.

from kshare.state.lease cimport Lease
from libc.stdint cimport int64_t


cdef class Settlements:
    cdef public object queue
    cdef object _schedule
    cdef public bint is_loop_free, is_scheduled

    cpdef bint settle(self, Lease lease, int64_t offset, int kind) except -1
