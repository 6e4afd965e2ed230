// Found by sources that include <driver_types.h>; all that the CPU shim has is in cuda_shim.hpp, which is there already.
