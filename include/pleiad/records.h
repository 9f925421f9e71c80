// Files of keys and values, and the records that SINGA and Caffe keep in them.
//
//   auto pairs = pleiad::open_pairs("kvfile", "train_data.bin");
//   const pleiad::Record first = pleiad::parse_record(pairs->value(0), pairs->name());
//   auto out = pleiad::create_pairs("kvfile", "image_mean.bin");
//   out->put("mean", pleiad::encode_record(first));
//   out->commit();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/api.h"

namespace pleiad {

/// Keys and values in the file's order. Any thread may read; what `value` gives lives as long as this. What a file gets
/// wrong is a FileError that names the file and the record.
class PLEIAD_API Pairs {
 public:
  virtual ~Pairs();
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;

  /// The file.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::string key(std::int64_t index) const = 0;
  [[nodiscard]] virtual std::span<const std::byte> value(std::int64_t index) const = 0;

 protected:
  explicit Pairs(std::string name);

 private:
  std::string name_;
};

/// kvfile: SINGA's {length, key, length, value}; a folder means the shard.dat in it. lmdb: the unnamed database, by
/// key; a folder means the data.mdb in it. textfile: a value is a line, its key the line's number from 0 on. kvfile and
/// textfile may be gzipped.
[[nodiscard]] PLEIAD_API std::unique_ptr<Pairs> open_pairs(const std::string& kind, const std::string& path);
[[nodiscard]] PLEIAD_API std::vector<std::string> pair_kinds();

/// Pairs on their way into a file, which is there in whole after `commit`, and as it was without. One thread at a time.
class PLEIAD_API PairWriter {
 public:
  virtual ~PairWriter();
  PairWriter(const PairWriter&) = delete;
  PairWriter& operator=(const PairWriter&) = delete;

  virtual void put(std::string_view key, std::span<const std::byte> value) = 0;
  void put(std::string_view key, std::string_view value) { put(key, std::as_bytes(std::span(value))); }
  virtual void commit() = 0;

 protected:
  PairWriter();
};

/// The kinds of open_pairs. lmdb writes a folder that LMDB's own library reads.
[[nodiscard]] PLEIAD_API std::unique_ptr<PairWriter> create_pairs(const std::string& kind, const std::string& path);

/// SINGA's record: shape, label, and bytes (pixel) or numbers (data).
struct Record {
  std::vector<std::int64_t> shape = {};
  std::optional<std::int32_t> label = {};
  std::string pixel = {};
  std::vector<float> data = {};
};

/// A FileError that begins with `where` for bytes that are no record. Fields that it does not know are passed over.
[[nodiscard]] PLEIAD_API Record parse_record(std::span<const std::byte> bytes, const std::string& where);
[[nodiscard]] PLEIAD_API std::string encode_record(const Record& record);

/// A mean file as SINGA has it: a kvfile whose key "mean" has a record of floats.
[[nodiscard]] PLEIAD_API Record read_mean(const std::string& path);
PLEIAD_API void write_mean(const std::string& path, const std::vector<std::int64_t>& shape,
                           const std::vector<float>& mean);

}  // namespace pleiad
