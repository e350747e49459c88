# C types for lease.py.

cimport cython
from libc.stdint cimport int64_t

cdef int _held, _renew, _renewing


@cython.final
cdef class Tally:
    cdef public int64_t undecided
    cdef int64_t _ring_at
    cdef object _ring

    cpdef ring_at(self, int64_t undecided)

    cpdef add(self, int64_t more)

    cpdef ring(self)


@cython.final
cdef class Lease:
    cdef readonly object partition
    cdef readonly int64_t first, last
    cdef readonly int delivery_count
    cdef public double deadline
    cdef public object epochs
    cdef public bytearray states
    cdef Tally _tally

    @cython.locals(state=int)
    cpdef bint is_held(self, int64_t offset) except -1

    @cython.locals(state=int)
    cpdef bint can_decide(self, int64_t offset) except -1

    @cython.locals(index=int64_t, state=int, was_held=bint)
    cpdef bint decide(self, int64_t offset, int kind) except -1

    cpdef decide_if_held(self, int64_t offset, int kind)
