#pragma once
#include "../../../cuda_headers/library/cooperative_groups/memcpy_async.h"
