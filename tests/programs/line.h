// Lines that many ranks write to one pipe without mixing them.
#pragma once

#include <unistd.h>

#include <string>

/// Written in one call, so that no bytes of other ranks come between.
inline void print_line(const std::string& line) {
  const std::string whole = line + "\n";
  (void)!write(STDOUT_FILENO, whole.data(), whole.size());
}

/// Formats as JSON.
inline std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}
