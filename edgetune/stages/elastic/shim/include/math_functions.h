// Found by sources that include <math_functions.h>; all that the CPU shim has is in cuda_shim.hpp, which is there already.
