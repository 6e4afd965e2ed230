// Found by sources that include <cufft.h>.
#pragma once
#include "../../cuda_headers/library/cufft.h"
