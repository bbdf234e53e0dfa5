// Removal without memory, for destructors and signal handlers.
#pragma once

namespace amp {

// Removes a file, or a folder with its contents (at most four levels); links are not followed. Ignores errors.
// Async-signal-safe, and allocates no memory: std::filesystem::remove_all does, and its exception would end the process
// if a destructor calls it.
void remove_quietly(const char* path) noexcept;

}  // namespace amp
