// Removal of files without allocating memory, for destructors and signal handlers.
#pragma once

namespace amp {

// Removes a file, or a folder with its contents (at most four levels); links are not followed. Ignores errors.
// Async-signal-safe. Unlike std::filesystem::remove_all it allocates no memory and cannot throw, so destructors may
// call it.
void remove_quietly(const char* path) noexcept;

}  // namespace amp
