// A file's bytes, plain or gzipped.
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

/// Whether the bytes are those of a gzip file.
[[nodiscard]] bool is_gzip(std::span<const std::byte> bytes);

/// Inflates a gzip file piece by piece. A FileError that names the file where it is truncated or damaged: the file's
/// own checksum is compared when its end is reached.
class Inflater {
 public:
  explicit Inflater(const MappedFile& file);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills as much of `out` as there is left, and returns how much that was.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  const MappedFile& file_;
  std::unique_ptr<Stream> stream_;
};

/// How much a packed file may take unpacked: half of the memory that is left when it is opened.
class MemoryLimit {
 public:
  /// `name` is the file, for messages.
  explicit MemoryLimit(std::string name);
  /// A MemoryError for more bytes than the limit.
  void check(std::size_t bytes) const;

 private:
  std::string name_;
  std::size_t bytes_;
};

/// All of a file: mapped where it is plain, in memory where it is gzipped.
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

/// Calls each(line, number) for every line, counted from 1 on, without its end ("\n" or "\r\n").
void for_each_line(std::span<const std::byte> bytes,
                   FunctionRef<void(std::string_view line, std::int64_t number)> each);

}  // namespace pleiad::data
