// Every kind of store with the same generated records, for the cases that test all kinds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pleiad/data.h"
#include "tests/file/folder.h"

namespace pleiad::test {

inline constexpr std::int64_t kRecords = 7;

/// Element `i` of record `r`, and the label of the record, in every store of the list.
inline int element(std::int64_t r, std::int64_t i) { return static_cast<int>((r * 31 + i * 7 + i / 13) % 251); }
inline int label(std::int64_t r) { return static_cast<int>(r * 3 % 10); }

/// The first `records` records with `elements` elements each, as bytes.
std::string images(std::int64_t records, std::int64_t elements);
std::string labels(std::int64_t records);
std::string big_endian(std::uint32_t number);
std::string idx_header(const std::vector<std::uint32_t>& shape);
std::string gzipped(const std::string& plain, const Folder& folder);
/// Returns an entry of SINGA's kvfile, and record `r` of shape 2 x 3 x 4 as SINGA's message, encoded byte by byte.
std::string pair(const std::string& key, const std::string& value);
std::string record(std::int64_t r, bool pixels);

struct StoreCase {
  std::string name;
  /// Writes the files of the records, and returns the options that open them.
  std::function<StoreOptions(const Folder& folder)> write;
  int damages = 700;  ///< number of damaged variants of the files that are tried
};

/// At least one entry per kind of store. A new kind gets a line in stores.cc.
std::vector<StoreCase> store_cases();

/// Returns a whole field of these records, as doubles.
std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records);
std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records,
                            const Window& window);

}  // namespace pleiad::test
