// Serves a running run's report to browsers on this machine: loopback only, read-only. It runs GNU libmicrohttpd in a
// separate thread, with limits on connections, their memory and their time.
//
//   /, /report.html         the current page; it requests /report.json every few seconds
//   /report.json            the page's data
//   /metrics.jsonl, /eval.jsonl
//
// Only GET and HEAD are allowed. Request paths are compared with these names and not opened. A request's Host must be
// this machine (127.0.0.1, localhost, [::1], any port, so that tunnels work). Other hosts get 403, which prevents DNS
// rebinding.
#pragma once

#include <memory>
#include <string>

namespace amp {

class ReportServer {
 public:
  // port 0: any free port. Exit::usage E_SERVE if the port cannot be used.
  ReportServer(std::string run_folder, int port);
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;
  ~ReportServer();  // does not wait for clients

  std::string address() const;  // "http://127.0.0.1:43211/"
  int port() const;
  void moved(std::string run_folder);  // the run's files were moved to this folder

 private:
  struct Daemon;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace amp
