# C types for lease.py.

cimport cython
cimport kshare.fast.byte_runs as byte_runs
from libc.stdint cimport int64_t

cdef int _accept, _held, _lost, _renew, _renewing, _highest


@cython.final
cdef class UndecidedCounter:
    cdef public int64_t undecided
    cdef int64_t _notify_at
    cdef object _notify

    cpdef notify_at(self, int64_t undecided)

    cpdef add(self, int64_t more)

    cpdef notify(self)


@cython.final
cdef class Lease:
    cdef readonly object partition
    cdef readonly int64_t first, last
    cdef readonly int delivery_count
    cdef public double deadline
    cdef public object leader_epochs, loss_reason
    cdef public list held_losses
    cdef public object reported_losses
    cdef readonly bytearray states
    cdef UndecidedCounter _counter
    cdef Py_ssize_t _size

    cpdef Py_ssize_t count(self, unsigned char state) except -1

    cpdef Py_ssize_t count_between(self, unsigned char low, unsigned char high) except -1

    @cython.locals(states=bytearray, types=bytes, kind="unsigned char")
    cpdef bytes send(self, Py_ssize_t start, Py_ssize_t stop)

    @cython.locals(runs=list, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef list runs_in(self, int64_t first, int64_t last, tuple states)

    cpdef list spans_in(self, int64_t first, int64_t last, tuple states)

    @cython.locals(index=int64_t, state=int)
    cpdef bint is_held(self, int64_t offset) except -1

    @cython.locals(index=int64_t)
    cpdef bint is_lost(self, int64_t offset) except -1

    @cython.locals(index=int64_t, state=int)
    cpdef bint can_decide(self, int64_t offset) except -1

    @cython.locals(index=int64_t, state=int, was_held=bint)
    cpdef bint decide(self, int64_t offset, int kind) except -1

    cpdef bint decide_quietly(self, int64_t offset, int kind) except -1

    @cython.locals(index=int64_t)
    cpdef bint accept_quietly(self, int64_t offset) except -1

    cpdef bint decide_if_held(self, int64_t offset, int kind) except -1
