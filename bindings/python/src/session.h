// pleiad._core: the C++ API for the Python package.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "pleiad/error.h"
#include "pleiad/session.h"

namespace pleiad::python {

/// A Session that one thread may close while another thread is inside one of its calls. pleiad._nn uses it too.
class SessionHandle {
 public:
  static SessionHandle* start(const std::map<std::string, std::string>& given);
  /// Returns the session. Throws StateError if it was left.
  [[nodiscard]] Session& use() const {
    if (session_ == nullptr) throw StateError("the session was left after an error; call init() to start another one");
    return *session_;
  }
  [[nodiscard]] std::shared_ptr<Session> share() const {
    (void)use();
    return session_;
  }
  std::string leave(const std::string& why);

 private:
  explicit SessionHandle(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  std::shared_ptr<Session> session_;
};

void bind_session(nanobind::module_& m);
void bind_tables(nanobind::module_& m);
void bind_options(nanobind::module_& m);
void bind_logs(nanobind::module_& m);
void bind_spatial(nanobind::module_& m);
void bind_rules(nanobind::module_& m);

}  // namespace pleiad::python
