// Frames that ranks exchange while they connect: "AMPRANK\n", the length (4 bytes, big endian), and that many bytes of
// JSON. Reading stops exactly at the end of a frame, because messages may follow.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace amp {

enum class FrameResult {
  frame,
  closed,   // the peer closed the connection
  late,     // the frame is not complete yet
  foreign,  // not a frame of this program
  unproven  // a frame without the proof that the sender belongs to the run (handshake.h)
};

constexpr size_t kMostFrame = 64 * 1024;  // bytes of the JSON of a frame from a process that may be a stranger

// Reads one frame from a non-blocking socket as its bytes arrive.
class FrameReader {
 public:
  // most: limit of the bytes of JSON; longer frames are foreign.
  explicit FrameReader(size_t most = kMostFrame) : most_(most) {}
  // Reads the bytes that have arrived, at most up to the end of the frame.
  FrameResult read(int socket, nlohmann::json& json);

 private:
  size_t length() const;
  bool foreign() const;

  size_t most_;
  std::string bytes_;
};

// Sends a frame. until: a time of steady_seconds(). Returns false if the peer closed the connection or does not read in
// time.
bool send_frame(int socket, const nlohmann::json& json, double until);
// Reads a frame and waits for it until `until`.
FrameResult read_frame(int socket, nlohmann::json& json, double until, size_t most = kMostFrame);

}  // namespace amp
