// SINGA's kvfile: for each record the length of the key as a little-endian 64-bit number, the key, the length of the
// value, and the value.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "core/text.h"
#include "data/content.h"
#include "data/pairs.h"
#include "file/atomic.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

constexpr const char* kShard = "shard.dat";

std::string file_of(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / kShard).string() : path;
}

class KvFile final : public IndexedPairs {
 public:
  explicit KvFile(const std::string& path) : IndexedPairs(path), content_(path) {
    std::span<const std::byte> left = content_.bytes();
    while (!left.empty()) {
      const std::span<const std::byte> key = take(left, "key");
      const std::span<const std::byte> value = take(left, "value");
      append({.key = key, .value = value});
    }
  }

 private:
  std::span<const std::byte> take(std::span<const std::byte>& left, const char* what) const {
    std::uint64_t length = 0;
    const bool counted = left.size() >= sizeof length;
    if (counted) std::memcpy(&length, left.data(), sizeof length);
    if (!counted || length > left.size() - sizeof length) {
      throw FileError(fmt::format("{}: is truncated or damaged in record {}, at byte {}: {}", name(), grouped(size()),
                                  content_.bytes().size() - left.size(),
                                  counted ? fmt::format("its {} should have {} bytes, but only {} are left", what,
                                                        length, left.size() - sizeof length)
                                          : fmt::format("the length of its {} is truncated", what)));
    }
    const auto bytes = left.subspan(sizeof length, static_cast<std::size_t>(length));
    left = left.subspan(sizeof length + static_cast<std::size_t>(length));
    return bytes;
  }

  Content content_;
};

class KvWriter final : public PairWriter {
 public:
  explicit KvWriter(const std::string& path) : file_(path) {}

  void put(std::string_view key, std::span<const std::byte> value) override {
    put(std::as_bytes(std::span(key)));
    put(value);
    if (buffer_.size() >= kBuffer) flush();
  }
  void commit() override {
    flush();
    file_.commit();
  }

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 20;

  void put(std::span<const std::byte> bytes) {
    const std::uint64_t length = bytes.size();
    const auto* const number = reinterpret_cast<const std::byte*>(&length);
    buffer_.insert(buffer_.end(), number, number + sizeof length);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<Pairs> open_kvfile(const std::string& path) { return std::make_unique<KvFile>(file_of(path)); }

std::unique_ptr<PairWriter> create_kvfile(const std::string& path) { return std::make_unique<KvWriter>(file_of(path)); }

}  // namespace pleiad::data
