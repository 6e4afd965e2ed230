// Found by sources that include <device_atomic_functions.h>; all that the CPU shim has is in cuda_shim.hpp, which is there already.
