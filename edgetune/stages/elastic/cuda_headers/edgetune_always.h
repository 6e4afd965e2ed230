#pragma once
#include <cmath>
#include <limits.h>
#include <stdint.h>
typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
