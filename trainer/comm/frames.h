// Frames that ranks exchange while they connect: "AMPRANK\n", the length (4 bytes, big endian), and that many bytes of
// JSON. Reading stops exactly at the end of a frame, because messages may follow.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace amp {

enum class FrameResult { frame, closed, late, foreign };  // foreign: not a frame of this program

// Sends a frame. until: a time of steady_seconds(). Returns false if the peer closed the connection or does not read in
// time.
bool send_frame(int socket, const nlohmann::json& json, double until);
// Reads a frame. Returns foreign for a frame of more than `most` bytes.
FrameResult read_frame(int socket, nlohmann::json& json, double until, size_t most = 64 * 1024);

}  // namespace amp
