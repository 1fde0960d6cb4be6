"""The border to sn_rng.h: the random numbers of a sample, for tests."""

__all__ = ["Rng", "philox"]


cdef class Rng:
    """The random numbers of one sample, as csrc/base/sn_rng.h draws them."""

    def __init__(self, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index, int stream=0):
        sn_rng_start(&self.value, seed, nonce, epoch, index, <sn_stream>stream)

    def u32(self):
        return sn_rng_u32(&self.value)

    def double(self):
        """Uniform in [0, 1)."""
        return sn_rng_double(&self.value)

    def below(self, uint32_t n):
        """Uniform in {0, ..., n - 1}."""
        if n == 0:
            raise ValueError("n must be positive")
        return sn_rng_below(&self.value, n)


def philox(key, counter):
    """One Philox4x32-10 block: four 32-bit numbers from two and four."""
    cdef uint32_t c_key[2]
    cdef uint32_t c_counter[4]
    cdef uint32_t out[4]
    c_key[0], c_key[1] = key
    c_counter[0], c_counter[1], c_counter[2], c_counter[3] = counter
    sn_philox(c_key, c_counter, out)
    return out[0], out[1], out[2], out[3]
