// A logger for programs. It does not affect Pleiad's own log, which follows the session's log_level.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace multiverso {

enum class LogLevel : int { Debug = 0, Info = 1, Error = 2, Fatal = 3 };

/// Writes lines to stderr, formatted as by printf. Thread-safe.
class Log {
 public:
  static void ResetLogLevel(LogLevel level) { least() = level; }

  __attribute__((format(printf, 2, 3))) static void Write(LogLevel level, const char* format, ...) {
    va_list values;
    va_start(values, format);
    write(level, format, values);
    va_end(values);
  }
  __attribute__((format(printf, 1, 2))) static void Debug(const char* format, ...) {
    va_list values;
    va_start(values, format);
    write(LogLevel::Debug, format, values);
    va_end(values);
  }
  __attribute__((format(printf, 1, 2))) static void Info(const char* format, ...) {
    va_list values;
    va_start(values, format);
    write(LogLevel::Info, format, values);
    va_end(values);
  }
  __attribute__((format(printf, 1, 2))) static void Error(const char* format, ...) {
    va_list values;
    va_start(values, format);
    write(LogLevel::Error, format, values);
    va_end(values);
  }
  /// Logs, then ends the process with code 1, as in Multiverso.
  [[noreturn]] __attribute__((format(printf, 1, 2))) static void Fatal(const char* format, ...) {
    va_list values;
    va_start(values, format);
    write(LogLevel::Fatal, format, values);
    va_end(values);
    std::exit(1);
  }

 private:
  static LogLevel& least() {
    static LogLevel level = LogLevel::Info;
    return level;
  }
  static void write(LogLevel level, const char* format, va_list values) {
    if (level < least()) return;
    static constexpr const char* kNames[] = {"debug", "info", "error", "fatal"};
    char line[1024];
    const int prefix = std::snprintf(line, sizeof line, "[%s] ", kNames[static_cast<int>(level)]);
    std::vsnprintf(line + prefix, sizeof line - static_cast<std::size_t>(prefix), format, values);
    std::fputs(line, stderr);
  }
};

}  // namespace multiverso

#ifndef CHECK
#define CHECK(condition)                                                                                            \
  do {                                                                                                              \
    if (!(condition)) ::multiverso::Log::Fatal("%s:%d: CHECK(%s) does not hold\n", __FILE__, __LINE__, #condition); \
  } while (false)
#endif
#ifndef CHECK_NOTNULL
#define CHECK_NOTNULL(pointer) CHECK((pointer) != nullptr)
#endif
