// The bytes of a file, plain or gzipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "file/mapped.h"

namespace pleiad::data {

/// Returns true if the bytes start like a gzip file.
[[nodiscard]] bool is_gzip(std::span<const std::byte> bytes);

/// Inflates a gzip file step by step. Throws a FileError that names the file if it is truncated or damaged; the file's
/// checksum is verified when its end is reached.
class Inflater {
 public:
  explicit Inflater(const MappedFile& file);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` as far as data is left. Returns the number of bytes written.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  const MappedFile& file_;
  std::unique_ptr<Stream> stream_;
};

/// Limits the unpacked size of a compressed file to half of the memory that is available when it is opened.
class MemoryLimit {
 public:
  /// `name` is the file, for messages.
  explicit MemoryLimit(std::string name);
  /// Throws MemoryError if `bytes` exceeds the limit.
  void check(std::size_t bytes) const;

 private:
  std::string name_;
  std::size_t bytes_;
};

/// The whole content of a file: mapped if the file is plain, in memory if it is gzipped.
class Content {
 public:
  explicit Content(const std::filesystem::path& path);
  [[nodiscard]] std::span<const std::byte> bytes() const { return inflated_ ? std::span(memory_) : file_.bytes(); }
  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  bool inflated_;
  std::vector<std::byte> memory_;
};

/// Calls each(line, number) for every line. Numbers start at 1; lines exclude their end ("\n" or "\r\n").
void for_each_line(std::span<const std::byte> bytes,
                   FunctionRef<void(std::string_view line, std::int64_t number)> each);

}  // namespace pleiad::data
