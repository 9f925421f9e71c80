#include "capi/last_error.h"

#include <atomic>
#include <string>

#include "pleiad/pleiad.h"

namespace pleiad {

namespace {

struct LastError {
  std::string text;
  const char* shown = "";
  int code = PLEIAD_OK;
};
thread_local LastError last;
std::atomic<std::uint64_t> reads{0};

}  // namespace

int set_last_error(int code, std::string_view text) noexcept {
  last.code = code;
  try {
    last.text = text;
    last.shown = last.text.c_str();
  } catch (...) {
    last.shown = "out of memory while storing an error message";
  }
  return code;
}

const char* peek_last_error() noexcept { return last.shown; }
std::uint64_t error_reads() noexcept { return reads.load(); }

}  // namespace pleiad

extern "C" {

const char* pleiad_last_error(void) {
  pleiad::reads.fetch_add(1);
  return pleiad::last.shown;
}
int pleiad_last_error_code(void) {
  pleiad::reads.fetch_add(1);
  return pleiad::last.code;
}
void pleiad_clear_error(void) {
  pleiad::reads.fetch_add(1);
  pleiad::set_last_error(PLEIAD_OK, "");
}
const char* pleiad_version(void) { return PLEIAD_VERSION; }

}  // extern "C"
