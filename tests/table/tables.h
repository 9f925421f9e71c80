// Functions shared by the cases about tables.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/table/suite.h"

namespace pleiad::conformance {

/// Fewer repeats under a sanitizer, which makes every step many times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int repeats(int usual) { return (usual + 5) / 6; }
#else
constexpr int repeats(int usual) { return usual; }
#endif

/// Returns small whole numbers, whose sums are exact in every element type and order.
template <class T>
std::vector<T> whole_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<T> values(count);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<T>(static_cast<std::int64_t>(state >> 40U) % 1000);
  }
  return values;
}

template <class T>
void add_into(std::vector<T>& to, const std::vector<T>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

/// Calls body.template operator()<T>() for every element type.
template <class F>
void for_each_dtype(F&& body) {
  body.template operator()<float>();
  body.template operator()<double>();
  body.template operator()<std::int32_t>();
  body.template operator()<std::int64_t>();
}

template <class T>
TableOptions options_of(TableOptions options = {}) {
  options.dtype = dtype_of<T>;
  return options;
}

template <class T>
std::vector<T> all_of(const ArrayTable& table) {
  std::vector<T> values(static_cast<std::size_t>(table.size()));
  table.get(values);
  return values;
}

template <class T>
std::vector<T> all_of(const MatrixTable& table) {
  std::vector<T> values(static_cast<std::size_t>(table.rows() * table.cols()));
  table.get(values);
  return values;
}

template <class T>
std::vector<T> rows_of(const MatrixTable& table, const std::vector<RowId>& ids) {
  std::vector<T> values(ids.size() * static_cast<std::size_t>(table.cols()));
  table.get_rows(ids, values);
  return values;
}

/// Returns rows of a sparse or key-value table.
template <class T, class Table>
std::vector<T> rows_at(const Table& table, const std::vector<RowId>& ids, std::int64_t cols) {
  std::vector<T> out(ids.size() * static_cast<std::size_t>(cols));
  table.get(ids, out);
  return out;
}

inline TableOptions with(const char* clock, const char* apply = "each") {
  TableOptions options;
  options.clock = clock;
  options.apply = apply;
  return options;
}

/// Returns whether the text contains every word.
inline testing::AssertionResult mentions(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) {
      return testing::AssertionFailure() << "expected \"" << word << "\" in \"" << text << "\"";
    }
  }
  return testing::AssertionSuccess();
}

inline std::string rank_words(int rank) { return "rank " + std::to_string(rank) + " "; }

}  // namespace pleiad::conformance
