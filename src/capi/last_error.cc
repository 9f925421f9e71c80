#include "capi/last_error.h"

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

}  // namespace

int set_last_error(int code, std::string_view text) noexcept {
  last.code = code;
  try {
    last.text = text;
    last.shown = last.text.c_str();
  } catch (...) {
    last.shown = "no memory for the words of an error";
  }
  return code;
}

}  // namespace pleiad

extern "C" {

const char* pleiad_last_error(void) { return pleiad::last.shown; }
int pleiad_last_error_code(void) { return pleiad::last.code; }
void pleiad_clear_error(void) { pleiad::set_last_error(PLEIAD_OK, ""); }
const char* pleiad_version(void) { return PLEIAD_VERSION; }

}  // extern "C"
