#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "pleiad/error.h"

namespace pleiad::fuzz {

namespace {

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "fuzz target: %s: %s\n", what, detail.c_str());
  std::abort();
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

void expect_contract(std::string_view where, const std::function<void()>& read) {
  constexpr std::size_t kLongestMessage = 8192;
  try {
    read();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.kind() == ErrorKind::internal) fail("an InternalError", message);
    if (error.kind() != ErrorKind::file) return;
    if (message.find(where) == std::string::npos) fail("the message does not name the file", message);
    for (const char c : message) {
      if (is_control(c)) fail("the message has a control character", message);
    }
    if (message.size() > kLongestMessage) fail("the message is too long", message);
  }
}

std::string file_of(Input bytes, int slot) {
  static std::array<int, 4> files = {-1, -1, -1, -1};
  int& file = files.at(static_cast<std::size_t>(slot));
  if (file < 0) file = ::memfd_create("input", MFD_CLOEXEC);
  const auto size = static_cast<ssize_t>(bytes.size());
  if (file < 0 || ::ftruncate(file, 0) != 0 || ::pwrite(file, bytes.data(), bytes.size(), 0) != size) {
    fail("no file in memory", "");
  }
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace pleiad::fuzz
