// Found by sources that include <host_defines.h>; all that the CPU shim has is in cuda_shim.hpp, which is there already.
