# C types for records.py.

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t


@cython.final
cdef class Batch:
    cdef readonly memoryview view
    cdef readonly int64_t base_offset, base_timestamp, max_timestamp, producer_id
    cdef readonly int32_t leader_epoch, last_offset_delta, base_sequence, record_count
    cdef readonly int16_t attributes, producer_epoch
    cdef readonly uint32_t checksum
    cdef object _budget, _walk
    cdef Py_ssize_t _start
    cdef bint _is_checked
    cdef memoryview _opened

    cpdef open(self)

    cpdef check(self)

    cdef int _check(self) except -1

    @cython.locals(codec=int32_t, room=int64_t, start=Py_ssize_t)
    cdef int _decompress(self) except -1
