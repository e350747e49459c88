# C types for time_slice.py.

cimport cython
cimport kshare.fast.coarse_clock as coarse_clock
cimport kshare.fast.first_step as first_step
from kshare.client.record cimport BatchIterator, ShareRecord

cdef int _accept


@cython.final
cdef class TimeSlice:
    cdef object _awaitable, _call, _check_result, _yielded
    cdef list _results
    cdef readonly ShareRecord record
    cdef public Py_ssize_t done
    cdef public bint is_halted

    @cython.locals(record=ShareRecord)
    cpdef int run(self, BatchIterator records, long long until_ms) except -1
