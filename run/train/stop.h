// Stop signals of the trainer, re-exported for programs that train through run/.
#pragma once

#include "trainer/loop/stop.h"
