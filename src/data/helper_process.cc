#include "data/helper_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "pleiad/error.h"

namespace pleiad::data {

namespace {

constexpr int kDeadlineMs = 60000;

/// Looks beside the library; for programs that contain the library, also in the lib folder next to theirs.
std::string path_of(const std::string& program, const std::string& where) {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&path_of), &here);
  const std::filesystem::path folder = std::filesystem::absolute(here.dli_fname).parent_path();
  for (const auto& candidate : {folder / program, folder / "../lib" / program}) {
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  throw FileError(
      fmt::format("{}: the program {} that reads and writes it is missing in {}", where, program, folder.string()));
}

}  // namespace

HelperProcess::HelperProcess(const std::string& program, const std::vector<std::string>& arguments, std::string where)
    : program_(program), where_(std::move(where)) {
  const std::string path = path_of(program, where_);
  std::vector<char*> words = {const_cast<char*>(path.c_str())};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int in[2];
  int out[2];
  // A socket instead of a pipe, because MSG_NOSIGNAL turns a write without a reader into an error instead of SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) fail(std::strerror(errno));
  if (::pipe2(out, O_CLOEXEC) != 0) {
    ::close(in[0]);
    ::close(in[1]);
    fail(std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const int code = ::posix_spawn(&process_, path.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (code != 0) {
    process_ = -1;
    ::close(input_);
    ::close(output_);
    fail(fmt::format("{} cannot be started: {}", path, std::strerror(code)));
  }
}

HelperProcess::~HelperProcess() {
  if (process_ > 0) ::kill(process_, SIGKILL);
  (void)ending();
  if (input_ >= 0) ::close(input_);
  if (output_ >= 0) ::close(output_);
}

std::string HelperProcess::ending() {
  if (process_ < 0) return "it has ended";
  int status = 0;
  pid_t done = 0;
  do {
    done = ::waitpid(process_, &status, 0);
  } while (done < 0 && errno == EINTR);
  process_ = -1;
  if (done < 0) return "it has ended";  // other code has waited for it
  if (WIFSIGNALED(status)) return fmt::format("it was ended by signal {}", WTERMSIG(status));
  return fmt::format("it ended with code {}", WEXITSTATUS(status));
}

void HelperProcess::fail(const std::string& what) { throw FileError(fmt::format("{}: {}", where_, what)); }

void HelperProcess::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    pollfd ready{input_, POLLOUT, 0};
    const int count = ::poll(&ready, 1, kDeadlineMs);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) {
      ::kill(process_, SIGKILL);
      fail(fmt::format("{} has read no input for {} s", program_, kDeadlineMs / 1000));
    }
    const ssize_t done = ::send(input_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done <= 0) return;  // the program's error is still to be read
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void HelperProcess::close_input() {
  ::close(input_);
  input_ = -1;
}

std::size_t HelperProcess::read_some(std::span<std::byte> out) {
  while (true) {
    pollfd ready{output_, POLLIN, 0};
    const int count = ::poll(&ready, 1, kDeadlineMs);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) {
      ::kill(process_, SIGKILL);
      fail(fmt::format("{} has written no output for {} s; the file may be damaged", program_, kDeadlineMs / 1000));
    }
    const ssize_t done = ::read(output_, out.data(), out.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(fmt::format("is damaged: {} could not read it; {}", program_, ending()));
    return static_cast<std::size_t>(done);
  }
}

std::string HelperProcess::read_line() {
  std::string line;
  while (true) {  // byte by byte, because binary data follows; lines are short
    std::byte letter{};
    (void)read_some({&letter, 1});
    if (letter == std::byte{'\n'}) return line;
    line += static_cast<char>(letter);
    if (line.size() > (1U << 20)) fail("its reply has no line end within 1 MiB");
  }
}

void HelperProcess::read(std::span<std::byte> out) {
  while (!out.empty()) out = out.subspan(read_some(out));
}

}  // namespace pleiad::data
