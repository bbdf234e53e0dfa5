// Coverage of a forked child for libFuzzer, which reads only the counters of the parent.
#pragma once

namespace amp::fuzz {

// Allocates the memory that parent and children share. Call it before the first fork.
void share_coverage();
// In the child: clears its counters before an input, and publishes them after it. An input that ends the child leaves
// no coverage.
void begin_child_coverage();
void end_child_coverage();
// In the parent: adds what the child published to the counters of this process.
void add_child_coverage();

// In the child: a report by a sanitizer, other than one about too much memory, is a finding for the parent. Call it
// once after the fork.
void watch_child_faults();
// In the parent: ends the process, as a fault of the parent would, if the child has reported a fault.
void require_no_child_fault();

}  // namespace amp::fuzz
