# The C body of recycling.py, inlined into compiled callers.


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
        #define kshare_is_unshared(one) 0
    #else
        #define kshare_is_unshared(one) (Py_REFCNT(one) == 2)
    #endif
    """
    bint kshare_is_unshared(object one) noexcept


cdef inline bint is_unshared(object one) noexcept:
    return kshare_is_unshared(one)
