# C types for settlements.py.

cimport cython
from kshare.client.record cimport ShareBatch
from kshare.state.lease cimport Lease
from libc.stdint cimport int64_t

cdef int _lost


cdef class Settlements:
    cdef public object queue
    cdef object _schedule, _accept_if_held
    cdef public bint is_loop_free, is_scheduled

    cpdef bint settle(self, Lease lease, int64_t offset, int kind) except -1

    @cython.locals(lease=Lease)
    cdef accept(self, ShareBatch batch, int64_t offset)
