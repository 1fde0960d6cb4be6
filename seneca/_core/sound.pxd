"""The view of a sound that is decoded."""

from seneca._core.codec cimport sn_view


cdef sn_view view_of(const float[:, ::1] frames) except *
