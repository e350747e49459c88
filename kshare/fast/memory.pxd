# The C bodies of memory.py, inlined into compiled callers.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy


cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)


cdef inline const unsigned char* readable(memoryview view) noexcept:
    return <const unsigned char*> PyMemoryView_GET_BUFFER(view).buf


cdef inline unsigned char* writable(bytearray buffer) noexcept:
    return <unsigned char*> PyByteArray_AS_STRING(buffer)


cdef inline int32_t* int32s(bytearray buffer) noexcept:
    return <int32_t*> PyByteArray_AS_STRING(buffer)


cdef inline int64_t* int64s(bytearray buffer) noexcept:
    return <int64_t*> PyByteArray_AS_STRING(buffer)


cdef inline bytearray grown(bytearray buffer, Py_ssize_t size):
    PyByteArray_Resize(buffer, size)
    return buffer


cdef inline void copy(
    unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(target + at, source + start, size)


cdef inline void clear_bit(unsigned char* bits, Py_ssize_t index) noexcept nogil:
    bits[index >> 3] &= ~(1 << (index & 7))


cdef inline bint is_ascii(const unsigned char* source, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef unsigned char seen = 0
    cdef Py_ssize_t index
    for index in range(start, stop):
        seen |= source[index]
    return seen < 0x80


cdef inline int64_t wrapped(int64_t number) noexcept nogil:
    return number
