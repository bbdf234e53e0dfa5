// A run's report for this machine's own browsers, while it goes on: on the loopback address alone, read-only. It is GNU
// libmicrohttpd in a thread of its own, which bounds what a client can take: connections, their memory, their time.
//
//   /, /report.html         the page, as of now; it asks for /report.json every few seconds
//   /report.json            what the page shows
//   /metrics.jsonl, /eval.jsonl
//
// GET and HEAD; nothing else of the file system is reached, paths are compared and never opened. A request must name
// this machine as its host (127.0.0.1, localhost, [::1], with any port: it may come through a tunnel): a page of
// another site whose name was made to lead here is answered 403 (DNS rebinding).
#pragma once

#include <memory>
#include <string>

namespace amp {

class ReportServer {
 public:
  // port 0: a free one. Exit::usage E_SERVE when nothing can listen there.
  ReportServer(std::string run_folder, int port);
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;
  ~ReportServer();  // whatever clients are doing: the process does not wait for them

  std::string address() const;  // "http://127.0.0.1:43211/"
  int port() const;
  void moved(std::string run_folder);  // the run's files have another place

 private:
  struct Daemon;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace amp
