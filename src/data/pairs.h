// The kinds of key-value files. pairs.cc lists all of them.
#pragma once

#include <memory>
#include <string>

#include "pleiad/records.h"

namespace pleiad::data {

/// Key-value pairs in the memory of a file, indexed once when it is opened.
class IndexedPairs : public Pairs {
 public:
  [[nodiscard]] std::int64_t size() const final { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] std::string key(std::int64_t index) const final;
  [[nodiscard]] std::span<const std::byte> value(std::int64_t index) const final;

 protected:
  struct Entry {
    std::span<const std::byte> key;
    std::span<const std::byte> value;
  };

  using Pairs::Pairs;
  /// Appends a pair. Its bytes must live as long as this object.
  void append(const Entry& entry) { entries_.push_back(entry); }

 private:
  std::vector<Entry> entries_;
};

struct PairKind {
  std::string_view name;
  std::unique_ptr<Pairs> (*open)(const std::string& path);
  std::unique_ptr<PairWriter> (*create)(const std::string& path);
};

std::unique_ptr<Pairs> open_kvfile(const std::string& path);
std::unique_ptr<PairWriter> create_kvfile(const std::string& path);
std::unique_ptr<Pairs> open_lmdb(const std::string& path);
std::unique_ptr<PairWriter> create_lmdb(const std::string& path);
std::unique_ptr<Pairs> open_textfile(const std::string& path);
std::unique_ptr<PairWriter> create_textfile(const std::string& path);

}  // namespace pleiad::data
