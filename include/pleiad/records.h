// Files of keys and values, and the records that SINGA and Caffe store in them.
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

/// The keys and values of a file in order. Thread-safe. Values stay valid as long as this object. A damaged file is a
/// FileError that names the file and the record.
class PLEIAD_API Pairs {
 public:
  virtual ~Pairs();
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;

  /// Returns the path of the file.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::string key(std::int64_t index) const = 0;
  [[nodiscard]] virtual std::span<const std::byte> value(std::int64_t index) const = 0;

 protected:
  explicit Pairs(std::string name);

 private:
  std::string name_;
};

/// Opens a file of pairs. kvfile: SINGA's {length, key, length, value}; a folder stands for the shard.dat in it. lmdb:
/// the unnamed database in the order of its keys; a folder stands for the data.mdb in it. textfile: a value is a line,
/// and its key is the number of the line, starting at 0. kvfile and textfile may be gzipped.
[[nodiscard]] PLEIAD_API std::unique_ptr<Pairs> open_pairs(const std::string& kind, const std::string& path);
[[nodiscard]] PLEIAD_API std::vector<std::string> pair_kinds();

/// Writes pairs to a file. The file appears complete after `commit`; without it, the previous content stays. Not
/// thread-safe: one thread at a time.
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

/// Creates a file of one of the kinds of open_pairs. lmdb writes a folder that LMDB's own library can read.
[[nodiscard]] PLEIAD_API std::unique_ptr<PairWriter> create_pairs(const std::string& kind, const std::string& path);

/// A SINGA record: shape, label, and either bytes (pixel) or floats (data).
struct Record {
  std::vector<std::int64_t> shape = {};
  std::optional<std::int32_t> label = {};
  std::string pixel = {};
  std::vector<float> data = {};
};

/// Parses a record. Invalid bytes are a FileError that begins with `where`. Unknown fields are skipped.
[[nodiscard]] PLEIAD_API Record parse_record(std::span<const std::byte> bytes, const std::string& where);
[[nodiscard]] PLEIAD_API std::string encode_record(const Record& record);

/// Read and write a mean file in SINGA's format: a kvfile whose key "mean" has a record of floats.
[[nodiscard]] PLEIAD_API Record read_mean(const std::string& path);
PLEIAD_API void write_mean(const std::string& path, const std::vector<std::int64_t>& shape,
                           const std::vector<float>& mean);

}  // namespace pleiad
