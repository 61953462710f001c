// CUDA's vector types.
#ifndef PGAS_SIMT_TYPES_H
#define PGAS_SIMT_TYPES_H

typedef simt_dim3 uint3;
typedef unsigned char uchar;

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(simt_dim3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator simt_dim3() const { return {x, y, z}; }
};

#define SIMT_VECTOR(name, type)                                                                 \
    struct name##1 { type x; };                                                                 \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                    \
    struct alignas(sizeof(type) * 4 < 16 ? sizeof(type) * 4 : 16) name##4 { type x, y, z, w; }; \
    inline name##1 make_##name##1(type x) { return {x}; }                                       \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                            \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

SIMT_VECTOR(char, signed char)
SIMT_VECTOR(uchar, unsigned char)
SIMT_VECTOR(short, short)
SIMT_VECTOR(ushort, unsigned short)
SIMT_VECTOR(int, int)
SIMT_VECTOR(uint, unsigned)
SIMT_VECTOR(long, long)
SIMT_VECTOR(ulong, unsigned long)
SIMT_VECTOR(longlong, long long)
SIMT_VECTOR(ulonglong, unsigned long long)
SIMT_VECTOR(float, float)
SIMT_VECTOR(double, double)
#undef SIMT_VECTOR

struct int3 {
    int x, y, z;
};
struct float3 {
    float x, y, z;
};
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }

#endif
