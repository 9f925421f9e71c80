#include "streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace pleiad::cli {

namespace {

void make_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(to, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // no process reads it
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

Streams::~Streams() {
  for (const Output& output : outputs_) {
    if (output.from >= 0) close(output.from);
  }
  if (input_ >= 0) close(input_);
}

Streams::Ends Streams::open(int rank, bool tagged) {
  Ends ends;
  if (rank > 0) {
    ends.in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  } else if (isatty(STDIN_FILENO) != 0) {
    int both[2];
    make_pipe(both);
    ends.in = both[0];
    input_ = both[1];
    fcntl(input_, F_SETFL, O_NONBLOCK);
  }
  if (!tagged) return ends;
  for (const bool error : {false, true}) {
    int both[2];
    make_pipe(both);
    fcntl(both[0], F_SETFL, O_NONBLOCK);
    outputs_.push_back({.from = both[0],
                        .to = error ? STDERR_FILENO : STDOUT_FILENO,
                        .tag = fmt::format("[1,{}]<{}>:", rank, error ? "stderr" : "stdout"),
                        .line = ""});
    (error ? ends.err : ends.out) = both[1];
  }
  return ends;
}

void Streams::Ends::use() const {
  if (in >= 0) dup2(in, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
}

void Streams::Ends::close_all() const {
  for (const int fd : {in, out, err}) {
    if (fd >= 0) close(fd);
  }
}

void Streams::watch(std::vector<pollfd>& watched) const {
  for (const Output& output : outputs_) {
    if (output.from >= 0) watched.push_back({.fd = output.from, .events = POLLIN, .revents = 0});
  }
  if (input_ < 0) return;
  // Only a foreground process may read from a terminal.
  if (!pending_.empty()) {
    watched.push_back({.fd = input_, .events = POLLOUT, .revents = 0});
  } else if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
    watched.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
  }
}

void Streams::pump() {
  for (Output& output : outputs_) pump(output);
  pump_input();
}

void Streams::pump(Output& output) {
  char buffer[65536];
  while (output.from >= 0) {
    const ssize_t got = read(output.from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      close(output.from);
      output.from = -1;
      break;
    }
    output.line.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = output.line.find('\n'); end != std::string::npos; end = output.line.find('\n')) {
      write_line(output, output.line.substr(0, end));
      output.line.erase(0, end + 1);
    }
    show_progress(output);
  }
  if (!output.line.empty()) write_line(output, output.line);
  output.line.clear();
}

void Streams::write_line(const Output& output, std::string_view line) {
  if (isatty(output.to) == 0) return write_all(output.to, fmt::format("{}{}\n", output.tag, line));
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const std::size_t last = line.rfind('\r'); last != std::string_view::npos) line.remove_prefix(last + 1);
  write_all(output.to, fmt::format("{}{}{}\n", progress_ ? "\r\033[K" : "", output.tag, line));
  progress_ = false;
}

void Streams::show_progress(Output& output) {
  const std::size_t last = output.line.rfind('\r');
  if (last == std::string::npos || isatty(output.to) == 0) return;
  output.line.erase(0, last);
  write_all(output.to, fmt::format("\r\033[K{}{}", output.tag, std::string_view(output.line).substr(1)));
  progress_ = true;
}

void Streams::pump_input() {
  if (input_ < 0) return;
  if (pending_.empty()) {
    pollfd there{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || poll(&there, 1, 0) <= 0) return;
    char buffer[4096];
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got > 0) {
      pending_.assign(buffer, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      close(input_);
      input_ = -1;
      return;
    }
  }
  const ssize_t written = write(input_, pending_.data(), pending_.size());
  if (written > 0) {
    pending_.erase(0, static_cast<std::size_t>(written));
  } else if (written < 0 && errno != EAGAIN && errno != EINTR) {  // rank 0 has stopped reading
    close(input_);
    input_ = -1;
  }
}

void Streams::finish() {
  for (Output& output : outputs_) {
    pump(output);
    if (!output.line.empty()) write_line(output, output.line);
    output.line.clear();
  }
}

}  // namespace pleiad::cli
