// Found by sources that include <math_constants.h>.
#pragma once
#include "../../cuda_headers/math_constants.h"
