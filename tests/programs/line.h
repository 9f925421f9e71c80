// Lines that many ranks write to one pipe without mixing them up.
#pragma once

#include <unistd.h>

#include <string>

/// In one call, so that no other rank's bytes come between.
inline void print_line(const std::string& line) {
  const std::string whole = line + "\n";
  (void)!write(STDOUT_FILENO, whole.data(), whole.size());
}

/// As JSON.
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
