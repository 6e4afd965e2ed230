// Found by sources that include <cuda_runtime.h>; all that the CPU shim has is in cuda_shim.hpp, which is there already.
