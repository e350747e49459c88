# C types for record.py. Positions are stored in 32 bits: the size of a batch is an int32.

cimport cython
cimport kshare.fast.memory as memory
cimport kshare.fast.uncollected as uncollected
from libc.stdint cimport int32_t, int64_t, uint64_t

ctypedef (uint64_t, int64_t) number_and_position

cdef int64_t _LONGEST_NUMBER


@cython.locals(byte=uint64_t, shift=cython.uint, number=uint64_t)
cdef number_and_position read_number(
    const unsigned char* data, int64_t position, int64_t end, unsigned int last_shift
) noexcept nogil


cdef class Record:
    cdef bytes _kept
    cdef const unsigned char* _data
    cdef readonly int64_t offset
    cdef int64_t _base_timestamp
    cdef int32_t _timestamp_at, _key_at, _key_stop, _value_at, _value_stop, _headers_at, _header_count, _stop
    cdef readonly bint has_append_time

    @cython.locals(number=uint64_t)
    cdef int64_t read_timestamp(self) noexcept

    @cython.locals(position=int64_t, end=int64_t, number=uint64_t)
    cdef _read_headers(self)


@cython.locals(
    first=uint64_t, left=int64_t, name_end=int64_t, number=uint64_t, others=int64_t, position=int64_t, room=int64_t,
    size=int64_t, start=int64_t, stop=int64_t, value_at=int64_t
)
cdef tuple _some_headers(Record record, int64_t most, bytes prefix)


@cython.final
cdef class RecordWalk:
    cdef bytes _kept
    cdef const unsigned char* _data
    cdef int64_t _position, _end, _count, _left
    cdef int64_t _base_offset, _base_timestamp, _last_delta, _previous_delta, _first, _last
    cdef bint _has_append_time
    cdef int64_t _broken_at
    cdef Py_ssize_t _range_index
    cdef object _ranges, _stopped

    cpdef int64_t records_left(self) noexcept

    cpdef int64_t broken_at(self) noexcept

    cpdef object stopped(self)

    @cython.locals(left=int64_t, position=int64_t, previous_delta=int64_t)
    cpdef resume(self, tuple stop)

    @cython.locals(one=Record)
    cpdef list values(self)

    @cython.locals(
        at=int64_t, brink=int64_t, delta=int64_t, end=int64_t, more=uint64_t, number=uint64_t, stop=int64_t,
        timestamp_at=int64_t
    )
    cdef bint step(self, Record record) except -1

    @cython.locals(brink=int64_t, more=uint64_t, number=uint64_t)
    cdef int _find_parts(self, Record record, int64_t at, int64_t stop) except -1

    @cython.locals(number=uint64_t)
    cdef int64_t _behind_headers(self, uint64_t count, int64_t at, int64_t stop) except -1

    cdef bint _next_range(self, int64_t delta) except -1
