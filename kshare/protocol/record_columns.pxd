# C types for record_columns.py.

cimport cython
cimport kshare.fast.memory as memory
cimport kshare.protocol.record as record
from kshare.protocol.record cimport Record, RecordWalk
from libc.stdint cimport int32_t, int64_t, uint64_t


cdef bytearray _with_room(bytearray buffer, Py_ssize_t size)


@cython.final
cdef class BytesColumn:
    cdef bytearray _contents, _offsets, _validity
    cdef Py_ssize_t _room
    cdef int32_t* _offset_numbers
    cdef unsigned char* _content_bytes
    cdef unsigned char* _validity_bytes
    cdef readonly Py_ssize_t rows, size, null_count

    @cython.locals(missing=Py_ssize_t)
    cdef int reserve(self, Py_ssize_t rows) except -1

    @cython.locals(rows=Py_ssize_t)
    cdef int add(self, const unsigned char* source, Py_ssize_t start, Py_ssize_t stop) except -1

    cdef int _make_room(self, Py_ssize_t size) except -1


@cython.final
cdef class RecordColumns:
    cdef bytearray _offsets, _timestamps, _header_offsets
    cdef BytesColumn _keys, _values, _header_names, _header_values
    cdef readonly Py_ssize_t rows

    @cython.locals(
        before=Py_ssize_t, header_offsets="int32_t*", offsets="int64_t*", row=Py_ssize_t, scratch=Record,
        timestamps="int64_t*"
    )
    cpdef Py_ssize_t append(self, RecordWalk walk) except -1

    @cython.locals(rows=Py_ssize_t)
    cdef int _reserve(self, Py_ssize_t more) except -1

    @cython.locals(number=uint64_t, position=int64_t, end=int64_t)
    cdef int _add_headers(self, Record one) except -1

    cdef int _add_mended(self, bytes name) except -1
