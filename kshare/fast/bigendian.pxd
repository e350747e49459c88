# The C bodies of bigendian.py, inlined into compiled callers.
# Each checks its bounds once; the compiler turns the shifts into one load or store and a byte swap.

cdef extern from *:
    """
    static inline unsigned long long kshare_load(const unsigned char *at, int size) {
        unsigned long long value = 0;
        for (int i = 0; i < size; i++) value = (value << 8) | at[i];
        return value;
    }
    static inline void kshare_store(unsigned char *at, int size, unsigned long long value) {
        for (int i = size - 1; i >= 0; i--) { at[i] = (unsigned char) value; value >>= 8; }
    }
    static inline double kshare_as_double(unsigned long long bits) {
        double value; memcpy(&value, &bits, sizeof value); return value;
    }
    static inline unsigned long long kshare_as_bits(double value) {
        unsigned long long bits; memcpy(&bits, &value, sizeof bits); return bits;
    }
    """
    unsigned long long kshare_load(const unsigned char *at, int size) noexcept
    void kshare_store(unsigned char *at, int size, unsigned long long value) noexcept
    double kshare_as_double(unsigned long long bits) noexcept
    unsigned long long kshare_as_bits(double value) noexcept


cdef inline const unsigned char *_room(const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t size) except NULL:
    if pos < 0 or pos + size > buf.shape[0]:
        raise IndexError("cut short")
    return <const unsigned char *> buf._data + pos

cdef inline signed char int8(const unsigned char[::1] buf, Py_ssize_t pos):
    return <signed char> _room(buf, pos, 1)[0]

cdef inline short int16(const unsigned char[::1] buf, Py_ssize_t pos):
    return <short> kshare_load(_room(buf, pos, 2), 2)

cdef inline int int32(const unsigned char[::1] buf, Py_ssize_t pos):
    return <int> kshare_load(_room(buf, pos, 4), 4)

cdef inline long long int64(const unsigned char[::1] buf, Py_ssize_t pos):
    return <long long> kshare_load(_room(buf, pos, 8), 8)

cdef inline unsigned short uint16(const unsigned char[::1] buf, Py_ssize_t pos):
    return <unsigned short> kshare_load(_room(buf, pos, 2), 2)

cdef inline unsigned int uint32(const unsigned char[::1] buf, Py_ssize_t pos):
    return <unsigned int> kshare_load(_room(buf, pos, 4), 4)

cdef inline double float64(const unsigned char[::1] buf, Py_ssize_t pos):
    return kshare_as_double(kshare_load(_room(buf, pos, 8), 8))


cdef inline int put_int8(unsigned char[::1] buf, Py_ssize_t pos, signed char value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 1), 1, <unsigned long long> value)
    return 0

cdef inline int put_int16(unsigned char[::1] buf, Py_ssize_t pos, short value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 2), 2, <unsigned long long> value)
    return 0

cdef inline int put_int32(unsigned char[::1] buf, Py_ssize_t pos, int value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 4), 4, <unsigned long long> value)
    return 0

cdef inline int put_int64(unsigned char[::1] buf, Py_ssize_t pos, long long value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 8), 8, <unsigned long long> value)
    return 0

cdef inline int put_uint16(unsigned char[::1] buf, Py_ssize_t pos, unsigned short value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 2), 2, value)
    return 0

cdef inline int put_uint32(unsigned char[::1] buf, Py_ssize_t pos, unsigned int value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 4), 4, value)
    return 0

cdef inline int put_float64(unsigned char[::1] buf, Py_ssize_t pos, double value) except -1:
    kshare_store(<unsigned char *> _room(buf, pos, 8), 8, kshare_as_bits(value))
    return 0
