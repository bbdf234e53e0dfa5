// What ranks say to each other while they connect, in frames: "AMPRANK\n", the length (4 bytes, the highest first),
// that many bytes of JSON. They are read to the byte, for messages may follow.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace amp {

enum class Heard { frame, closed, late, foreign };  // foreign: no frame of this program

// False: closed, or nobody reads until then (steady_seconds()).
bool send_frame(int socket, const nlohmann::json& json, double until);
// A frame of more bytes is none of ours.
Heard read_frame(int socket, nlohmann::json& json, double until, size_t most = 64 * 1024);

}  // namespace amp
