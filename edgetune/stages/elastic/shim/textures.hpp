// Textures and surfaces, for a check that all forms of a kernel read and write the same.
//
//   texture    no memory: each number is made of the object's own number and the bits of the coordinates
//   surface    a buffer of the launch: its bytes, rows and layers, and then the memory, which is compared as others are
//
// Functions: CUDA C++ Programming Guide, "Texture Functions" and "Surface Functions". No filtering, no addressing modes.
#pragma once

typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, CUtexObject, CUsurfObject;
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };

namespace edgetune_shim {

static inline unsigned long long mixed(unsigned long long hash, const void *bytes, size_t count) {  // FNV-1a
    for (size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3ull;
    return hash ^ hash >> 29;
}

// Floating-point numbers are in [0, 1), integers of 32 bits below 8: they often are counts or places.
template <class T>
T texel(unsigned long long hash) {
    hash = (hash ^ hash >> 31) * 0x94d049bb133111ebull >> 32;
    if constexpr (std::is_floating_point<T>::value) {
        return static_cast<T>(hash >> 8) / 16777216;
    } else if constexpr (std::is_arithmetic<T>::value) {
        return static_cast<T>(sizeof(T) < 4 ? hash : hash % 8);
    } else {
        T value;
        using Number = decltype(value.x);
        for (size_t i = 0; i < sizeof(T) / sizeof(Number); ++i) {
            const Number number = texel<Number>(mixed(hash, &i, sizeof i));
            memcpy(reinterpret_cast<char *>(&value) + i * sizeof number, &number, sizeof number);
        }
        return value;
    }
}

template <class T, class... C>
T fetched(unsigned long long texture, const C &...coordinates) {
    unsigned long long hash = mixed(0xcbf29ce484222325ull, &texture, sizeof texture);
    ((hash = mixed(hash, &coordinates, sizeof coordinates)), ...);
    return texel<T>(hash);
}

struct Surface {  // as sample_launches.py makes it
    unsigned int bytes, rows, layers, unused;
    unsigned char memory[];
};

// Say that a thread is beside a surface, and end.
[[noreturn]] void beside_surface(const Surface &surface, int byte, int row, int layer);

// Return where an element is; nullptr where it is nowhere and may be.
static inline unsigned char *element(unsigned long long object, int size, int byte, int row, int layer,
                                     cudaSurfaceBoundaryMode mode) {
    Surface &surface = *reinterpret_cast<Surface *>(object);
    const int last[3] = {static_cast<int>(surface.bytes) - size, static_cast<int>(surface.rows) - 1,
                         static_cast<int>(surface.layers) - 1};
    int at[3] = {byte, row, layer};
    for (int i = 0; i < 3; ++i) {
        if (at[i] >= 0 && at[i] <= last[i]) continue;
        if (mode == cudaBoundaryModeTrap) beside_surface(surface, byte, row, layer);
        if (mode == cudaBoundaryModeZero) return nullptr;
        at[i] = at[i] < 0 ? 0 : last[i];
    }
    return surface.memory + (static_cast<size_t>(at[2]) * surface.rows + at[1]) * surface.bytes + at[0];
}

template <class T>
T surface_read(unsigned long long object, int byte, int row, int layer, cudaSurfaceBoundaryMode mode) {
    T value{};
    if (const unsigned char *from = element(object, sizeof value, byte, row, layer, mode)) memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
void surface_write(const T &value, unsigned long long object, int byte, int row, int layer, cudaSurfaceBoundaryMode mode) {
    if (unsigned char *to = element(object, sizeof value, byte, row, layer, mode)) memcpy(to, &value, sizeof value);
}

}  // namespace edgetune_shim

#define EDGETUNE_TEXTURE(NAME)                                                                                         \
    template <class T, class... C>                                                                                     \
    T NAME(unsigned long long texture, C... coordinates) {                                                             \
        return edgetune_shim::fetched<T>(texture, coordinates...);                                                     \
    }                                                                                                                  \
    template <class T, class... C>                                                                                     \
    void NAME(T *value, unsigned long long texture, C... coordinates) {                                                \
        *value = edgetune_shim::fetched<T>(texture, coordinates...);                                                   \
    }
#define EDGETUNE_TEXTURES(NAME) EDGETUNE_TEXTURE(NAME) EDGETUNE_TEXTURE(NAME##Lod) EDGETUNE_TEXTURE(NAME##Grad)
EDGETUNE_TEXTURE(tex1Dfetch)
EDGETUNE_TEXTURE(tex2Dgather)
EDGETUNE_TEXTURES(tex1D)
EDGETUNE_TEXTURES(tex2D)
EDGETUNE_TEXTURES(tex3D)
EDGETUNE_TEXTURES(tex1DLayered)
EDGETUNE_TEXTURES(tex2DLayered)
EDGETUNE_TEXTURES(texCubemap)
EDGETUNE_TEXTURES(texCubemapLayered)
#undef EDGETUNE_TEXTURES
#undef EDGETUNE_TEXTURE

#define EDGETUNE_SURFACE(NAME, PLACE, ...)                                                                             \
    template <class T>                                                                                                 \
    T NAME##read(unsigned long long surface, __VA_ARGS__, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {       \
        return edgetune_shim::surface_read<T>(surface, EDGETUNE_UNPACK PLACE, mode);                                   \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void NAME##read(T *value, unsigned long long surface, __VA_ARGS__,                                                 \
                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                                             \
        *value = edgetune_shim::surface_read<T>(surface, EDGETUNE_UNPACK PLACE, mode);                                 \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void NAME##write(T value, unsigned long long surface, __VA_ARGS__,                                                 \
                     cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                                            \
        edgetune_shim::surface_write(value, surface, EDGETUNE_UNPACK PLACE, mode);                                     \
    }
#define EDGETUNE_UNPACK(...) __VA_ARGS__
EDGETUNE_SURFACE(surf1D, (x, 0, 0), int x)
EDGETUNE_SURFACE(surf2D, (x, y, 0), int x, int y)
EDGETUNE_SURFACE(surf3D, (x, y, z), int x, int y, int z)
EDGETUNE_SURFACE(surf1DLayered, (x, 0, layer), int x, int layer)
EDGETUNE_SURFACE(surf2DLayered, (x, y, layer), int x, int y, int layer)
EDGETUNE_SURFACE(surfCubemap, (x, y, face), int x, int y, int face)
EDGETUNE_SURFACE(surfCubemapLayered, (x, y, layer), int x, int y, int layer)
#undef EDGETUNE_UNPACK
#undef EDGETUNE_SURFACE
