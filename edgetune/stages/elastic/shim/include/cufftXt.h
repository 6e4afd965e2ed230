// Found by sources that include <cufftXt.h>.
#pragma once
#include "../../cuda_headers/library/cufft.h"
