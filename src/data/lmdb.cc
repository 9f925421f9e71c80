// LMDB's unnamed database, as SINGA and Caffe use it. Writes with LMDB's own library. Reads by walking the tree,
// because the library trusts the contents of a file and would read out of bounds in a damaged one.
#include <fmt/format.h>
#include <lmdb.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/text.h"
#include "data/pairs.h"
#include "file/atomic_path.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kData = "data.mdb";

// Format version 1. A page begins with a header: its number (8 bytes), 2 unused bytes, flags (2 bytes), then the
// offsets of the end of the node list and of the first node (2 bytes each) or, before a long value, its number of pages
// (4 bytes).
constexpr std::size_t kPageHeader = 16;
constexpr std::uint16_t kBranch = 0x01;
constexpr std::uint16_t kLeaf = 0x02;
constexpr std::uint16_t kLong = 0x04;
constexpr std::uint16_t kKinds = 0x6F;  // mask of the page kinds; the other bits are writers' marks
// A node consists of the size or page in three parts (2 bytes each; the third holds the flags of a leaf), the length of
// the key (2 bytes), the key and the value.
constexpr std::size_t kNodeHeader = 8;
constexpr std::uint16_t kBigValue = 0x01;
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr int kMaxDepth = 32;

template <class T>
T number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Meta {
  std::uint64_t page_size = 0;
  std::uint64_t depth = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = kNoPage;
  std::uint64_t transaction = 0;
};

class LmdbFile final : public IndexedPairs {
 public:
  explicit LmdbFile(const std::string& path) : IndexedPairs(path), file_(path) {
    const Meta meta = newest_meta();
    page_size_ = meta.page_size;
    pages_ = file_.bytes().size() / page_size_;
    if (meta.root != kNoPage) visit(meta.root, static_cast<int>(meta.depth));
    if (static_cast<std::uint64_t>(size()) != meta.entries) {
      fail(fmt::format("declares {} records; found {}", meta.entries, size()));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: record {}: {}", name(), grouped(size()), what));
  }

  [[nodiscard]] std::optional<Meta> meta_at(std::size_t offset) const {
    constexpr std::size_t kMetaBytes = kPageHeader + 136;
    const auto bytes = file_.bytes();
    if (bytes.size() < kMetaBytes || offset > bytes.size() - kMetaBytes) return std::nullopt;
    const std::byte* const meta = bytes.data() + offset + kPageHeader;
    if (number_at<std::uint32_t>(meta) != kMagic) return std::nullopt;
    if (const auto version = number_at<std::uint32_t>(meta + 4); version != 1) {
      throw FileError(fmt::format("{}: is an LMDB file of version {}; expected 1", name(), version));
    }
    // A meta page describes two databases: that of free pages, whose first field is the page size, and the unnamed one.
    const std::byte* const main = meta + 24 + 48;
    return Meta{.page_size = number_at<std::uint32_t>(meta + 24),
                .depth = number_at<std::uint16_t>(main + 6),
                .entries = number_at<std::uint64_t>(main + 32),
                .root = number_at<std::uint64_t>(main + 40),
                .transaction = number_at<std::uint64_t>(meta + 128)};
  }

  [[nodiscard]] Meta newest_meta() const {
    const std::optional<Meta> first = meta_at(0);
    if (!first) throw FileError(fmt::format("{}: is not an LMDB file", name()));
    const std::uint64_t size = first->page_size;
    if (size < 512 || size > 65536 || (size & (size - 1)) != 0) {
      throw FileError(
          fmt::format("{}: has pages of {} bytes; LMDB's are a power of two from 512 to 65536", name(), size));
    }
    std::optional<Meta> second = meta_at(static_cast<std::size_t>(size));
    if (!second) throw FileError(fmt::format("{}: is truncated or damaged: its second meta page is missing", name()));
    second->page_size = size;
    Meta newest = second->transaction > first->transaction ? *second : *first;
    if (newest.depth > kMaxDepth || (newest.depth == 0 && newest.root != kNoPage)) {
      throw FileError(fmt::format("{}: is damaged: its tree has {} levels", name(), newest.depth));
    }
    return newest;
  }

  [[nodiscard]] const std::byte* page(std::uint64_t number, std::uint16_t kind) const {
    if (number < 2 || number >= pages_) fail(fmt::format("is on page {}; the file has {} pages", number, pages_));
    const std::byte* const bytes = file_.bytes().data() + number * page_size_;
    if (const auto flags = number_at<std::uint16_t>(bytes + 10); (flags & kKinds) != kind) {
      fail(fmt::format("page {} is of kind {:#x}; expected {:#x}", number, flags & kKinds, kind));
    }
    return bytes;
  }

  /// Visits all records below a page that is `levels` levels above the leaves' end.
  void visit(std::uint64_t number, int levels) {
    if (++visited_ > pages_) fail("its tree is damaged: a page belongs to two others");
    const bool leaf = levels <= 1;
    const std::byte* const bytes = page(number, leaf ? kLeaf : kBranch);
    const std::size_t lower = number_at<std::uint16_t>(bytes + 12);
    if (lower < kPageHeader || lower > page_size_ || lower % 2 != 0) fail(fmt::format("page {} is damaged", number));
    for (std::size_t at = kPageHeader; at < lower; at += 2) {
      const std::size_t offset = number_at<std::uint16_t>(bytes + at);
      if (offset < lower || offset + kNodeHeader > page_size_) fail(fmt::format("page {} is damaged", number));
      const std::byte* const node = bytes + offset;
      const std::size_t room = page_size_ - offset - kNodeHeader;
      const std::size_t key = number_at<std::uint16_t>(node + 6);
      if (key > room) fail(fmt::format("its key extends beyond page {}", number));
      const std::uint64_t low = number_at<std::uint16_t>(node) | std::uint64_t{number_at<std::uint16_t>(node + 2)}
                                                                     << 16;
      const auto third = number_at<std::uint16_t>(node + 4);
      if (leaf) {
        append({.key = {node + kNodeHeader, key}, .value = value_of(node, key, low, third, room, number)});
      } else {
        visit(low | std::uint64_t{third} << 32, levels - 1);
      }
    }
  }

  [[nodiscard]] std::span<const std::byte> value_of(const std::byte* node, std::size_t key, std::uint64_t size,
                                                    std::uint16_t flags, std::size_t room, std::uint64_t number) const {
    const std::byte* const value = node + kNodeHeader + key;
    if ((flags & ~kBigValue) != 0) fail("is a sub-database or has several values, which is not supported");
    if ((flags & kBigValue) == 0) {
      if (size > room - key) fail(fmt::format("its value extends beyond page {}", number));
      return {value, static_cast<std::size_t>(size)};
    }
    if (room - key < sizeof(std::uint64_t)) fail(fmt::format("its value extends beyond page {}", number));
    const auto first = number_at<std::uint64_t>(value);
    const std::byte* const bytes = page(first, kLong);
    if (size > (pages_ - first) * page_size_ - kPageHeader) fail("its value continues after the end of the file");
    return {bytes + kPageHeader, static_cast<std::size_t>(size)};
  }

  MappedFile file_;
  std::uint64_t page_size_ = 0;
  std::uint64_t pages_ = 0;
  std::uint64_t visited_ = 0;
};

class LmdbWriter final : public PairWriter {
 public:
  explicit LmdbWriter(const std::string& path) : path_(path), place_(path, true) {
    check(mdb_env_create(&env_));
    check(mdb_env_set_mapsize(env_, map_));
    check(mdb_env_open(env_, place_.temporary().c_str(), MDB_NOLOCK | MDB_NOSYNC, 0666));
  }
  ~LmdbWriter() override { mdb_env_close(env_); }

  void put(std::string_view key, std::span<const std::byte> value) override {
    if (key.empty() || key.size() > kMaxKey) {
      throw InvalidArgument(
          fmt::format("{}: expected a key of 1 to {} bytes; received {}", path_, kMaxKey, key.size()));
    }
    batch_.push_back({.key = std::string(key), .value = {value.begin(), value.end()}});
    pending_bytes_ += value.size();
    if (pending_bytes_ > kBatchBytes || batch_.size() > kBatch) flush();
  }
  void commit() override {
    flush();
    check(mdb_env_sync(env_, 1));
    mdb_env_close(env_);
    env_ = nullptr;
    place_.commit();
  }

 private:
  static constexpr std::size_t kMaxKey = 511;
  static constexpr std::size_t kBatch = 1000;
  static constexpr std::size_t kBatchBytes = std::size_t{16} << 20;

  struct PendingPair {
    std::string key;
    std::vector<std::byte> value;
  };

  void check(int code) const {
    if (code != MDB_SUCCESS) throw FileError(fmt::format("{}: {}", path_, mdb_strerror(code)));
  }

  /// Writes the batch in one transaction. If the map is full, enlarges it and tries again.
  void flush() {
    while (!batch_.empty()) {
      const int code = write_batch();
      if (code == MDB_MAP_FULL) {
        map_ *= 2;
        check(mdb_env_set_mapsize(env_, map_));
        continue;
      }
      check(code);
      batch_.clear();
      pending_bytes_ = 0;
    }
  }

  int write_batch() {
    MDB_txn* transaction = nullptr;
    if (const int code = mdb_txn_begin(env_, nullptr, 0, &transaction); code != MDB_SUCCESS) return code;
    MDB_dbi database = 0;
    int code = mdb_dbi_open(transaction, nullptr, 0, &database);
    for (std::size_t i = 0; i < batch_.size() && code == MDB_SUCCESS; ++i) {
      MDB_val key{batch_[i].key.size(), batch_[i].key.data()};
      MDB_val value{batch_[i].value.size(), batch_[i].value.data()};
      code = mdb_put(transaction, database, &key, &value, MDB_NOOVERWRITE);
      if (code == MDB_KEYEXIST) {
        mdb_txn_abort(transaction);
        throw InvalidArgument(fmt::format("{}: received the key \"{}\" twice", path_, batch_[i].key));
      }
    }
    if (code == MDB_SUCCESS) return mdb_txn_commit(transaction);
    mdb_txn_abort(transaction);
    return code;
  }

  std::string path_;
  AtomicPath place_;
  MDB_env* env_ = nullptr;
  std::size_t map_ = std::size_t{1} << 28;
  std::vector<PendingPair> batch_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Pairs> open_lmdb(const std::string& path) {
  std::error_code ignored;
  return std::make_unique<LmdbFile>(fs::is_directory(path, ignored) ? (fs::path(path) / kData).string() : path);
}

std::unique_ptr<PairWriter> create_lmdb(const std::string& path) { return std::make_unique<LmdbWriter>(path); }

}  // namespace pleiad::data
