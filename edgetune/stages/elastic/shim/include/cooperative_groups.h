#pragma once
#include "../../cuda_headers/cooperative_groups.h"
