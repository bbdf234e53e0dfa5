// Signals, for programs that train: what the trainer has for them.
#pragma once

#include "trainer/loop/stop.h"
