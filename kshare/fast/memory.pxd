# The C bodies of memory.py, inlined into compiled callers.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
        #define kshare_is_unshared(one) 0
    #else
        #define kshare_is_unshared(one) (Py_REFCNT(one) == 2)
    #endif
    """
    bint kshare_is_unshared(object one) noexcept


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


cdef inline Py_ssize_t count_between(
    bytearray buffer, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high
) noexcept:
    cdef const unsigned char* data = <const unsigned char*> PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t count = 0
    while start < stop:
        count += _count_few(data + start, min(stop - start, 255), low, high)
        start += 255
    return count


cdef inline list runs_between(
    bytearray buffer, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high
):
    cdef const unsigned char* data = <const unsigned char*> PyByteArray_AS_STRING(buffer)
    cdef list runs = []
    cdef Py_ssize_t end
    while True:
        start = _reach(data, start, stop, low, high, False)
        if start >= stop:
            return runs
        end = _reach(data, start, stop, low, high, True)
        runs.append((start, end))
        start = end


cdef inline Py_ssize_t _reach(
    const unsigned char* data, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high, bint inside
) noexcept nogil:
    # Where the bytes that are between the two end, or those that aren't.
    while stop - start >= 128 and _count_few(data + start, 128, low, high) == (128 if inside else 0):
        start += 128
    while start < stop and (<unsigned char> (data[start] - low) <= <unsigned char> (high - low)) == inside:
        start += 1
    return start


cdef inline unsigned char _count_few(
    const unsigned char* data, Py_ssize_t size, unsigned char low, unsigned char high
) noexcept nogil:
    # 255 at most, so that a byte can count them: compilers make it a loop that takes sixteen at a time.
    cdef unsigned char width = high - low
    cdef unsigned char count = 0
    cdef Py_ssize_t index
    for index in range(size):
        count += <unsigned char> (data[index] - low) <= width
    return count


cdef inline int64_t wrapped(int64_t number) noexcept nogil:
    return number


cdef inline bytes kept(memoryview view):
    return <bytes> view


cdef inline bint is_unshared(object one) noexcept:
    return kshare_is_unshared(one)
